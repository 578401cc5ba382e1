"""Softmax of rows that begin anywhere in a block of 16 bytes, by kernels of GPUs."""

import torch

import torch_aule  # noqa: F401
from helpers import does_without

torch.manual_seed(1)
A = torch.ops.aten


def error(a, b):
    a = a.detach().cpu().double()
    assert not a.isnan().any()
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item()


TYPES = ((torch.float16, 1e-3), (torch.float32, 3e-6), (torch.bfloat16, 8e-3))
for dtype, tolerance in TYPES[: 1 if does_without("subgroup_arithmetic") else 3]:
    # Rows that begin anywhere in a block of 16 bytes: in registers, and in several chunks.
    for rows, n in ((9, 257), (3, 1029), (2, 33001))[: 3 if dtype is torch.float16 else 2]:
        x, g = torch.randn(rows, n).to(dtype), torch.randn(rows, n).to(dtype)
        x[0, 3:9], x[-1, -1] = -torch.inf, 7
        buffer = torch.full((rows * n + 64,), 5.0, dtype=dtype, device="aule")
        out = buffer[: rows * n].view(rows, n)
        for forward, backward in (
            (A._softmax, A._softmax_backward_data),
            (A._log_softmax, A._log_softmax_backward_data),
        ):
            y = forward(x.to("aule"), 1, False)
            finite = [t.masked_fill(x == -torch.inf, 0) for t in (y.cpu(), forward(x.double(), 1, False))]
            errors = [error(*finite)]
            there = backward(g.double(), y.cpu().double(), 1, torch.double)
            errors.append(error(backward(g.to("aule"), y, 1, dtype), there))
            assert max(errors) < tolerance, (forward, dtype, rows, n, errors)
            forward.out(x.to("aule"), 1, False, out=out)  # beside others' memory
            assert (out == y).all().item() and (buffer[rows * n :] == 5).all().item()
