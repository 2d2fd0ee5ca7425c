"""Torch functions and modules, each in f32, f16 and bf16 and at several shapes."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from . import torch_cases

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Values:
    """Reproducible inputs of one element type."""

    def __init__(self, seed, dtype):
        self.generator, self.dtype = torch.Generator().manual_seed(seed), dtype

    def normal(self, *shape, scale=1.0):
        return (torch.randn(*shape, generator=self.generator) * scale).to(self.dtype)

    def unit(self, *shape, lo=0.0, hi=1.0):
        return (torch.rand(*shape, generator=self.generator) * (hi - lo) + lo).to(self.dtype)

    def integers(self, *shape, lo=-9, hi=9, dtype=torch.int32):
        return torch.randint(lo, hi, shape, generator=self.generator).to(dtype)

    def truth(self, *shape):
        return torch.rand(*shape, generator=self.generator) > 0.5

    def distinct(self, *shape):
        n = torch.Size(shape).numel()
        return ((torch.randperm(n, generator=self.generator) - n // 2) * 0.25).reshape(shape).to(self.dtype)


# name: (function, inputs of one call from (values, n)); n is the dynamic size
ONE = lambda v, n: (v.normal(n, 5),)
TWO = lambda v, n: (v.normal(n, 5), v.normal(5))
PAIR = lambda v, n: (v.normal(n, 4), v.normal(n, 4))
CUBE = lambda v, n: (v.normal(2, n, 4),)
IMAGE = lambda v, n: (v.normal(1, 3, 8, n + 6),)
FUNCTIONS = {
    "remainder": (lambda x, y: torch.remainder(x, y.abs() + 0.5), TWO),
    "fmod": (lambda x, y: torch.fmod(x, y.abs() + 1.25), TWO),
    "clamp": (lambda x: x.clamp(-0.5, 0.75), ONE),
    "clamp_min": (lambda x: x.clamp_min(0.25), ONE),
    "cube": (lambda x: x**3, ONE),
    "exp2": (torch.exp2, ONE),
    "pow_tensor": (lambda x, y: torch.pow(x.abs() + 0.25, y), TWO),
    "reciprocal": (lambda x: (x.abs() + 0.5).reciprocal(), ONE),
    "log1p": (lambda x: torch.log1p(x.abs()), ONE),
    "log2": (lambda x: torch.log2(x.abs() + 0.25), ONE),
    "log10": (lambda x: torch.log10(x.abs() + 0.25), ONE),
    "expm1": (torch.expm1, ONE),
    "sign": (torch.sign, ONE),
    "trunc": (lambda x: torch.trunc(x * 3), ONE),
    "floor": (lambda x: torch.floor(x * 3), ONE),
    "ceil": (lambda x: torch.ceil(x * 3), ONE),
    "round": (lambda x: torch.round(x * 3), ONE),
    "frac": (lambda x: torch.frac(x), ONE),
    "rsqrt": (lambda x: torch.rsqrt(x.abs() + 0.25), ONE),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.25), TWO),
    "atan2": (torch.atan2, PAIR),
    "logaddexp": (torch.logaddexp, PAIR),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), PAIR),
    "maximum": (torch.maximum, TWO),
    "minimum": (torch.minimum, TWO),
    "celu": (lambda x: F.celu(x, 1.5), ONE),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.25), ONE),
    "relu6": (lambda x: F.relu6(x * 4), ONE),
    "hardtanh": (F.hardtanh, ONE),
    "hardswish": (F.hardswish, ONE),
    "hardsigmoid": (F.hardsigmoid, ONE),
    "softplus": (F.softplus, ONE),
    "mish": (F.mish, ONE),
    "softsign": (F.softsign, ONE),
    "gelu": (F.gelu, ONE),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), ONE),
    "silu": (F.silu, ONE),
    "logsigmoid": (F.logsigmoid, ONE),
    "glu": (lambda x: F.glu(x, 2), CUBE),
    "softmax": (lambda x: x.softmax(1), CUBE),
    "log_softmax": (lambda x: x.log_softmax(-1), CUBE),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), CUBE),
    "sum": (lambda x: x.sum((0, 2)), CUBE),
    "mean": (lambda x: x.mean(1, keepdim=True), CUBE),
    "amax": (lambda x: x.amax((0, 1)), CUBE),
    "prod": (lambda x: x.clamp(-1.5, 1.5).prod(2), CUBE),
    "norm": (lambda x: x.norm(dim=2), CUBE),
    "norm1": (lambda x: x.norm(p=1, dim=1), CUBE),
    "cumsum": (lambda x: x.cumsum(1), CUBE),
    "diff": (lambda x: x.diff(dim=2), CUBE),
    "argmax": (lambda x: x.argmax(2), CUBE),
    "matmul": (lambda x, y: x @ y, lambda v, n: (v.normal(2, n, 4), v.normal(2, 4, 5))),
    "matmul_vector": (lambda x, y: x @ y, lambda v, n: (v.normal(2, n, 4), v.normal(4))),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), lambda v, n: (v.normal(2, n, 4), v.normal(2, 5, 4))),
    "baddbmm": (
        lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2),
        lambda v, n: (v.normal(2, n, 3), v.normal(2, n, 4), v.normal(2, 4, 3)),
    ),
    "outer": (lambda x, y: torch.outer(x[0], y), TWO),
    "cat": (lambda x, y: torch.cat([x, y, x], 0), PAIR),
    "stack": (lambda x, y: torch.stack([x, y], -1), PAIR),
    "roll": (lambda x: x.roll((1, -1), (0, 2)), CUBE),
    "flip": (lambda x: x.flip(0, 2), CUBE),
    "repeat": (lambda x: x.repeat(2, 1, 3), CUBE),
    "tril": (lambda x: x.tril(-1), CUBE),
    "triu": (lambda x: x.triu(1), CUBE),
    "unbind": (lambda x: x.unbind(0)[1], CUBE),
    "chunk": (lambda x: x.chunk(2, 2), CUBE),
    "narrow": (lambda x: x.narrow(2, 1, 2), CUBE),
    "strided": (lambda x: x[:, :, 1::2], CUBE),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 2), CUBE),
    "masked_fill": (lambda x: x.masked_fill(x > 0.5, -2.0), CUBE),
    "topk": (lambda x: torch.topk(x, 2, -1), lambda v, n: (v.distinct(n, 5),)),
    "arange_like": (lambda x: x + torch.arange(x.shape[1]).to(x.dtype), ONE),
    "full_like": (lambda x: torch.full_like(x, 1.5) * x, ONE),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "pad_reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), CUBE),
    "pad_replicate": (lambda x: F.pad(x, (1, 2), mode="replicate"), CUBE),
    "pad_constant": (lambda x: F.pad(x, (1, 0, 2, 3), value=3.5), CUBE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), lambda v, n: (v.normal(1, 8, 3, n + 1),)),
    "interpolate_nearest": (lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"), lambda v, n: (v.normal(1, 2, 4, 5),)),
    "interpolate_bilinear": (
        lambda x: F.interpolate(x, size=(7, 5), mode="bilinear", align_corners=True),
        lambda v, n: (v.normal(1, 2, 4, 6),),
    ),
    "interpolate_half_pixel": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), lambda v, n: (v.normal(1, 2, 4, 6),)),
    "gather": (lambda x, i: x.gather(1, i.long()), lambda v, n: (v.normal(n, 5), v.integers(n, 3, lo=0, hi=5))),
    "index_select": (lambda x, i: x.index_select(0, i), lambda v, n: (v.normal(5, 3), v.integers(n, lo=0, hi=5))),
    "index": (lambda x, i: x[i.long()], lambda v, n: (v.normal(5, 3), v.integers(n, lo=0, hi=5))),
    "index_put": (
        lambda x, i, s: x.index_put((i.long(),), s),
        lambda v, n: (v.normal(5, 3), torch.randperm(5, generator=v.generator)[:2].int(), v.normal(2, 3)),
    ),
    "where": (lambda c, x: torch.where(c, x, x * 2), lambda v, n: (v.truth(n, 4), v.normal(n, 4))),
    "compare": (lambda x, y: (x < y, x <= y, x >= y, x != y), PAIR),
    "attention": (
        lambda q, k, w: F.scaled_dot_product_attention(q, k, w),
        lambda v, n: (v.normal(1, 2, n, 8), v.normal(1, 2, 7, 8), v.normal(1, 2, 7, 8)),
    ),
    "attention_masked": (
        lambda q, k, w, m: F.scaled_dot_product_attention(q, k, w, attn_mask=m > 0),
        lambda v, n: (
            v.normal(1, 2, n, 8),
            v.normal(1, 2, 7, 8),
            v.normal(1, 2, 7, 8),
            v.normal(n, 7).abs() + 0.1 - 1.2 * (torch.arange(7) > 3),
        ),
    ),
    "attention_causal": (
        lambda q, k, w: F.scaled_dot_product_attention(q, k, w, is_causal=True),
        lambda v, n: (v.normal(1, 2, n, 8), v.normal(1, 2, n, 8), v.normal(1, 2, n, 8)),
    ),
    "attention_gqa": (
        lambda q, k, w: F.scaled_dot_product_attention(q, k, w, enable_gqa=True),
        lambda v, n: (v.normal(1, 6, n, 8), v.normal(1, 2, 7, 8), v.normal(1, 2, 7, 8)),
    ),
}
# name: (module, dims of the input with -1 for the dynamic one, factor on the tolerance)
MODULES = {
    "conv1d": (nn.Conv1d(4, 6, 3, padding=1, stride=2), (2, 4, -1), 1),
    "conv2d_groups": (nn.Conv2d(4, 8, 3, groups=2, dilation=2, padding=2), (1, 4, 7, -1), 1),
    "conv2d_reflect": (nn.Conv2d(4, 4, (3, 2), padding=1, padding_mode="reflect", bias=False), (1, 4, 5, -1), 1),
    "conv3d": (nn.Conv3d(2, 3, 2, stride=(1, 2, 1), padding=1), (1, 2, 3, 4, -1), 1),
    "conv_transpose1d": (nn.ConvTranspose1d(4, 6, 4, stride=3, padding=1, output_padding=1), (1, 4, -1), 1),
    "conv_transpose2d": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (1, 4, 5, -1), 1),
    "linear": (nn.Linear(6, 5), (-1, 6), 1),
    "linear_rank3": (nn.Linear(6, 5, bias=False), (2, -1, 6), 1),
    "layer_norm": (nn.LayerNorm(6), (-1, 6), 2),
    "layer_norm_2d": (nn.LayerNorm([3, 6]), (-1, 3, 6), 2),
    "rms_norm": (nn.RMSNorm(6), (2, -1, 6), 2),
    "group_norm": (nn.GroupNorm(2, 4), (-1, 4, 5), 2),
    "batch_norm2d": (nn.BatchNorm2d(4), (-1, 4, 3, 3), 2),
    "instance_norm": (nn.InstanceNorm2d(4, affine=True), (-1, 4, 3, 3), 2),
    "encoder_layer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8), 3),
    "mlp": (nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6)), (-1, 6), 2),
    "gru_cell": (nn.GRUCell(5, 6), (-1, 5), 2),
    "vision": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 8, 3, 1, 1, groups=8),
            nn.Hardswish(),
            nn.MaxPool2d(3, 2, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 10),
            nn.Softmax(-1),
        ),
        (-1, 3, 16, 16),
        3,
    ),
}
INTEGERS = {
    "int_floor_div": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="floor"),
    "int_trunc_div": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="trunc"),
    "int_remainder": lambda x, y: torch.remainder(x, y.abs() + 2),
    "int_fmod": lambda x, y: torch.fmod(x, y.abs() + 2),
    "int_true_div": lambda x, y: x / 4,
    "int_mul_float": lambda x, y: x * 1.5,
    "int_sum": lambda x, y: x.sum(1),
    "int_cumsum": lambda x, y: x.cumsum(1),
    "int_max": lambda x, y: x.max(1),
    "int_clamp": lambda x, y: x.clamp(-2, 3),
    "int_sign": lambda x, y: x.sign(),
    "int_compare": lambda x, y: (x > y, x == y, x != 3),
    "int_bool": lambda x, y: (x.to(torch.bool), (x > 0) & (y < 0)),
}


def randomized(module, seed):
    """Weights that are not all alike, statistics that are no identity."""
    generator = torch.Generator().manual_seed(seed)
    module = copy.deepcopy(module)
    for p in module.parameters():
        p.data = torch.randn(p.shape, generator=generator) * (0.3 if p.dim() > 1 else 0.5) + (0.75 if p.dim() == 1 else 0)
    for b in module.buffers():
        if b.is_floating_point():
            b.copy_(torch.rand(b.shape, generator=generator) + 0.5)
    return module


def catalogue():
    """(name, module, calls, slack) of every case."""
    for seed, (name, (function, inputs)) in enumerate(FUNCTIONS.items()):
        for label, dtype in TYPES.items():
            v = Values(seed, dtype)
            yield f"torch_{name}_{label}", function, [inputs(v, n) for n in (3, 2, 9)], 2 if label == "bf16" else 1.5
    for seed, (name, (module, dims, slack)) in enumerate(MODULES.items()):
        for label, dtype in TYPES.items():
            v = Values(seed, dtype)
            if label == "bf16" and name in ("batch_norm2d", "vision"):
                continue  # torch's own types disagree there
            least = 16 if name == "vision" else 5
            calls = [(v.normal(*[(n + least if i > 1 else n) if d < 0 else d for i, d in enumerate(dims)]),) for n in (3, 2, 6)]
            yield f"torch_{name}_{label}", randomized(module, seed).to(dtype), calls, slack * (2 if label == "bf16" else 1)
    for seed, (name, function) in enumerate(INTEGERS.items()):
        for label, dtype in (("si32", torch.int32), ("si16", torch.int16), ("si8", torch.int8)):
            v = Values(seed, dtype)
            yield f"torch_{name}_{label}", function, [(v.integers(n, 4, dtype=dtype), v.integers(n, 4, dtype=dtype)) for n in (3, 2, 7)], 1


def write_cases(out, wanted):
    written = refused = 0
    for name, module, calls, slack in catalogue():
        if wanted and wanted not in name:
            continue
        try:
            torch_cases.make_case(out, name, module, calls, slack=slack)
            written += 1
        except Exception as e:
            refused += 1
            print(f"refused {name}: {(str(e).strip().splitlines() or [type(e).__name__])[0][:160]}")
    return written, refused
