"""Kernels that torch.compile generates, each beside the same function run eagerly."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes, randn, short


def gelu_chain(x, y):
    return F.gelu(x * 2 + y) * y


def norm_gelu_residual(x, y):
    return F.gelu(F.layer_norm(x, x.shape[-1:])) + y


def softmax(x, y):
    return torch.softmax(x * 0.5, -1)


def rms_norm(x, y):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def column_sum(x, y):
    return (x * 2).sum(0)


def full_sum(x, y):
    return (x * 2).sum()


def transposed_add(x, y):
    return x.view(y.shape[1], y.shape[0]).t() + y


def adamw_step(x, y):
    moment = x * 0.9 + y * 0.1
    square = x * x * 0.99 + y * y * 0.01
    return x - 1e-3 * (moment / (square.sqrt() + 1e-8) + 0.01 * x)


# function -> how often the rows are read or written, at least
PASSES = {
    gelu_chain: 3,
    norm_gelu_residual: 3,
    softmax: 2,
    rms_norm: 2,
    column_sum: 1,
    full_sum: 1,
    transposed_add: 3,
    adamw_step: 3,
}


def _case(function, passes, rows, width, dtype, compiled, clock) -> Case:
    def make(device):
        x, y = (randn(rows, width, device=device, dtype=dtype) for _ in range(2))
        call = torch.compile(function) if compiled else function
        return lambda: call(x, y)

    return Case(
        "compile", function.__name__ + ("_compiled" if compiled else ""), f"{rows}x{width}", short(dtype), make,
        clock=clock, bytes=float(passes * dtype.itemsize * rows * width),
        autograd=True,  # of CUDA: Inductor asks there which one GPU is meant, so it runs in a process of its own
        main=not compiled,
    )  # fmt: skip


def compiled(sizes: Sizes) -> list[Case]:
    """Each function twice: as it is, and compiled."""
    rows, width = (512, 256) if sizes.software else (sizes.rows[0] // 2, sizes.rows[1])
    dtypes = (torch.float32,) if sizes.software else (torch.float32, torch.bfloat16)
    clock = "wall" if sizes.software else "events"
    return [
        _case(function, passes, rows, width, dtype, compiled, clock)
        for dtype in dtypes
        for function, passes in PASSES.items()
        for compiled in (False, True)
    ]
