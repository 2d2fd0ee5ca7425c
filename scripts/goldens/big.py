"""Networks of genuine size with random weights: an encoder shaped like MiniLM and a classifier shaped like ResNet-18."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from . import torch_cases


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.first, self.second = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, bias):
        n, t, width = x.shape
        head = lambda v: v.reshape(n, t, self.heads, width // self.heads).transpose(1, 2)
        q, k, v = head(self.query(x)), head(self.key(x)), head(self.value(x))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5 + bias
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width)
        x = self.first(x + self.out(y))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """Six layers of width 384, as the small sentence encoders have; the result is the mean over the unmasked tokens."""

    def __init__(self, vocabulary=30522, width=384, layers=6, heads=12, inner=1536, positions=512):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.positions, self.kinds = nn.Embedding(vocabulary, width), nn.Embedding(positions, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, inner) for _ in range(layers))

    def forward(self, input_ids, attention_mask):
        mask = attention_mask.to(torch.float32)
        x = self.norm(self.words(input_ids) + self.positions(torch.arange(input_ids.shape[1])) + self.kinds.weight[0])
        bias = (1 - mask)[:, None, None, :] * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        pooled = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(pooled, dim=-1)


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first, self.second = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.norm2(self.second(F.relu(self.norm1(self.first(x))))) + self.skip(x))


class Classifier(nn.Module):
    """The 18-layer residual network on 224 x 224 pixels."""

    def __init__(self, classes=1000):
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.blocks = nn.Sequential(*[Block(*w) for w in widths])
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


def encoder(out):
    generator = torch.Generator().manual_seed(2)
    calls = [
        (
            torch.randint(0, 30522, (n, t), generator=generator, dtype=torch.int32),
            (torch.arange(t)[None] < torch.tensor([[t]] * (n - 1) + [[t - 3]])).int(),
        )
        for n, t in ((2, 16), (3, 7), (2, 33))
    ]
    torch_cases.make_case(out, "big_encoder", Encoder(), calls, inputs=["input_ids", "attention_mask"], outputs=["sentence"])


def classifier(out):
    generator = torch.Generator().manual_seed(3)
    calls = [(torch.randn(n, 3, 224, 224, generator=generator),) for n in (1,)]
    torch_cases.make_case(out, "big_classifier", Classifier(), calls, inputs=["image"], outputs=["logits"], slack=2)


def write_cases(out, wanted):
    jobs = [(n, f) for n, f in (("big_encoder", encoder), ("big_classifier", classifier)) if not wanted or wanted in n]
    for _, job in jobs:
        job(out)
    return len(jobs), 0
