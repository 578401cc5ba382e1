"""LU factors: the CPU's pivots, residuals in double precision, layouts, batches, info, solutions, gradients."""

import itertools

import pytest
import torch

from helpers import assert_close, check_program, layouts, without
from linalg_reference import DTYPES, assert_gradients, assert_small, eps, norm, on_device, wide

pytestmark = pytest.mark.validated


def check(a: torch.Tensor) -> None:
    """Factors of matrices whose pivots no rounding can decide otherwise than the CPU's do."""
    lu, pivots, info = torch.linalg.lu_factor_ex(on_device(a))
    assert lu.shape == a.shape and pivots.dtype == info.dtype == torch.int32 and (info.cpu() == 0).all()
    m, n = a.shape[-2:]
    k = min(m, n)
    assert ((pivots.cpu() >= torch.arange(1, k + 1)) & (pivots.cpu() <= m)).all()
    p, lower, upper = (wide(t) for t in torch.lu_unpack(lu, pivots))
    assert lower.abs().max() <= 1 + 8 * eps(a) or a.is_complex() and lower.abs().max() <= 2**0.5 + 8 * eps(a)
    product, scale = p @ (lower @ upper), norm(lower.abs() @ upper.abs())
    assert_small(product - wide(a).resolve_conj(), scale, max(m, n), eps(a))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 15, 16, 17, 33, 40, 41, 56, 65, 80, 81, 128, 150])
def test_sizes(device, n, dtype):
    check(torch.randn(2, n, n, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("m, n", [(1, 9), (9, 1), (3, 70), (70, 3), (100, 41), (41, 100), (17, 300), (300, 17)])
def test_shapes(device, m, n, dtype):
    check(torch.randn(2, m, n, dtype=dtype))


@pytest.mark.parametrize("m, n", [(300, 300), (512, 512), (700, 90), (90, 700), (1024, 1024)])
def test_large(device, m, n):
    check(torch.randn(m, n))


def test_tall(device):
    """More rows than loops of few columns may walk."""
    a = torch.randn(40_000, 3)
    lu, pivots = torch.linalg.lu_factor(a.to(device))
    assert torch.equal(pivots.cpu(), torch.linalg.lu_factor(wide(a)).pivots)
    permuted, factors = wide(a), wide(lu)
    for row, other in enumerate(pivots.tolist()):
        permuted[[row, other - 1]] = permuted[[other - 1, row]]
    lower, upper = factors.tril(-1) + torch.eye(40_000, 3), factors[:3].triu()
    assert_small(lower @ upper - permuted, norm(lower.abs() @ upper.abs()), 3, eps(a))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pivots_are_the_cpus(device, dtype):
    """Columns whose magnitudes are far apart, and equal ones, of which the first is taken."""
    for n in (3, 40, 100):
        a = torch.randn(4, n, n, dtype=dtype)
        actual, expected = torch.linalg.lu_factor(a.to(device)), torch.linalg.lu_factor(wide(a))
        assert torch.equal(actual.pivots.cpu(), expected.pivots)
    a = torch.randint(-1, 2, (50, 5, 5)).to(dtype)
    a[:, 0] = 1
    assert torch.equal(torch.linalg.lu_factor_ex(a.to(device)).pivots[:, :1].cpu(), torch.ones(50, 1).int())
    if dtype.is_complex:  # LAPACK's order: |re| + |im|
        a = torch.tensor([[1.2, 1.0], [0.8 + 0.8j, 2.0]], dtype=dtype)
        assert torch.linalg.lu_factor(a.to(device)).pivots.tolist() == [2, 2]


def test_without_pivoting(device):
    for n in (3, 50, 100):
        a = torch.randn(2, n, n) + 2 * n**0.5 * torch.eye(n)
        lu, pivots = torch.linalg.lu_factor(a.to(device), pivot=False)
        assert torch.equal(pivots.cpu(), torch.arange(1, n + 1).expand(2, n).int())
        p, lower, upper = torch.linalg.lu(a.to(device), pivot=False)
        assert p.numel() == 0
        assert_small(wide(lower) @ wide(upper) - wide(a), norm(wide(a)), n, eps(a), factor=20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_layouts(device, dtype):
    for shape in ((3, 6, 6), (2, 90, 50)):
        a = torch.randn(shape, dtype=dtype)
        for _, x in layouts(a):
            check(x)
        for x in (a.mT, a.mT.contiguous().mT, a.conj(), a.mH):
            check(x)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_many_small_matrices(device, n):
    check(torch.randn(70_001, n, n))


def test_no_elements(device):
    for shape in ((0, 0), (3, 0, 0), (0, 4, 4), (4, 0), (0, 4)):
        lu, pivots, info = torch.linalg.lu_factor_ex(torch.ones(shape, device=device))
        expected = torch.linalg.lu_factor_ex(torch.ones(shape))
        assert lu.shape == shape and pivots.shape == expected.pivots.shape and info.shape == expected.info.shape
        assert (info.cpu() == 0).all()
    assert torch.linalg.det(torch.ones(0, 0, device=device)).item() == 1
    assert torch.linalg.inv(torch.ones(2, 0, 0, device=device)).shape == (2, 0, 0)
    assert torch.linalg.solve(torch.eye(4, device=device), torch.ones(4, 0, device=device)).shape == (4, 0)


@pytest.mark.parametrize("n", [1, 3, 50, 120])
def test_info_of_singular_matrices(device, n):
    """The first pivot that is 0; factors are finished all the same."""
    a = torch.randn(4, n, n)
    a[0] = 0
    a[1, :, n // 2] = 0
    a[2, :, n - 1] = 0
    a[3, n // 2 :, : n // 2 + 1] = 0
    expected = torch.linalg.lu_factor_ex(a)
    actual = torch.linalg.lu_factor_ex(a.to(device))
    assert torch.equal(actual.info.cpu(), expected.info)
    p, lower, upper = (wide(t) for t in torch.lu_unpack(actual.LU, actual.pivots))
    assert_small(p @ lower @ upper - wide(a), norm(lower.abs() @ upper.abs()).clamp_min(1e-30), n, eps(a))
    for function in (torch.linalg.lu_factor, torch.linalg.inv, lambda t: torch.linalg.solve(t, t)):
        with pytest.raises(RuntimeError, match=r"singular|U\[\d+,\d+\] is zero"):
            function(a.to(device))
    assert torch.equal(torch.linalg.inv_ex(a.to(device)).info.cpu(), expected.info)
    assert torch.linalg.det(a.to(device))[0].item() == 0
    assert torch.linalg.slogdet(a.to(device)).logabsdet[0].item() == -float("inf")


def test_nan_and_infinity_end(device):
    for n in (4, 100):
        a = torch.randn(3, n, n)
        a[0, 0, 0], a[1, n // 2, n // 2], a[2, n - 1, 0] = float("nan"), float("nan"), float("inf")
        lu, pivots, _ = torch.linalg.lu_factor_ex(a.to(device))
        assert not wide(lu).isfinite().all()
        assert ((pivots.cpu() >= 1) & (pivots.cpu() <= n)).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 3, 8, 45, 100])
def test_solutions(device, n, dtype):
    a = torch.randn(2, n, n, dtype=dtype) + torch.eye(n)
    lu, pivots = torch.linalg.lu_factor(a.to(device))
    for left, adjoint in itertools.product((True, False), repeat=2):
        b = torch.randn((2, n, 5) if left else (2, 5, n), dtype=dtype)
        matrix = wide(a).mH if adjoint else wide(a)

        def residual(x, left=left, b=b, matrix=matrix):
            x = wide(x)
            product = matrix @ x if left else x @ matrix
            assert_small(product - wide(b), n * norm(matrix) * norm(x), n, eps(a))

        residual(torch.linalg.lu_solve(lu, pivots, b.to(device), left=left, adjoint=adjoint))
        if not adjoint:
            residual(torch.linalg.solve(a.to(device), b.to(device), left=left))
    vector = torch.randn(2, n, dtype=dtype)
    x = wide(torch.linalg.solve(a.to(device), vector.to(device)))
    assert_small((wide(a) @ x[..., None]) - wide(vector)[..., None], n * norm(wide(a)) * norm(x[..., None]), n, eps(a))
    inverse = wide(torch.linalg.inv(a.to(device)))
    assert_small(wide(a) @ inverse - torch.eye(n), n * norm(wide(a)) * norm(inverse), n, eps(a))


def test_a_large_system(device):
    a, b = torch.randn(600, 600), torch.randn(600, 2)
    x = wide(torch.linalg.solve(a.to(device), b.to(device)))
    assert_small(wide(a) @ x - wide(b), norm(wide(a)) * norm(x), 600, eps(a))


def test_solutions_of_broadcast_batches(device):
    a, b = torch.randn(3, 1, 20, 20) + 5 * torch.eye(20), torch.randn(4, 20, 2)
    assert_close(torch.linalg.solve(a.to(device), b.to(device)), torch.linalg.solve(a, b), rtol=1e-3, atol=1e-4)
    lu, pivots = torch.linalg.lu_factor(a)
    actual = torch.linalg.lu_solve(lu.to(device), pivots.to(device), b.to(device))
    assert_close(actual, torch.linalg.lu_solve(lu, pivots, b), rtol=1e-3, atol=1e-4)
    assert_close(torch.lu_solve(b[:1].to(device), lu[0].to(device), pivots[0].to(device)),
                 torch.lu_solve(b[:1], lu[0], pivots[0]), rtol=1e-3, atol=1e-4)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_determinants(device, dtype):
    for n in (1, 2, 5, 50):
        a = torch.randn(3, n, n, dtype=dtype) / n**0.5 + torch.eye(n)
        tolerance = 300 * n * eps(a)
        sign, logabsdet = torch.linalg.slogdet(a.to(device))
        expected = torch.linalg.slogdet(wide(a))
        assert_close(wide(sign), expected.sign, rtol=tolerance, atol=tolerance)
        assert_close(wide(logabsdet), expected.logabsdet, rtol=tolerance, atol=tolerance)
        assert_close(wide(torch.linalg.det(a.to(device))), torch.linalg.det(wide(a)), rtol=tolerance, atol=tolerance)


def test_unpacked(device):
    lu, pivots = torch.linalg.lu_factor(torch.randn(2, 3, 60, 35))
    expected = torch.lu_unpack(lu, pivots)
    for actual, e in zip(torch.lu_unpack(lu.to(device), pivots.to(device)), expected, strict=True):
        assert torch.equal(actual.cpu(), e)
    only = torch.lu_unpack(lu.to(device), pivots.to(device), unpack_data=False)
    assert torch.equal(only[0].cpu(), expected[0]) and only[1].numel() == 0


def test_out(device):
    a, b = torch.randn(2, 20, 20) + 5 * torch.eye(20), torch.randn(2, 20, 3)
    for out in (torch.full((2, 20, 3), float("nan")), torch.full((2, 3, 20), float("nan")).mT, torch.empty(0)):
        given = on_device(out)
        assert torch.linalg.solve(a.to(device), b.to(device), out=given) is given
        assert_close(given, torch.linalg.solve(a, b), rtol=1e-3, atol=1e-4)
    lu = torch.full((2, 20, 20), float("nan"), device=device)
    pivots = torch.empty(0, dtype=torch.int32, device=device)
    torch.linalg.lu_factor(a.to(device), out=(lu, pivots))
    expected = torch.linalg.lu_factor(a)
    assert_close(lu, expected.LU, rtol=1e-3, atol=1e-4)
    assert torch.equal(pivots.cpu(), expected.pivots)
    same = a.to(device)
    torch.linalg.inv(same, out=same)
    assert_close(same, torch.linalg.inv(a), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("n", [4, 50])
def test_gradients(device, n, dtype):
    a, b = torch.randn(2, n, n, dtype=dtype) / n**0.5 + 2 * torch.eye(n), torch.randn(2, n, 3, dtype=dtype)
    for function, inputs in (
        (torch.linalg.solve, (a, b)),
        (torch.linalg.inv, (a,)),
        (lambda x: torch.linalg.slogdet(x).logabsdet, (a,)),
        (torch.linalg.det, (a / 2,)),
        (lambda x: torch.linalg.lu(x)[1:], (a,)),
        (lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y), (a, b)),
    ):
        assert_gradients(function, *inputs)


@pytest.mark.float64
def test_gradients_by_differences(device):
    a = (torch.randn(3, 3, dtype=torch.complex128) + 4 * torch.eye(3)).to(device).requires_grad_()
    b = torch.randn(3, 2, dtype=torch.complex128, device=device, requires_grad=True)
    for check_by_differences in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check_by_differences(torch.linalg.solve, (a, b))
        assert check_by_differences(torch.linalg.det, a)


def test_kernels_of_gpus():
    check_program("gpu_linalg", **without("cpu_kernels"))
