"""Tiny operators one after another: what each costs the GPU, dependent and independent."""

from __future__ import annotations

import torch

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.harness.targets import Target


def chains(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return []
    n = sizes.tiny_ops

    def dependent(device):
        x = torch.zeros(1024, device=device)

        def call():
            for _ in range(n):
                x.add_(1)

        return call

    def independent(device):
        inputs = torch.zeros(n, 1024, device=device).unbind()
        outputs = torch.zeros(n, 1024, device=device).unbind()

        def call():
            for x, y in zip(inputs, outputs):
                torch.add(x, 1, out=y)

        return call

    def case(name, make, most_us):
        return Case("chains", name, f"{n} x 1024", "float32", make, ops=n, target=Target("us", most_us))

    return [case("tiny_dependent", dependent, 2.0), case("tiny_independent", independent, 0.3)]
