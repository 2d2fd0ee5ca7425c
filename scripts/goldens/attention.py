"""Attention as models write it out: every place of the scale, every form of mask, products of rank 3, grouped heads, casts and caps."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from . import torch_cases

B, H, G, D = 2, 4, 2, 8


def scaled(q, k):
    return torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.shape[-1])


def finish(x):
    return x.transpose(1, 2).contiguous().reshape(x.shape[0], x.shape[2], -1)


def repeated(x, n=H // G):
    b, g, t, d = x.shape
    return x[:, :, None, :, :].expand(b, g, n, t, d).reshape(b, g * n, t, d)


def seen(mask):
    """The places of an added mask that are seen."""
    return mask > -1


def llama(q, k, v, mask):
    scores = torch.matmul(q, repeated(k).transpose(2, 3)) * D**-0.5 + mask
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return finish(torch.matmul(weights, repeated(v)))


def interleaved(q, k, v, mask):
    k, v = k.repeat_interleave(H // G, dim=1), v.repeat_interleave(H // G, dim=1)
    return finish(torch.matmul(F.softmax(scaled(q, k) + mask, dim=-1), v))


def phi(q, k, v, mask):
    scores = torch.matmul(q.to(torch.float32), k.to(torch.float32).transpose(2, 3)) * D**-0.5 + mask
    return finish(torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype), v))


def gemma(q, k, v, mask):
    scores = torch.tanh(torch.matmul(q, repeated(k).transpose(2, 3)) * D**-0.5 / 50.0) * 50.0 + mask
    return finish(torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), repeated(v)))


def gpt2(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) / torch.full([], D**0.5, dtype=q.dtype)
    least = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
    scores = torch.where(seen(mask), scores, least)
    return finish(torch.matmul(F.softmax(scores, dim=-1).type(v.dtype), v))


def gpt2_two_masks(q, k, v, mask):
    t, s = q.shape[2], k.shape[2]
    causal = torch.ones(t, s, dtype=torch.bool).tril(diagonal=s - t)
    least = torch.full([], torch.finfo(q.dtype).min, dtype=q.dtype)
    scores = torch.where(causal, scaled(q, k), least) + mask
    return finish(torch.matmul(F.softmax(scores, dim=-1).type(v.dtype), v))


def filled(q, k, v, mask):
    return finish(torch.matmul(F.softmax(scaled(q, k).masked_fill(~seen(mask), torch.finfo(q.dtype).min), dim=-1), v))


def filled_infinite(q, k, v, mask):
    return finish(torch.matmul(F.softmax(scaled(q, k).masked_fill(mask < -1, float("-inf")), dim=-1), v))


def where_inverted(q, k, v, mask):
    return finish(torch.matmul(F.softmax(torch.where(mask < -1, torch.tensor(-1e9 if q.dtype == torch.float32 else -6e4).to(q.dtype), scaled(q, k)), dim=-1), v))


def distil(q, k, v, mask):
    q = q / math.sqrt(D)
    scores = torch.matmul(q, k.transpose(2, 3))
    hidden = (mask[:1, :1, :1] < -1).expand_as(scores)
    return finish(torch.matmul(F.softmax(scores.masked_fill(hidden, torch.finfo(q.dtype).min), dim=-1), v))


def bert(q, k, v, mask):
    keep = seen(mask).to(q.dtype)
    return finish(torch.matmul(F.softmax(scaled(q, k) + (1.0 - keep) * torch.finfo(q.dtype).min, dim=-1), v))


def t5(q, k, v, mask):
    return finish(torch.matmul(F.softmax((torch.matmul(q, k.transpose(3, 2)) + mask).float(), dim=-1).type_as(q), v))


def opt(q, k, v, mask):
    b, h, t, d = q.shape
    q, k, v = (q * d**-0.5).reshape(b * h, t, d), k.reshape(b * h, -1, d), v.reshape(b * h, -1, d)
    scores = torch.bmm(q, k.transpose(1, 2))
    s = k.shape[1]
    scores = (scores.view(b, h, t, s) + mask).view(b * h, t, s)
    return finish(torch.bmm(F.softmax(scores, dim=-1), v).view(b, h, t, d))


def bmm_alone(q, k, v, mask):
    b, h, t, d = q.shape
    q, k, v = q.reshape(b * h, t, d), k.reshape(b * h, -1, d), v.reshape(b * h, -1, d)
    return torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)) * d**-0.5, dim=-1), v) + 0 * mask[:1, 0, :, :1]


def bloom(q, k, v, mask):
    b, h, t, d = q.shape
    q, k, v = q.reshape(b * h, t, d), k.reshape(b * h, -1, d).transpose(1, 2), v.reshape(b * h, -1, d)
    s = k.shape[2]
    slopes = torch.tensor([2.0**-i for i in range(h)], dtype=q.dtype)[None, :, None, None]
    alibi = (slopes * torch.arange(s, dtype=q.dtype)).expand(b, h, 1, s).reshape(b * h, 1, s)
    scores = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=d**-0.5).view(b, h, t, s) + mask
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype).view(b * h, t, s)
    return finish(torch.bmm(weights, v).view(b, h, t, d))


def einsum(q, k, v, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * D**-0.5
    return torch.einsum("bhqk,bhkd->bqhd", F.softmax(scores + mask, dim=-1), v)


def both_scaled(q, k, v, mask):
    root = D**-0.25
    return finish(torch.matmul(F.softmax(torch.matmul(q * root, (k * root).transpose(2, 3)) + mask, dim=-1), v))


def key_scaled(q, k, v, mask):
    return finish(torch.matmul(F.softmax(torch.matmul(q, k.transpose(2, 3) * D**-0.5) + mask, dim=-1), v))


def mask_first(q, k, v, mask):
    return finish(torch.matmul(F.softmax(mask + scaled(q, k), dim=-1), v))


def causal_inside(q, k, v, mask):
    t, s = q.shape[2], k.shape[2]
    rows, columns = torch.arange(t)[:, None] + s - t, torch.arange(s)[None]
    keep = (columns <= rows) & (columns > rows - 5)
    scores = scaled(q, k).masked_fill(torch.logical_not(keep), float("-inf"))
    return finish(torch.matmul(F.softmax(scores, dim=-1), v)) + 0 * mask[:, 0, :, :1]


def spelled(q, k, v, mask):
    scores = scaled(q, k) + mask
    e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    return finish(torch.matmul(e / e.sum(dim=-1, keepdim=True), v))


def sdpa(q, k, v, mask):
    return finish(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def sdpa_boolean(q, k, v, mask):
    return finish(F.scaled_dot_product_attention(q, k, v, attn_mask=seen(mask)))


def sdpa_grouped(q, k, v, mask):
    return finish(F.scaled_dot_product_attention(q, repeated(k), repeated(v), attn_mask=mask, scale=0.3))


def grouped_5d(q, k, v, mask):
    b, h, t, d = q.shape
    scores = torch.matmul(q.view(b, G, h // G, t, d), k[:, :, None].transpose(3, 4)) * d**-0.5 + mask[:, :, None]
    return torch.matmul(F.softmax(scores, dim=-1), v[:, :, None]).reshape(b, h, t, d)


class Multihead(nn.Module):
    def __init__(self, dtype, weights):
        super().__init__()
        torch.manual_seed(5)
        self.inner = nn.MultiheadAttention(H * D, H, batch_first=True, dtype=dtype)
        self.weights = weights

    def forward(self, x, y, mask):
        return self.inner(x, y, y, attn_mask=mask, need_weights=self.weights)[0]


class Cached(nn.Module):
    """A cache of room for more than there is, as transformers' static one: written by index_copy_, seen through an added mask."""

    def __init__(self, dtype, room=24):
        super().__init__()
        self.register_buffer("key_cache", torch.zeros(B, G, room, D, dtype=dtype))
        self.register_buffer("value_cache", torch.zeros(B, G, room, D, dtype=dtype))

    def forward(self, q, k, v, mask, places):
        self.key_cache.index_copy_(2, places, k)
        self.value_cache.index_copy_(2, places, v)
        return llama(q, self.key_cache, self.value_cache, mask)


GROUPED = {"llama", "interleaved", "gemma", "sdpa_grouped", "grouped_5d"}
FULL = {"filled_infinite", "causal_inside", "sdpa_boolean"}  # a row that sees nothing has no values there, or what the converter makes of it
CHOSEN = {"gpt2", "filled", "where_inverted", "distil"}  # such a row is the mean in every type; sums of 16 bits lose the scores beside the mask
FORMS = [llama, interleaved, phi, gemma, gpt2, gpt2_two_masks, filled, filled_infinite, where_inverted, distil, bert, t5, opt, bmm_alone, bloom]
FORMS += [einsum, both_scaled, key_scaled, mask_first, causal_inside, spelled, sdpa, sdpa_boolean, sdpa_grouped, grouped_5d]
TYPES = {"f32": torch.float32, "f16": torch.float16}


def added_mask(generator, dtype, t, s, is_full, low):
    """Causal with holes; without `is_full` one row of one sequence sees nothing."""
    rows, columns = torch.arange(t)[:, None] + s - t, torch.arange(s)[None]
    keep = (columns <= rows) & (torch.rand(B, 1, t, s, generator=generator) > 0.2)
    keep[..., 0] = True
    if not is_full:
        keep[0, 0, t // 2] = False
    return torch.zeros(B, 1, t, s, dtype=dtype).masked_fill(~keep, low)


def arguments(name, dtype, t, s):
    generator = torch.Generator().manual_seed(t * 100 + s)
    heads = G if name in GROUPED else H
    shapes = ((B, H, t, D), (B, heads, s, D), (B, heads, s, D))
    low = -1e4 if dtype == torch.float16 else torch.finfo(dtype).min
    values = [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]
    is_full = name in FULL or (dtype == torch.float16 and name not in CHOSEN)
    return (*values, added_mask(generator, dtype, t, s, is_full, low))


def multihead_arguments(dtype, t, s):
    generator = torch.Generator().manual_seed(t * 100 + s)
    mask = added_mask(generator, dtype, t, s, True, float("-inf"))[:1, 0]
    values = [torch.randn(B, n, H * D, generator=generator).to(dtype) for n in (t, s)]
    return (*values, mask[0])


def cached_calls(dtype):
    at, calls = 0, []
    for n in (1,) * 9:
        generator = torch.Generator().manual_seed(at)
        q, k, v = (torch.randn(B, heads, n, D, generator=generator).to(dtype) for heads in (H, G, G))
        mask = torch.zeros(B, 1, n, 24, dtype=dtype)
        mask = mask.masked_fill(torch.arange(24)[None] > torch.arange(at, at + n)[:, None], -1e4)
        calls.append((q, k, v, mask, torch.arange(at, at + n)))
        at += n
    return calls


def catalogue():
    sizes = ((5, 9), (1, 7), (12, 12))
    for label, dtype in TYPES.items():
        for form in FORMS:
            yield f"attention_{form.__name__}_{label}", form, [arguments(form.__name__, dtype, t, s) for t, s in sizes]
            yield f"attention_{form.__name__}_fixed_{label}", form, [arguments(form.__name__, dtype, 6, 20)]
        for weights in (False, True):
            name = f"attention_multihead_{'weights_' if weights else ''}{label}"
            yield name, Multihead(dtype, weights), [multihead_arguments(dtype, t, s) for t, s in sizes]
        yield f"attention_cached_{label}", Cached(dtype), cached_calls(dtype)


def write_cases(out, wanted):
    written = refused = 0
    for name, module, calls in catalogue():
        if wanted and wanted not in name:
            continue
        try:
            torch_cases.make_case(out, name, module, calls, slack=2)
            written += 1
        except Exception as e:
            refused += 1
            print(f"refused {name}: {(str(e).strip().splitlines() or [type(e).__name__])[0][:160]}")
    return written, refused
