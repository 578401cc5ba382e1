"""Products with quantized weights that stay packed: few rows beside memory, many beside our own bfloat16 product."""

from __future__ import annotations

import itertools

import torch

from torch_aule.benchmark.cases.gemm import dense_linear
from torch_aule.benchmark.harness.case import Case, Sizes, copies, randn
from torch_aule.benchmark.harness.targets import Target

FORMATS = ("q4_k", "q6_k", "q8_0", "mxfp4", "nf4", "int4", "int8", "float8_e4m3fn")


def _bytes(format, n, k) -> float:
    from torch_aule.quantized import FORMATS as FORMS
    from torch_aule.quantized import random_weight

    _, scales, _ = random_weight(format, 1, k, "cpu")
    return n * (FORMS[format].packed_row_bytes(k) + sum(s.numel() * s.element_size() for s in scales))


def _product(sizes, format, m, n, k, **more) -> Case:
    """On other devices the product with a dense weight of bfloat16."""
    moved = _bytes(format, n, k)

    def make(device):
        if device != "aule":
            return dense_linear(sizes, m, n, k, torch.bfloat16, device)
        from torch_aule.quantized import random_weight

        x = randn(m, k, device=device, dtype=torch.bfloat16)
        packed = [random_weight(format, n, k, device) for _ in range(copies(sizes, int(moved)))]
        turns = itertools.cycle(packed)

        def call():
            weight, scales, group = next(turns)
            return torch.ops.aule.quantized_linear(x, weight, format, None, scales, group)

        return call

    return Case("quantized", f"linear_{format}", f"{m}x{k} by {n}x{k}", "bf16", make, **more)


def _dense(sizes, m, n, k) -> Case:
    def make(device):
        return dense_linear(sizes, m, n, k, torch.bfloat16, device)

    return Case("quantized", "linear_dense", f"{m}x{k} by {n}x{k}", "bf16", make, flops=2.0 * m * n * k, main=False)


def quantized(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return [_product(sizes, format, 1, 512, 1024, bytes=_bytes(format, 512, 1024), clock="wall", main=False)
                for format in FORMATS]  # fmt: skip
    cases = []
    for (n, k), m in itertools.product(sizes.quantized, sizes.quantized_rows):
        if m > 16:
            dense = _dense(sizes, m, n, k)
            target = Target("twin", 0.9, 1.0, twin=dense.key)
            cases.append(dense)
            cases += [_product(sizes, f, m, n, k, flops=2.0 * m * n * k, target=target, main=False) for f in FORMATS]
        else:
            for f in FORMATS:
                moved = _bytes(f, n, k) + 2.0 * m * (n + k)
                target = Target("copy", 0.8, 0.85) if m == 1 else None
                cases.append(_product(sizes, f, m, n, k, bytes=moved, target=target, main=m == 1))
    return cases
