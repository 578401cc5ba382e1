"""Matrix products, beside cuBLAS."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import HALF, Case, Sizes, copies, randn, short
from torch_aule.benchmark.harness.targets import GEMM, GEMM_NT, Target


def _product(m, k, n, layout, dtype, name=None, **more) -> Case:
    """`layout`: T where an operand is stored transposed."""

    def operand(device, rows, columns, transposed):
        if transposed:
            return randn(columns, rows, device=device, dtype=dtype).t()
        return randn(rows, columns, device=device, dtype=dtype)

    def make(device):
        a, b = operand(device, m, k, layout[0] == "T"), operand(device, k, n, layout[1] == "T")
        return lambda: a @ b

    return Case("gemm", name or f"mm_{layout}", f"{m}x{k}x{n}", short(dtype), make, flops=2.0 * m * n * k, **more)


def dense_linear(sizes: Sizes, m: int, n: int, k: int, dtype: torch.dtype, device: str):
    """A call of a linear layer, whose weights of 16 bits take turns, so that caches hold none."""
    x = randn(m, k, device=device, dtype=dtype)
    weights = itertools.cycle([randn(n, k, device=device, dtype=dtype) for _ in range(copies(sizes, 2 * n * k))])
    return lambda: F.linear(x, next(weights))


def _few_rows(sizes, m, dtype) -> Case:
    n, k = sizes.few_rows

    def make(device):
        return dense_linear(sizes, m, n, k, dtype, device)

    moved = 2.0 * (n * k + m * (n + k))
    return Case("gemm", "linear", f"{m}x{k} by {n}x{k}", short(dtype), make, bytes=moved, main=False)


def _vocabulary(sizes) -> list[Case]:
    """The loss's product and its gradients: rows that start between 16-byte boundaries, beside even ones."""
    tokens, width, odd, even = sizes.vocabulary
    cases = []
    for name, shape, layout in (
        ("logits", lambda n: (tokens, width, n), "NT"),
        ("logits_grad_x", lambda n: (tokens, n, width), "NN"),
        ("logits_grad_weight", lambda n: (n, tokens, width), "TN"),
    ):
        twin = _product(*shape(even), layout, torch.bfloat16, name, main=False)
        target = Target("twin", 0.75, 0.95, twin=twin.key)
        cases += [twin, _product(*shape(odd), layout, torch.bfloat16, name, target=target, main=False)]
    return cases


def _software() -> list[Case]:
    def case(m, k, n, layout="NN", dtype=torch.float32, most=None):
        name = "mm_transposed" if layout == "NT" else "mm"
        target = Target("cpu", most) if most else None
        return _product(m, k, n, layout, dtype, name, clock="wall", main=most is not None, target=target)

    return [
        case(512, 512, 512, most=8.0),
        case(128, 128, 128),
        case(1024, 1024, 1024),
        case(512, 512, 512, "NT"),
        case(1, 1024, 1024),
        case(2048, 128, 512),
        case(512, 512, 512, dtype=torch.float16),
    ]


def gemm(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return _software()
    cases = []
    for dtype, layout in itertools.product(HALF, ("NT", "NN", "TN", "TT")):
        bounds, stretch = GEMM_NT if layout == "NT" else GEMM
        for n, bound in zip(sizes.gemm, bounds):
            cases.append(_product(n, n, n, layout, dtype, target=Target("tflops", bound, stretch)))
    n = sizes.gemm_float32
    cases += [_product(n, n, n, layout, torch.float32, target=Target("cuda", 0.7, 0.95)) for layout in ("NN", "NT")]
    return cases + _vocabulary(sizes) + [_few_rows(sizes, m, dtype) for m, dtype in itertools.product((1, 16), HALF)]
