"""What tests of factorizations share: bounds in roundings, against float64."""

from __future__ import annotations

import pytest
import torch

WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def dtypes():
    """A fixture: the dtypes that are factored, where the device has them."""

    @pytest.fixture(params=[torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
    def dtype(request):
        if request.param in (torch.float64, torch.complex128) and not torch.aule.get_device_properties().float64:
            pytest.skip("the device has no float64")
        return request.param

    return dtype


def wide(t: torch.Tensor) -> torch.Tensor:
    """`t` on the CPU, in float64 or complex128."""
    t = t.cpu()
    return t.to(WIDE.get(t.dtype, t.dtype))


def rounding(t: torch.Tensor, n: int) -> float:
    """The bound of a backward stable algorithm on n x n matrices of t's dtype."""
    return 10 * max(n, 4) * torch.finfo(t.dtype).eps


def near(actual: torch.Tensor, expected: torch.Tensor, scale: torch.Tensor, bound: float) -> None:
    """No element is further off than `bound` of its matrix's `scale`."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    if expected.numel() == 0:
        return
    scale = scale.double().clamp_min(torch.finfo(torch.float64).tiny)
    error = ((wide(actual) - wide(expected)).abs() / scale).amax().item()
    assert error <= bound, f"{tuple(expected.shape)}: {error}, allowed {bound}"


def check_orthonormal(q: torch.Tensor, bound: float) -> None:
    """The columns of q are orthonormal."""
    q = wide(q)
    if q.numel():
        near(q.mH @ q, torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1), torch.tensor(1.0), bound)
