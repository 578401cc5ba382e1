"""LDL factors: LAPACK's pivots and factors, residuals of solutions, layouts, batches, info."""

import pytest
import torch

from helpers import assert_close, layouts
from linalg_reference import DTYPES, assert_small, eps, norm, on_device, wide

pytestmark = pytest.mark.validated


def indefinite(*shape: int, dtype=torch.float32, hermitian: bool) -> torch.Tensor:
    """Matrices with small diagonals, so that many pivots are blocks 2 x 2."""
    a = torch.randn(shape, dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    diagonal *= torch.rand(shape[:-1]) ** 2
    return a


def check(a: torch.Tensor, hermitian: bool, same_pivots: bool = True) -> None:
    ld, pivots, info = torch.linalg.ldl_factor_ex(on_device(a), hermitian=hermitian)
    assert (info.cpu() == 0).all() and pivots.dtype == info.dtype == torch.int32
    if same_pivots:
        expected = torch.linalg.ldl_factor_ex(wide(a).resolve_conj(), hermitian=hermitian)
        assert torch.equal(pivots.cpu(), expected.pivots)
    n = a.shape[-1]
    b = torch.randn(*a.shape[:-1], 3, dtype=a.dtype)
    x = wide(torch.linalg.ldl_solve(ld, pivots, b.to("aule"), hermitian=hermitian))
    assert_small(wide(a) @ x - wide(b), norm(wide(a)) * norm(x), n, eps(a), factor=100)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 20, 33, 64, 90])
def test_sizes(device, n, dtype):
    for hermitian in (False, True) if dtype.is_complex else (False,):
        check(indefinite(3, n, n, dtype=dtype, hermitian=hermitian), hermitian)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_factors_are_lapacks(device, dtype):
    for hermitian in (False, True):
        a = indefinite(4, 30, 30, dtype=dtype, hermitian=hermitian)
        actual, expected = (torch.linalg.ldl_factor(t, hermitian=hermitian) for t in (a.to(device), a))
        assert torch.equal(actual.pivots.cpu(), expected.pivots)
        assert (expected.pivots < 0).any()
        assert_close(actual.LD.tril(), expected.LD.tril(), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_layouts(device, dtype):
    a = indefinite(2, 12, 12, dtype=dtype, hermitian=True)
    for _, x in layouts(a):
        factors = torch.linalg.ldl_factor(on_device(x), hermitian=True)
        expected = torch.linalg.ldl_factor(wide(x), hermitian=True)
        assert torch.equal(factors.pivots.cpu(), expected.pivots)
    for x in (a.mT.contiguous().mT, a.mH):
        check(x, True)


def test_many_small_matrices(device):
    check(indefinite(70_001, 3, 3, hermitian=False) + 3 * torch.eye(3), False, same_pivots=False)


def test_shared_factors_and_no_elements(device):
    a, b = indefinite(3, 1, 9, 9, hermitian=False) + 8 * torch.eye(9), torch.randn(4, 9, 2)
    ld, pivots = torch.linalg.ldl_factor(a)
    x = wide(torch.linalg.ldl_solve(ld.to(device), pivots.to(device), b.to(device)))  # the CPU's reads past its pivots
    assert_small(wide(a) @ x - wide(b), norm(wide(a)) * norm(x), 9, eps(a), factor=100)
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        ld, pivots, info = torch.linalg.ldl_factor_ex(torch.ones(shape, device=device))
        assert ld.shape == shape and pivots.shape == shape[:-1] and info.shape == shape[:-2]


def test_info_of_singular_matrices(device):
    a = torch.zeros(3, 5, 5)
    a[1] = torch.diag(torch.tensor([1.0, 0.0, 2.0, 0.0, 3.0]))
    a[2] = indefinite(5, 5, hermitian=False)
    expected = torch.linalg.ldl_factor_ex(a)
    actual = torch.linalg.ldl_factor_ex(a.to(device))
    assert torch.equal(actual.info.cpu(), expected.info) and torch.equal(actual.pivots.cpu(), expected.pivots)
    with pytest.raises(RuntimeError, match="ldl_factor"):  # in the words of the CPU
        torch.linalg.ldl_factor(a.to(device))
    a[:, 2, 1] = float("nan")
    torch.linalg.ldl_factor_ex(a.to(device)).LD.cpu()
