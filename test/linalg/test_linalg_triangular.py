"""Triangular systems: residuals in double precision, sides, triangles, conjugates, layouts, batches, gradients."""

import itertools

import pytest
import torch

from helpers import assert_close, layouts
from linalg_reference import DTYPES, assert_gradients, assert_small, eps, norm, on_device, wide

pytestmark = pytest.mark.validated


def triangle(*shape: int, dtype=torch.float32, upper: bool, poisoned: bool = True) -> torch.Tensor:
    """A triangle of which solutions stay small, NaN in the other one, which nobody may read."""
    n = shape[-1]
    a = torch.randn(shape, dtype=dtype) / max(n, 1) ** 0.5
    a = a + torch.diag_embed(torch.sign(torch.randn(shape[:-1])) * 2).to(dtype)
    mask = torch.ones(n, n).triu().bool() if upper else torch.ones(n, n).tril().bool()
    return a.masked_fill(~mask, float("nan") if poisoned else 0.0)


def kept(a: torch.Tensor, upper: bool, unit: bool) -> torch.Tensor:
    """What a solver reads of the triangle, in double precision."""
    a = wide(a).resolve_conj()
    n = a.shape[-1]
    mask = torch.ones(n, n).triu().bool() if upper else torch.ones(n, n).tril().bool()
    a = torch.where(mask, a, torch.zeros((), dtype=a.dtype))
    return a - torch.diag_embed(a.diagonal(dim1=-2, dim2=-1)) + torch.eye(n, dtype=a.dtype) if unit else a


def check(a: torch.Tensor, b: torch.Tensor, upper: bool, left: bool = True, unit: bool = False) -> None:
    x = torch.linalg.solve_triangular(on_device(a), on_device(b), upper=upper, left=left, unitriangular=unit)
    n = a.shape[-1]
    t, solution = kept(a, upper, unit), wide(x)
    product = t @ solution if left else solution @ t
    assert_small(product - wide(b), norm(t) * norm(solution) * (1 if left else n), n, eps(b))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 16, 31, 32, 33, 64, 65, 100, 150])
def test_sizes(device, n, dtype):
    for upper, left in itertools.product((False, True), repeat=2):
        shape = (2, n, 37) if left else (2, 37, n)
        check(triangle(2, n, n, dtype=dtype, upper=upper), torch.randn(shape, dtype=dtype), upper, left)


@pytest.mark.parametrize("upper, left, unit", list(itertools.product((False, True), repeat=3)))
def test_large(device, upper, left, unit):
    n = int(torch.randint(200, 301, ()))
    a = triangle(n, n, upper=upper)
    if unit:
        a = a / 4
    check(a, torch.randn((n, 19) if left else (19, n)), upper, left, unit)


def test_512(device):
    check(triangle(512, 512, upper=False), torch.randn(512, 130), False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("n", [5, 40])
def test_layouts(device, n, dtype):
    """Transposed, offset, strided and conjugated operands."""
    for upper in (False, True):
        a, b = triangle(3, n, n, dtype=dtype, upper=upper), torch.randn(3, n, 7, dtype=dtype)
        for (_, x), (_, y) in zip(layouts(a), layouts(b), strict=True):
            check(x, y, upper)
        check(a.mT.contiguous().mT, b.mT.contiguous().mT, upper)
        for x, y in itertools.product((a, a.conj()), (b, b.conj())):
            check(x, y, upper)
        lower = triangle(3, n, n, dtype=dtype, upper=not upper)
        check(lower.mT, b, upper)
        check(lower.mH, b, upper)
        check(lower.mH, b.mT.contiguous(), upper, left=False)


def test_broadcast_batches(device):
    for n in (4, 50):
        a, b = triangle(3, 1, n, n, upper=True), torch.randn(2, n, 5)
        check(a, b, True)
        check(triangle(n, n, upper=False), torch.randn(4, 3, n, 1), False)


@pytest.mark.parametrize("n", [2, 4])
def test_many_small_matrices(device, n):
    check(triangle(70_001, n, n, upper=False), torch.randn(70_001, n, 3), False)


def test_no_elements(device):
    for a, b in (((0, 0), (0, 3)), ((4, 4), (4, 0)), ((0, 3, 3), (0, 3, 2)), ((2, 0, 0), (2, 0, 0))):
        x = torch.linalg.solve_triangular(torch.ones(a, device=device), torch.ones(b, device=device), upper=True)
        assert x.shape == b


def test_out(device):
    a, b = triangle(2, 40, 40, upper=True, poisoned=False), torch.randn(2, 40, 6)
    expected = torch.linalg.solve_triangular(a, b, upper=True)
    for out in (torch.full((2, 40, 6), float("nan")), torch.full((2, 6, 40), float("nan")).mT, torch.empty(0)):
        given = on_device(out)
        result = torch.linalg.solve_triangular(a.to(device), b.to(device), upper=True, out=given)
        assert result is given
        assert_close(given, expected, rtol=1e-4, atol=1e-4)
    same = b.to(device)
    torch.linalg.solve_triangular(a.to(device), same, upper=True, out=same)
    assert_close(same, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_the_old_operator(device, dtype):
    for upper, transpose, unit in itertools.product((False, True), repeat=3):
        a, b = triangle(2, 36, 36, dtype=dtype, upper=upper, poisoned=False) / 2, torch.randn(2, 36, 5, dtype=dtype)
        options = {"upper": upper, "transpose": transpose, "unitriangular": unit}
        actual = torch.triangular_solve(b.to(device), a.to(device), **options)
        expected = torch.triangular_solve(wide(b), wide(a), **options)
        scale = norm(expected.solution)
        assert_small(wide(actual.solution) - expected.solution, scale, 36, eps(b), factor=40)
        assert torch.equal(actual.cloned_coefficient.cpu(), a)


def test_singular_triangles_give_infinities(device):
    a = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    x = torch.linalg.solve_triangular(a.to(device), torch.ones(2, 1, device=device), upper=False)
    assert_close(x, torch.tensor([[float("inf")], [float("-inf")]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_gradients(device, upper, dtype):
    a, b = triangle(2, 40, 40, dtype=dtype, upper=upper, poisoned=False), torch.randn(2, 40, 3, dtype=dtype)
    for unit in (False, True):

        def solve(x, y, unit=unit):
            return torch.linalg.solve_triangular(x, y, upper=upper, unitriangular=unit)

        assert_gradients(solve, a / 4 if unit else a, b)


@pytest.mark.float64
def test_gradients_by_differences(device):
    a = triangle(4, 4, dtype=torch.complex128, upper=True, poisoned=False).to(device).requires_grad_()
    b = torch.randn(4, 2, dtype=torch.complex128, device=device, requires_grad=True)
    for check_by_differences in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check_by_differences(lambda x, y: torch.linalg.solve_triangular(x, y, upper=True), (a, b))
