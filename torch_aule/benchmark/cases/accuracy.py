"""The largest error against float64 on the CPU, relative to the largest value of a result; forward and gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes, short
from torch_aule.benchmark.report.record import Result


def _error(actual, expected) -> float:
    difference = (actual.detach().cpu().double() - expected.detach()).abs().max().item()
    return float(f"{difference / max(expected.detach().abs().max().item(), 1e-30):.3g}")


def _case(name, function, shapes, dtype) -> Case:
    def make(device):
        def compare():
            generator = torch.Generator().manual_seed(7)
            rounded = [torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in shapes]
            reference = [t.double().requires_grad_() for t in rounded]
            expected = function(*reference)
            weight = torch.randn(expected.shape, generator=generator, dtype=torch.float64).to(dtype)
            gradients = torch.autograd.grad(expected, reference, weight.double())
            leaves = [t.to(device).requires_grad_() for t in rounded]
            actual = function(*leaves)
            got = torch.autograd.grad(actual, leaves, weight.to(device))
            errors = [_error(a, e) for a, e in zip(got, gradients)]
            return Result(values={"forward": _error(actual, expected), "gradients": max(errors)})

        return compare

    return Case("accuracy", name, str(shapes), short(dtype), make, clock="once", autograd=True)


def accuracy(sizes: Sizes) -> list[Case]:
    def sdpa(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    functions = {
        "sdpa_causal": (sdpa, [(1, 4, 128, 64)] * 3),
        "matmul": (torch.matmul, [(96, 257), (257, 64)]),
        "softmax": (lambda x: x.softmax(-1), [(64, 300)]),
        "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), [(64, 300)]),
        "gelu": (F.gelu, [(1000,)]),
        "exp": (torch.exp, [(1000,)]),
        "logsumexp": (lambda x: x.logsumexp(-1), [(64, 300)]),
        "sum": (lambda x: x.sum(), [(1 << 16,)]),
        "conv2d": (F.conv2d, [(2, 8, 17, 17), (16, 8, 3, 3)]),
    }
    return [
        _case(name, function, shapes, dtype)
        for name, (function, shapes) in functions.items()
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
    ]
