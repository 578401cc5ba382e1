"""What the tests of factorizations and solvers share: dtypes, matrices, and bounds of residuals."""

from __future__ import annotations

import pytest
import torch

from helpers import like_strided

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def dtypes():
    """A fixture: the dtypes that are factored, where the device has them."""

    @pytest.fixture(params=DTYPES, ids=str)
    def dtype(request):
        return request.param

    return dtype


def wide(t: torch.Tensor) -> torch.Tensor:
    """On the CPU, in double precision."""
    t = t.detach().cpu()
    return t.to(WIDE.get(t.dtype, t.dtype))


def eps(t: torch.Tensor) -> float:
    return torch.finfo(t.dtype).eps


def norm(t: torch.Tensor) -> torch.Tensor:
    """Of each matrix, the largest sum of a row's magnitudes."""
    if t.numel() == 0:
        return torch.zeros(t.shape[:-2], dtype=torch.float64)
    return t.abs().sum(-1).amax(-1)


def assert_small(residual: torch.Tensor, scale: torch.Tensor, n: int, unit: float, factor: float = 4.0) -> None:
    """Each matrix of `residual` is at most factor * n * unit times its scale; NaN is not."""
    found = norm(residual)
    allowed = factor * max(n, 1) * unit * scale
    assert (found <= allowed).all(), f"n = {n}: {(found / allowed.clamp_min(1e-300)).max().item()} times the bound"


def on_device(t: torch.Tensor) -> torch.Tensor:
    return like_strided(t.detach())


def well_conditioned(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Random matrices with singular values between 1 and 2: errors grow with their ratio, or its square, 4 at most."""
    u, values, vh = torch.linalg.svd(torch.randn(*shape, dtype=dtype), full_matrices=False)
    return (u * (1 + torch.rand_like(values)).unsqueeze(-2)) @ vh


def gradients(function, *inputs: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of gradients, the device's and those in double precision on the CPU, for random weights of the results."""
    own = [on_device(t).requires_grad_() for t in inputs]
    reference = [wide(t).requires_grad_() for t in inputs]

    def results(leaves):
        made = function(*leaves)
        return [made] if isinstance(made, torch.Tensor) else [t for t in made if t.requires_grad]

    actual, expected = results(own), results(reference)
    weights = [torch.randn(t.shape, dtype=t.dtype) for t in expected]
    given = [w.to(a.dtype).to(a.device) for w, a in zip(weights, actual, strict=True)]
    found = torch.autograd.grad(actual, own, given)
    return list(zip(found, torch.autograd.grad(expected, reference, weights), strict=True))


def assert_gradients(function, *inputs: torch.Tensor, factor: float = 1e3) -> None:
    """Relative errors of gradients in the largest norm are below `factor` roundings."""
    for actual, expected in gradients(function, *inputs):
        error = (wide(actual) - expected).abs().max() / expected.abs().max()
        assert error <= factor * eps(actual), f"relative error {error}"


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
