"""Products by the kernels in shared memory and those of a matrix and a vector."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(1)
for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 1e-1)):
    for m, k, n in ((70, 33, 65), (3, 130, 37), (40, 20, 2), (64, 0, 64)):
        for ta in (False, True):
            for tb in (ta,) if dtype == torch.float32 else (not ta,):
                a = torch.randn(2, k, m).transpose(1, 2) if ta else torch.randn(2, m, k)
                b = torch.randn(2, n, k).transpose(1, 2) if tb else torch.randn(2, k, n)
                a, b, c = a.to(dtype), b.to(dtype), torch.randn(n).to(dtype)
                expected = torch.baddbmm(c.float(), a.float(), b.float(), beta=2)
                got = torch.baddbmm(c.to("aule"), a.to("aule"), b.to("aule"), beta=2).cpu().float()
                torch.testing.assert_close(got, expected, atol=tolerance, rtol=1e-2)
