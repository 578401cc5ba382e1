"""Sums and means of columns, by kernels of GPUs."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(1)


def check(x, tolerance, **kwargs):
    y = x.to("aule")
    for name in ("sum", "mean"):
        a, b = getattr(y, name)(0, **kwargs).cpu().double(), getattr(x.double(), name)(0, **kwargs)
        assert a.shape == b.shape and ((a - b).abs().max() / b.abs().max()).item() < tolerance, (x.shape, x.dtype, name)


for dtype, tolerance in ((torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
    for rows, n in ((64, 8), (400, 600), (777, 264), (5000, 16), (65, 1024), (100, 12)):
        check((torch.randn(rows, n) + 1).to(dtype), tolerance, keepdim=rows == 400)
    check((torch.randn(300, 96) + 1).to(dtype)[:, 16:80], tolerance)
    check((torch.randn(10, 30, 64) + 1).to(dtype).flatten(0, 1), tolerance)
x = torch.randn(300, 64) + 1
torch.testing.assert_close(x.half().to("aule").sum(0, dtype=torch.float32).cpu(), x.half().float().sum(0))
out = torch.empty(64, 2, device="aule")[:, 0]
assert torch.allclose(torch.sum(x.to("aule"), 0, out=out).cpu(), x.sum(0), rtol=1e-5)
