"""A small model that is no language model: predicts the next move of a game from features of the position and where in the
game it is. Once with its keys and values kept as states, once without states, with the same weights: for examples/. Writes
golden cases.

    PYTHONPATH=scripts python -m goldens.move_model tests/data/examples
"""

import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from . import torch_cases
from .tiny_lm import CAPACITY, GROUPS, HEAD, LAYERS, WIDTH, Attention

FEATURES, MOVES, LENGTH = 12, 20, 24


class Moves(nn.Module):
    def __init__(self, keeps_states):
        super().__init__()
        torch.manual_seed(11)
        self.keeps_states = keeps_states
        self.board, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, MOVES)
        self.attention = nn.ModuleList(Attention() for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(LAYERS + 1))
        self.up, self.down = (nn.ModuleList(nn.Linear(a, b) for _ in range(LAYERS)) for a, b in ((WIDTH, 24), (24, WIDTH)))

    def forward(self, features, positions, *states):
        where, e = positions[0], positions.shape[1]
        x = self.board(features)
        for i in range(LAYERS):

            def store(k, v, i=i):
                if not self.keeps_states:
                    return k, v
                for cache, new in zip(states, (k, v)):
                    cache[i, :, :, e - new.shape[2] : e] = new
                return states[0][i, :, :, :e], states[1][i, :, :, :e]

            x = x + self.attention[i](self.norms[i](x), where, store)
            x = x + self.down[i](F.silu(self.up[i](x)))
        return self.head(self.norms[-1](x))


def game(n):
    features = torch.randn(1, n, FEATURES, generator=torch.Generator().manual_seed(21))
    return features, torch.arange(n, dtype=torch.int32)[None]


def write(out):
    os.makedirs(out, exist_ok=True)
    names, n, e = ["features", "positions"], Dim("n", min=1, max=4096), Dim("e", min=1, max=4096)
    cache, (features, positions) = torch.zeros(LAYERS, 1, GROUPS, CAPACITY, HEAD), game(LENGTH)
    capacity = Dim("c", min=2, max=4096)
    kept = [("main", Moves(True), (features[:, :2], positions[:, :5]), ({1: n}, {1: e}, ({3: capacity},) * 2), names)]
    calls = [("main", (features[:, i : i + 1], positions[:, : i + 1])) for i in range(LENGTH)]
    torch_cases.make_stateful(out, "move_states", kept, {"keys": cache, "values": cache.clone()}, calls, ["moves"], every=64)
    plain = [("main", Moves(False), (features[:, :5], positions[:, :5]), ({1: n}, {1: n}), names)]
    torch_cases.make_stateful(out, "move_stateless", plain, {}, [("main", (features, positions))], ["moves"], every=64)


if __name__ == "__main__":
    write(sys.argv[1])
