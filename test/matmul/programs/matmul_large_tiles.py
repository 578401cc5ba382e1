"""Products by large tiles in shared memory, operands lying either way."""

import torch

import torch_aule  # noqa: F401

torch.manual_seed(1)


def mk(b, r, c, along_rows, dtype):
    return torch.randn(b, c, r).to(dtype).transpose(1, 2) if along_rows else torch.randn(b, r, c).to(dtype)


for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 1e-1)):
    for batch, m, k, n in ((100, 68, 20, 72), (96, 65, 9, 71), (2, 3, 136, 40), (1, 11, 72, 24)):
        for ta in (False, True):
            for tb in (False, True):
                if dtype == torch.bfloat16 and ta:
                    continue
                a, b, c = mk(batch, m, k, ta, dtype), mk(batch, k, n, tb, dtype), torch.randn(n).to(dtype)
                expected = torch.baddbmm(c.float(), a.float(), b.float(), beta=2)
                da = a.transpose(1, 2).to("aule").transpose(1, 2) if ta else a.to("aule")
                db = b.transpose(1, 2).to("aule").transpose(1, 2) if tb else b.to("aule")
                got = torch.baddbmm(c.to("aule"), da, db, beta=2)
                torch.testing.assert_close(got.cpu().float(), expected, atol=tolerance, rtol=1e-2)
