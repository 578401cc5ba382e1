"""Triangular solves, Cholesky and LU factors by the kernels of GPUs: in shared memory, in memory, by halves."""

import torch

import torch_aule  # noqa: F401
from linalg_reference import DTYPES, assert_small, eps, norm, wide

has_double = torch.aule.get_device_properties().float64
for dtype in DTYPES if has_double else (torch.float32, torch.complex64):
    for n in (7, 30, 100):
        a = torch.randn(2, n, n, dtype=dtype)
        b = torch.randn(2, n, 150, dtype=dtype)
        t = a.tril() / n**0.5 + 2 * torch.eye(n)
        for upper, matrix in ((False, t), (True, t.mT.contiguous())):
            x = wide(torch.linalg.solve_triangular(matrix.to("aule"), b.to("aule"), upper=upper))
            assert_small(wide(matrix) @ x - wide(b), norm(wide(matrix)) * norm(x), n, eps(a))
        p, lower, upper = (wide(m) for m in torch.linalg.lu(a.to("aule")))
        assert_small(p @ lower @ upper - wide(a), norm(lower.abs() @ upper.abs()), n, eps(a))
        definite = a @ a.mH / n + torch.eye(n)
        factor = wide(torch.linalg.cholesky(definite.to("aule")))
        assert_small(factor @ factor.mH - wide(definite), norm(wide(definite)), n, eps(a))

# Rows of many workgroups' invocations, and pivots that a thousand of them look for.
for m, n in ((1500, 40), (400, 400), (20, 300)):
    a = torch.randn(m, n)
    p, lower, upper = (wide(t) for t in torch.linalg.lu(a.to("aule")))
    assert_small(p @ lower @ upper - wide(a), norm(lower.abs() @ upper.abs()), max(m, n), eps(a))
    expected = torch.linalg.lu_factor(wide(a)).pivots
    assert torch.equal(torch.linalg.lu_factor(a.to("aule")).pivots.cpu(), expected)

# c is the result itself: products that read it in place.
for dtype, k in ((torch.float32, 20), (torch.float32, 300), (torch.float64, 20), (torch.complex64, 20)):
    if dtype == torch.float64 and not has_double:
        continue
    a, b, c = torch.randn(70, k, dtype=dtype), torch.randn(k, 90, dtype=dtype), torch.randn(70, 90, dtype=dtype)
    given = c.to("aule")
    given.addmm_(a.to("aule"), b.to("aule"), alpha=-1)
    assert_small(wide(given) - (wide(c) - wide(a) @ wide(b)), norm(wide(a)) * b.abs().max(), k, eps(a))

# Blocks 2 x 2 whose exchanges all invocations of a workgroup see.
for n in (9, 100):
    a = torch.randn(3, n, n)
    a = a + a.mT
    a.diagonal(dim1=-2, dim2=-1).mul_(0.1)
    b = torch.randn(3, n, 5)
    ld, pivots = torch.linalg.ldl_factor(a.to("aule"))
    assert torch.equal(pivots.cpu(), torch.linalg.ldl_factor(wide(a)).pivots)
    x = wide(torch.linalg.ldl_solve(ld, pivots, b.to("aule")))
    assert_small(wide(a) @ x - wide(b), norm(wide(a)) * norm(x), n, eps(a), factor=100)
