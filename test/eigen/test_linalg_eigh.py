"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices: residuals, orthogonality, LAPACK's values."""

import pytest
import torch

import torch_aule.tune
from helpers import like_strided
from linalg_reference import check_orthonormal, dtypes, near, rounding, wide

pytestmark = pytest.mark.validated
dtype = dtypes()


def hermitian(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    a = torch.randn(*shape, dtype=dtype)
    return a + a.mH


def with_values(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A Hermitian matrix with these eigenvalues."""
    n, over = values.shape[0], torch.complex128 if dtype.is_complex else torch.float64
    q = torch.linalg.qr(torch.randn(n, n, dtype=over))[0]
    a = q * values.to(over) @ q.mH
    return ((a + a.mH) / 2).to(dtype)


def check_eigh(a: torch.Tensor, uplo: str = "L", values_alone: bool = True) -> None:
    """A V = V diag(w), V is unitary, w ascends and is LAPACK's, to roundings of the largest value."""
    n = a.shape[-1]
    w, v = torch.linalg.eigh(like_strided(a), UPLO=uplo)
    w_cpu, v_cpu = torch.linalg.eigh(a, UPLO=uplo)
    assert (w.shape, w.dtype, w.stride()) == (w_cpu.shape, w_cpu.dtype, w_cpu.stride())
    assert (v.shape, v.dtype, v.stride()) == (v_cpu.shape, v_cpu.dtype, v_cpu.stride())
    if a.numel() == 0:
        return
    expected = torch.linalg.eigvalsh(wide(a), UPLO=uplo)
    scale = expected.abs().amax(-1, keepdim=True)
    w, v = wide(w), wide(v)
    assert (w.diff(dim=-1) >= 0).all()
    near(w, expected, scale, rounding(a, n))
    check_orthonormal(v, rounding(a, n))
    lower = wide(a).tril(-1) if uplo == "L" else wide(a).triu(1).mH
    full = lower + lower.mH + torch.diag_embed(wide(a).diagonal(0, -2, -1).real).to(lower.dtype)
    near(full @ v, v * w.unsqueeze(-2), scale.unsqueeze(-1), rounding(a, n))
    if values_alone:
        near(torch.linalg.eigvalsh(like_strided(a), UPLO=uplo), expected, scale, rounding(a, n))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 48, 64])
def test_small(n, dtype):
    check_eigh(hermitian(n, n, dtype=dtype))
    check_eigh(hermitian(3, n, n, dtype=dtype), "U")


@pytest.mark.parametrize("n", [77, 110])
def test_blocks(n, dtype):
    check_eigh(hermitian(n, n, dtype=dtype))


def test_large():
    check_eigh(hermitian(300, 300, dtype=torch.float32), values_alone=False)


def test_halvings_of_several_launches():
    """lavapipe's loops end early."""
    a = hermitian(520, 520, dtype=torch.float64)
    expected = torch.linalg.eigvalsh(a)
    near(torch.linalg.eigvalsh(a.to("aule")).cpu(), expected, expected.abs().amax(), rounding(a, 520))


# Invocations of a workgroup, rows of one, workgroups of a matrix; columns in shared memory or not.
REDUCTIONS = [(64,), (64, 8, 3), (256, 4, 2, 0), (512, 16, 2)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 31, 32, 33, 34, 63, 64, 65, 96, 97, 128, 129])
def test_reduced(n, reduction, dtype):
    """To a tridiagonal matrix, which has no merges up to 32 rows, two halves up to 64, then four quarters."""
    with torch_aule.tune.override(tridiagonal=reduction):
        check_eigh(hermitian(n, n, dtype=dtype))
        check_eigh(hermitian(3, n, n, dtype=dtype), "U")


def tridiagonal(diagonal: torch.Tensor, beside: torch.Tensor) -> torch.Tensor:
    return torch.diag(diagonal) + torch.diag(beside, 1) + torch.diag(beside, -1)


def tridiagonal_matrices(n: int):
    """Blocks that are equal, or hardly joined; values that merges leave as they are, or turn in pairs."""
    ones, noise = torch.ones(n), torch.randn(n)
    parts = torch.where(torch.arange(n - 1) % 10 == 9, 1e-9, 1.0)
    yield tridiagonal(2 * ones, -ones[1:])
    yield tridiagonal((torch.arange(n) - n // 2).abs().float(), ones[1:])  # Wilkinson's
    yield tridiagonal((torch.arange(n) % 10 - 4.5).abs(), parts)  # glued
    yield tridiagonal(noise, torch.zeros(n - 1))
    yield tridiagonal(torch.zeros(n), noise[1:])
    yield tridiagonal(torch.logspace(0, -20, n), torch.logspace(-1, -21, n - 1))
    yield tridiagonal(torch.logspace(-20, 0, n), torch.logspace(-21, -1, n - 1))
    yield tridiagonal(ones, torch.where(torch.arange(n - 1) == n // 2, 0.0, 1e-6))


@pytest.mark.parametrize(("n", "reduction"), [(33, (64,)), (70, (256, 4, 2, 0))], ids=str)
def test_reduced_spectra(n, reduction, dtype):
    q = torch.randn(n, 2)
    with torch_aule.tune.override(tridiagonal=reduction):
        for a in (*tridiagonal_matrices(n), torch.ones(n, n), torch.eye(n), torch.zeros(n, n), q @ q.mT):
            check_eigh(a.to(dtype))
        for values in (torch.linspace(-1, 1, n).sign(), torch.logspace(0, -6, n) * 1e-25, torch.logspace(6, 0, n)):
            check_eigh(with_values(values.double(), dtype))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_reduced_infinities_are_an_error(value, dtype):
    with torch_aule.tune.override(tridiagonal=(64,)):
        for n in (5, 40, 100):
            a = hermitian(2, n, n, dtype=dtype)
            a[1, n - 1, 3] = value
            for function in (torch.linalg.eigh, torch.linalg.eigvalsh):
                with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
                    function(a.to("aule"))


def test_many_tiny_matrices():
    check_eigh(hermitian(66_001, 3, 3, dtype=torch.float32))


@pytest.mark.parametrize("n", [4, 24, 70])
def test_spectra(n, dtype):
    eps = torch.finfo(dtype).eps
    for values in (
        torch.logspace(0, -12, n),
        torch.linspace(-1, 1, n).sign(),
        torch.ones(n),
        torch.cat([torch.ones(n // 2), 1 + eps * torch.arange(n - n // 2)]),
        torch.cat([torch.zeros(n - 2), torch.tensor([-3.0, 5])]),
        torch.logspace(0, -6, n) * 1e20,
        torch.logspace(0, -6, n) * 1e-25,
    ):
        check_eigh(with_values(values.double(), dtype))


def test_special_matrices(dtype):
    for n in (3, 20, 90):
        zero = torch.zeros(n, n, dtype=dtype)
        diagonal = torch.diag(torch.randn(n)).to(dtype)
        for a in (zero, diagonal, torch.ones(n, n, dtype=dtype), torch.eye(n, dtype=dtype)):
            check_eigh(a)
        w, v = torch.linalg.eigh(diagonal.to("aule"))  # nothing is rotated
        most = v.cpu().abs().amax(-1)
        torch.testing.assert_close(most, torch.ones_like(most), rtol=0, atol=8 * torch.finfo(w.dtype).eps)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_one_triangle_is_read(uplo, dtype):
    """And of the diagonal the real part."""
    a = hermitian(2, 12, 12, dtype=dtype)
    if dtype.is_complex:
        a += 1j * torch.eye(12, dtype=dtype)
    other = a.triu(1) if uplo == "L" else a.tril(-1)
    check_eigh(a - other + torch.full_like(a, float("nan")).triu(1) if uplo == "L" else a - other, uplo)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_no_elements(shape):
    check_eigh(torch.randn(*shape))


def test_layouts(dtype):
    base = hermitian(4, 20, 20, dtype=dtype)
    check_eigh(base.mT)
    check_eigh(base[1:, 2:18, 2:18])
    check_eigh(base[:, ::2, ::2])
    check_eigh(base[0].expand(3, 20, 20))
    check_eigh(hermitian(2, 3, 6, 6, dtype=dtype))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_infinities_are_an_error(value, dtype):
    for n in (5, 40, 100):
        a = hermitian(2, n, n, dtype=dtype)
        a[1, 3, 3] = value
        for function in (torch.linalg.eigh, torch.linalg.eigvalsh):
            with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
                function(a.to("aule"))


@pytest.mark.parametrize("n", [20, 33, 70, 150])
def test_residual(n, dtype):
    """A few roundings, whatever n."""
    a = hermitian(n, n, dtype=dtype)
    exact, bound = wide(a), 30 * torch.finfo(dtype).eps
    w, v = (wide(t) for t in torch.linalg.eigh(a.to("aule")))
    assert torch.linalg.matrix_norm(exact @ v - v * w, 2) <= bound * torch.linalg.matrix_norm(exact, 2)
    assert torch.linalg.matrix_norm(v.mH @ v - torch.eye(n), 2) <= bound


def test_out(dtype):
    a = hermitian(2, 9, 9, dtype=dtype).to("aule")
    expected = torch.linalg.eigh(a)
    fresh = tuple(torch.empty(0, dtype=t.dtype, device="aule") for t in expected)
    poisoned = (torch.full((2, 18), 3.0, dtype=fresh[0].dtype, device="aule")[:, ::2],
                torch.full((2, 9, 9), 3, dtype=dtype, device="aule"))  # fmt: skip
    for outs in (fresh, poisoned):
        torch.linalg.eigh(a, out=outs)
        for out, wanted in zip(outs, expected):
            assert torch.equal(out.cpu(), wanted.cpu())
    out = torch.empty(0, dtype=fresh[0].dtype, device="aule")
    assert torch.equal(torch.linalg.eigvalsh(a, out=out).cpu(), torch.linalg.eigvalsh(a).cpu())


def test_gradient(dtype):
    a = hermitian(2, 7, 7, dtype=dtype)
    grads = []
    for x in (a.to(wide(a).dtype), a.to("aule")):
        x = x.requires_grad_(True)
        w, v = torch.linalg.eigh((x + x.mH) / 2)
        (w.cumsum(-1).sum() + v.abs().cumsum(-1).sum()).backward()
        grads.append(x.grad)
    near(grads[1], grads[0], grads[0].abs().amax(), 100 * rounding(a, 7))
