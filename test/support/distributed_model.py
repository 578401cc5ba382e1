"""The small model that programs of several ranks train, and the batches of all ranks."""

from __future__ import annotations

import torch
from torch.nn import functional as F

CLASSES = 10


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    """`unused` has parameters that one step in two does not use."""

    def __init__(self, width, unused=False):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(width) for _ in range(3)])
        self.head = torch.nn.Linear(width, CLASSES)
        self.extra = torch.nn.Linear(width, width) if unused else None
        self.calls = 0

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        if self.extra is not None and self.calls % 2:
            x = x + self.extra(x)
        self.calls += 1
        return self.head(x)


def batches(steps, rows, width):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(rows, width, generator=generator)
        yield x, x[:, :CLASSES].argmax(1)
