"""Complex products along a k that is longer than one invocation may walk: TORCH_AULE_LIMITS says less than 1301."""

import torch

import torch_aule  # noqa: F401
from helpers import relative_error

for dtype, unit in ((torch.complex64, 1e-5), (torch.complex128, 1e-13)):
    if dtype == torch.complex128 and not torch.aule.get_device_properties().float64:
        continue
    for m, n in ((3, 5), (35, 2)):
        c, a, b = (torch.randn(size, dtype=dtype) for size in ((m, n), (m, 1301), (n, 1301)))
        x, y, z = (t.to(torch.complex128) for t in (c, a, b))
        c, a, b = c.to("aule"), a.to("aule"), b.to("aule")
        for actual, expected in (
            (torch.addmm(c, a, b.mH, beta=1j, alpha=2 - 1j), 1j * x + (2 - 1j) * y @ z.mH),
            (c.clone().addmm_(a.conj(), b.mT), x + y.conj() @ z.mT),
        ):
            error = relative_error(torch.view_as_real(actual.cpu()), torch.view_as_real(expected), 1.0)
            assert actual.dtype == dtype and error < unit, (dtype, m, n, error)
