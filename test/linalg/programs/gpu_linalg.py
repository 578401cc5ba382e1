"""Triangular solves, Cholesky and LU factors by the kernels of GPUs: in shared memory, in memory, by halves."""

import torch

import torch_aule.tune
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

# LU by steps of columns: exchanges outside of the outer block, several rows of an invocation, steps of 4 columns, no
# pivots, and the first column without one.
for step, batch, m, n in (
    ((), 2, 150, 140),
    ((128, 64), 1, 135, 170),
    ((128, 64), 1, 520, 129),
    ((128, 64), 1, 1030, 129),
):
    with torch_aule.tune.override(lu_step=step or None):
        a = torch.randn(batch, m, n)
        p, lower, upper = (wide(t) for t in torch.linalg.lu(a.to("aule")))
        assert lower.abs().max() <= 1 + 4 * eps(a)  # each pivot is the largest; an inverse and a product are rounded
        assert_small(p @ lower @ upper - wide(a), norm(lower.abs() @ upper.abs()), max(m, n), eps(a))
a = torch.randn(2, 130, 130)
definite = a @ a.mT / 130 + torch.eye(130)
lower, upper = (wide(t) for t in torch.linalg.lu(definite.to("aule"), pivot=False)[1:])
assert_small(lower @ upper - wide(definite), norm(lower.abs() @ upper.abs()), 130, eps(a))
a[0, :, 77] = 0
assert torch.equal(torch.linalg.lu_factor_ex(a.to("aule")).info.cpu(), torch.tensor([78, 0]))

# Cholesky factors of one panel, and of several: the other triangle is not read, and becomes zero; rows in steps of 16
# bytes and between them; the first minor that is not positive, in any panel.
for panel, sizes in (((), (33, 65, 97, 128, 129, 300)), ((4, 2, 8), (129, 300)), ((8, 8, 4), (139,))):
    with torch_aule.tune.override(cholesky_panel=panel or None):
        for batch, n in ((2, n) for n in sizes):
            a = torch.randn(batch, n, n)
            a = a @ a.mT / n + torch.eye(n)
            bad = torch.randint(n, (4,))
            indefinite = a[:1].repeat(4, 1, 1)
            indefinite[torch.arange(4), bad, bad] = torch.tensor([-1.0, 0.0, float("nan"), -1e3])
            for upper in (False, True):
                hidden = torch.ones(n, n).tril(-1) if upper else torch.ones(n, n).triu(1)
                given = a.masked_fill(hidden.bool(), float("nan")).to("aule")
                f = wide(torch.linalg.cholesky(given, upper=upper))
                assert torch.equal(f, f.triu() if upper else f.tril())
                assert_small((f.mT @ f if upper else f @ f.mT) - wide(a), norm(wide(a)), n, eps(a))
                info = torch.linalg.cholesky_ex(indefinite.to("aule"), upper=upper).info
                assert torch.equal(info.cpu(), torch.linalg.cholesky_ex(indefinite, upper=upper).info)

# Eigenvalues by way of tridiagonal matrices: several workgroups of a matrix, one of each, columns in memory; merges
# with all poles, and with those of equal values.
for dtype in DTYPES if has_double else (torch.float32, torch.complex64):
    for reduction, batch, n in (((), 1, 129), ((256, 8), 2, 40), ((512, 4, 64, 0), 1, 65)):
        if n > 128 and dtype != torch.float32:
            continue
        with torch_aule.tune.override(tridiagonal=reduction or None):
            a = torch.randn(batch, n, n, dtype=dtype)
            repeated = torch.linalg.qr(a[0])[0]
            repeated = repeated @ torch.diag(torch.arange(n) % 3 - 1.0).to(dtype) @ repeated.mH
            for h in (a + a.mH, (repeated + repeated.mH).unsqueeze(0), torch.ones(1, n, n, dtype=dtype)):
                values, vectors = (wide(t) for t in torch.linalg.eigh(h.to("aule")))
                assert_small(wide(h) @ vectors - vectors * values.unsqueeze(-2), norm(wide(h)), n, eps(a))
                assert_small(vectors.mH @ vectors - torch.eye(n), torch.ones(1), n, eps(a))
                expected = torch.linalg.eigvalsh(wide(h))
                assert (wide(torch.linalg.eigvalsh(h.to("aule"))) - expected).abs().max() <= n * eps(a) * norm(h).max()

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
