"""Cholesky factors: residuals in double precision, triangles, layouts, batches, info, solutions, gradients."""

import itertools

import pytest
import torch

from helpers import assert_close, layouts
from linalg_reference import DTYPES, assert_gradients, assert_small, eps, norm, on_device, wide

pytestmark = pytest.mark.validated


def definite(*shape: int, dtype=torch.float32, condition: float = 100.0) -> torch.Tensor:
    """Positive definite matrices, made in double precision and rounded."""
    n = shape[-1]
    q = torch.linalg.qr(torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64)).Q
    values = torch.logspace(0, -torch.tensor(condition).log10().item(), n, dtype=torch.float64)
    a = (q * values.to(q.dtype)) @ q.mH
    return ((a + a.mH) / 2).to(dtype)


def poisoned(a: torch.Tensor, upper: bool) -> torch.Tensor:
    """`a` with NaN where a factorization may not look."""
    mask = torch.ones(a.shape[-2:]).tril(-1) if upper else torch.ones(a.shape[-2:]).triu(1)
    return a.masked_fill(mask.bool(), float("nan"))


def check(a: torch.Tensor, upper: bool = False) -> None:
    factor, info = torch.linalg.cholesky_ex(on_device(poisoned(a, upper)), upper=upper)
    assert (info.cpu() == 0).all() and info.dtype == torch.int32
    f = wide(factor)
    assert torch.equal(f, f.triu() if upper else f.tril())
    assert (f.diagonal(dim1=-2, dim2=-1).real > 0).all()
    product = f.mH @ f if upper else f @ f.mH
    assert_small(product - wide(a).resolve_conj(), norm(wide(a)), a.shape[-1], eps(a))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 31, 32, 33, 40, 41, 56, 57, 80, 81, 130])
def test_sizes(device, n, dtype):
    for upper in (False, True):
        check(definite(2, n, n, dtype=dtype), upper)


@pytest.mark.parametrize("n", [300, 513])
def test_large(device, n):
    for upper in (False, True):
        check(definite(n, n), upper)


def test_conditions(device):
    check(definite(60, 60, condition=1e5))
    if torch.aule.get_device_properties().float64:
        check(definite(90, 90, dtype=torch.float64, condition=1e12))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_layouts(device, dtype):
    for n in (5, 90):
        a = definite(3, n, n, dtype=dtype)
        for _, x in layouts(a):
            for upper in (False, True):
                f = wide(torch.linalg.cholesky(on_device(x), upper=upper))
                product = f.mH @ f if upper else f @ f.mH
                assert_small(product - wide(x), norm(wide(x)), n, eps(a))
        for x in (a.mT.contiguous().mT, a.mT, a.conj(), a.mH):
            f = wide(torch.linalg.cholesky(on_device(x)))
            assert_small(f @ f.mH - wide(x).resolve_conj(), norm(wide(x)), n, eps(a))


def test_imaginary_parts_of_the_diagonal_are_not_read(device):
    a = definite(3, 9, 9, dtype=torch.complex64)
    spoiled = a + torch.diag_embed(torch.full((3, 9), 1e3j, dtype=torch.complex64))
    assert_close(torch.linalg.cholesky(spoiled.to(device)), torch.linalg.cholesky(a), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [2, 4])
def test_many_small_matrices(device, n):
    a = torch.randn(70_001, n, n)
    check(a @ a.mT + torch.eye(n))


def test_no_elements(device):
    for shape in ((0, 0), (3, 0, 0), (0, 4, 4)):
        factor, info = torch.linalg.cholesky_ex(torch.ones(shape, device=device))
        assert factor.shape == shape and info.shape == shape[:-2] and (info.cpu() == 0).all()


@pytest.mark.parametrize("n", [1, 4, 40, 100, 200])
def test_info_of_what_is_not_definite(device, n):
    """The order of the first leading minor that is not positive, as on the CPU; a NaN counts as such."""
    a = definite(6, n, n, condition=10.0)
    bad = torch.randint(n, (6,))
    a[torch.arange(6), bad, bad] = torch.tensor([-1.0, 0.0, float("nan"), -1e3, -2.0, -3.0])
    for upper in (False, True):
        info = torch.linalg.cholesky_ex(a.to(device), upper=upper).info
        assert torch.equal(info.cpu(), torch.linalg.cholesky_ex(a, upper=upper).info)
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        torch.linalg.cholesky(a.to(device))
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        torch.cholesky(a.to(device))


def test_out(device):
    a = definite(2, 45, 45)
    expected = torch.linalg.cholesky(a)
    for out in (torch.full((2, 45, 45), float("nan")), torch.full((2, 45, 45), float("nan")).mT, torch.empty(0)):
        given = on_device(out)
        assert torch.linalg.cholesky(a.to(device), out=given) is given
        assert_close(given, expected, rtol=1e-4, atol=1e-4)
    factor, info = torch.empty(0, device=device), torch.full((2,), 7, dtype=torch.int32, device=device)
    torch.linalg.cholesky_ex(a.to(device), out=(factor, info))
    assert_close(factor, expected, rtol=1e-4, atol=1e-4)
    assert info.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="dtype"):
        torch.linalg.cholesky(a.to(device), out=torch.empty(0, dtype=torch.int64, device=device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 5, 70])
def test_solutions_and_inverses(device, n, dtype):
    a, b = definite(2, n, n, dtype=dtype), torch.randn(2, n, 3, dtype=dtype)
    for upper in (False, True):
        f = torch.linalg.cholesky(a, upper=upper)
        for factor in (f, f.mT.contiguous().mT):
            x = wide(torch.cholesky_solve(b.to(device), on_device(factor), upper=upper))
            assert_small(wide(a) @ x - wide(b), norm(wide(a)) * norm(x), n, eps(a), factor=20)
        inverse = wide(torch.cholesky_inverse(f.to(device), upper=upper))
        assert_small(wide(a) @ inverse - torch.eye(n), norm(wide(a)) * norm(inverse), n, eps(a), factor=20)
        out = torch.full((2, n, n), float("nan"), dtype=dtype, device=device)
        torch.cholesky_inverse(f.to(device), upper=upper, out=out)
        assert torch.equal(wide(out), inverse)


def test_solutions_of_broadcast_batches(device):
    a, b = definite(3, 1, 20, 20, condition=10.0), torch.randn(4, 20, 2)
    f = torch.linalg.cholesky(a)
    assert_close(torch.cholesky_solve(b.to(device), f.to(device)), torch.cholesky_solve(b, f), rtol=1e-4, atol=1e-4)
    for shape in ((0, 3, 3), (2, 0, 0)):
        assert torch.cholesky_inverse(torch.ones(shape, device=device)).shape == shape
    with pytest.raises(RuntimeError, match="square"):
        torch.cholesky_inverse(torch.ones(3, 4, device=device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_gradients(device, dtype):
    for n, upper in itertools.product((6, 60), (False, True)):
        a, b = definite(2, n, n, dtype=dtype, condition=5.0), torch.randn(2, n, 2, dtype=dtype)
        assert_gradients(lambda x, upper=upper: torch.linalg.cholesky(x, upper=upper), a)
        assert_gradients(lambda x, y: torch.cholesky_solve(y, torch.linalg.cholesky(x)), a, b)
        assert_gradients(lambda x: torch.cholesky_inverse(torch.linalg.cholesky(x)), a)


@pytest.mark.float64
def test_gradients_by_differences(device):
    a = definite(3, 3, dtype=torch.complex128, condition=3.0).to(device).requires_grad_()
    for check_by_differences in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check_by_differences(lambda x: torch.linalg.cholesky((x + x.mH) / 2), a)
