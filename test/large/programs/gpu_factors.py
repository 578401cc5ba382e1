"""QR, eigenvalues and singular values with the workgroups of GPUs, in shared memory and in blocks."""

import torch

import torch_aule  # noqa: F401
from linalg_reference import check_orthonormal, near, rounding, wide

torch.manual_seed(4)
for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
    # One workgroup a matrix; blocks of columns, panels; columns that stay in memory.
    shapes = ((70, 3, 3), (5, 20, 16), (1, 70, 64), (1, 140, 128), (1, 40, 1600))
    for batch, m, n in shapes if dtype in (torch.float32, torch.complex128) else shapes[:3]:
        a = torch.randn(batch, m, n, dtype=dtype)
        exact, bound = wide(a), rounding(a, max(m, n))
        scale = torch.linalg.matrix_norm(exact, 2).amax()
        q, r = (wide(t) for t in torch.linalg.qr(a.to("aule")))
        check_orthonormal(q, bound)
        near(q @ r, exact, scale, bound)
        if n == 1600:
            continue
        u, s, vh = (wide(t) for t in torch.linalg.svd(a.to("aule"), full_matrices=False))
        check_orthonormal(u, bound)
        check_orthonormal(vh.mH, bound)
        near(u * s.unsqueeze(-2) @ vh, exact, scale, bound)
        h = a.mH @ a + torch.eye(n, dtype=dtype)
        h = h + h.mH
        w, v = (wide(t) for t in torch.linalg.eigh(h.to("aule")))
        check_orthonormal(v, bound)
        near(wide(h) @ v, v * w.unsqueeze(-2), torch.linalg.matrix_norm(wide(h), 2).amax(), bound)

for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
    for batch, n in ((70, 3), (5, 16), (2, 45), (1, 62), (1, 80)):  # in shared memory, and in memory
        a = torch.randn(batch, n, n, dtype=dtype)
        w, v = (wide(t) for t in torch.linalg.eig(a.to("aule")))
        exact = wide(a).to(v.dtype)
        near(exact @ v, v * w.unsqueeze(-2), torch.linalg.matrix_norm(exact).amax(), rounding(a, n))
        values = wide(torch.linalg.eigvals(a.to("aule")))
        near(values.sum(-1), exact.diagonal(0, -2, -1).sum(-1), torch.linalg.matrix_norm(exact).amax(), rounding(a, n))

a = torch.randn(4500, 40)  # no panel of it fits
q, r = (wide(t) for t in torch.linalg.qr(a.to("aule")))
check_orthonormal(q, rounding(a, 100))
near(q @ r, wide(a), wide(a).abs().amax(), rounding(a, 4500))
