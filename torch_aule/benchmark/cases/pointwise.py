"""Pointwise operators, a sum and copies at a software device's sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes, randn
from torch_aule.benchmark.harness.targets import Target


def pointwise(sizes: Sizes) -> list[Case]:
    if not sizes.software:
        return []
    n = 1 << 24

    def binary(name, function, most=None):
        def make(device):
            a, b = randn(n, device=device), randn(n, device=device)
            return lambda: function(a, b)

        return Case("pointwise", name, "2^24", "float32", make, clock="wall", bytes=12.0 * n, main=most is not None,
                    target=Target("cpu", most) if most else None)  # fmt: skip

    def unary(name, function, shape=(1 << 22,)):
        def make(device):
            a = randn(*shape, device=device)
            return lambda: function(a)

        shapes = "x".join(map(str, shape))
        moved = 8.0 * torch.Size(shape).numel()
        return Case("pointwise", name, shapes, "float32", make, clock="wall", bytes=moved, main=False)

    return [
        binary("add", torch.add, most=3.0),
        binary("mul", torch.mul),
        unary("gelu", F.gelu),
        unary("exp", torch.exp),
        unary("sum", torch.sum),
        unary("clone", torch.clone, (n,)),
        unary("transpose_copy", lambda a: a.t().contiguous(), (2048, 2048)),
    ]
