"""The exponential of matrices against float64, by norm, batch and layout, and its gradient."""

import math

import pytest
import torch

from helpers import layouts
from linalg_reference import assert_gradients, dtypes, on_device, wide

pytestmark = pytest.mark.validated
dtype = dtypes()


def exponential(a: torch.Tensor) -> torch.Tensor:
    """By 24 terms of the series of a / 2^s, in float64: the CPU's own is off by 1e-12 where norms are small."""
    if a.dim() > 2:
        matrices = [exponential(m) for m in a.reshape(-1, *a.shape[-2:])]
        return torch.stack(matrices).reshape(a.shape)
    norm = a.abs().sum(0).max().item()
    halvings = max(0, math.frexp(norm)[1] + 1)
    term = result = torch.eye(a.shape[-1], dtype=a.dtype)
    for i in range(1, 25):
        term = term @ a / (i * 2.0**halvings)
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return result


def check(a: torch.Tensor, factor: float = 8.0) -> None:
    """Relative to the largest element, within roundings that grow with the norm, as squarings do."""
    actual = torch.linalg.matrix_exp(on_device(a))
    assert actual.shape == a.shape and actual.dtype == a.dtype
    if a.numel() == 0:
        return
    actual, expected = wide(actual), exponential(wide(a).resolve_conj())
    n, norm = a.shape[-1], wide(a).abs().sum(-2).amax(-1).clamp_min(1)
    error = (actual - expected).abs().amax((-2, -1)) / expected.abs().amax((-2, -1))
    allowed = factor * n * torch.finfo(a.dtype).eps * norm
    assert (error <= allowed).all(), (error / allowed).max()


@pytest.mark.sampled(24)
@pytest.mark.parametrize("norm", [1e-9, 1e-4, 3e-2, 0.3, 0.7, 1.5, 2.4, 2.6, 6.0, 20.0, 60.0])
@pytest.mark.parametrize("n", [2, 3, 8, 17, 33])
def test_norms(n, norm, dtype):
    a = torch.randn(n, n, dtype=dtype)
    a *= norm / a.abs().sum(0).max()
    check(a)
    check(torch.stack([a, a / 3, a * 1e-3, torch.zeros_like(a)]))  # of each its own scale


def test_special_matrices(dtype):
    check(torch.diag(torch.tensor([-50.0, 0, 3, 40])).to(dtype))
    check(torch.ones(6, 6, dtype=dtype).triu(1) * 100)
    skew = torch.randn(12, 12, dtype=dtype) * 5
    check(skew - skew.mH)
    assert torch.equal(torch.linalg.matrix_exp(torch.zeros(5, 5, dtype=dtype, device="aule")).cpu(),
                       torch.eye(5, dtype=dtype))  # fmt: skip


def test_layouts(dtype):
    for _, a in layouts(torch.randn(2, 3, 7, 7, dtype=dtype)):
        check(a)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0), (1, 1), (5, 1, 1)])
def test_few_elements(shape):
    check(torch.randn(shape))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_half(half, device):
    a = torch.randn(3, 6, 6).to(half)
    expected = torch.linalg.matrix_exp(a.double())
    actual = torch.linalg.matrix_exp(a.to(device))
    assert actual.dtype == half
    assert ((actual.cpu() - expected).abs() <= torch.finfo(half).eps * expected.abs().amax((-2, -1), True)).all()


def test_nan_stays_in_its_matrix(device):
    a = torch.randn(3, 4, 4)
    a[1, 2, 3], a[2, 0, 0] = float("nan"), float("inf")
    actual = torch.linalg.matrix_exp(a.to(device)).cpu()
    assert actual[1].isnan().any() and not actual[2].isfinite().all()
    torch.testing.assert_close(actual[0], torch.linalg.matrix_exp(a[0]))


def test_out(device):
    a = torch.randn(2, 5, 5, device=device)
    out = torch.full((2, 5, 10), 3.0, device=device)[..., ::2]
    assert torch.ops.aten.linalg_matrix_exp.out(a, out=out) is out
    assert torch.equal(out.cpu(), torch.linalg.matrix_exp(a).cpu())


def test_linear_combination(dtype):
    terms, coefficients = torch.randn(3, 2, 4, dtype=dtype), torch.randn(5, 3, dtype=dtype)
    actual = torch._compute_linear_combination(on_device(terms), on_device(coefficients))
    torch.testing.assert_close(actual.cpu(), torch.einsum("ij,jkl->ikl", coefficients, terms))


def test_gradient(dtype):
    for scale in (0.02, 0.5, 3.0):
        assert_gradients(torch.linalg.matrix_exp, torch.randn(2, 5, 5, dtype=dtype) * scale)
