"""Eigenvalues and eigenvectors of general matrices: residuals, LAPACK's values as sets, unit vectors, errors."""

import pytest
import torch

from helpers import layouts
from linalg_reference import DTYPES, assert_gradients, dtypes, near, on_device, rounding, wide

pytestmark = pytest.mark.validated
dtype = dtypes()


def farthest(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Of each set, how far the values are apart, each taken with the nearest that is left."""
    distances = (actual.unsqueeze(-1) - expected.unsqueeze(-2)).abs()
    worst = torch.zeros(distances.shape[:-2], dtype=torch.float64)
    for _ in range(actual.shape[-1]):
        nearest, place = distances.flatten(-2).min(-1)
        worst = torch.maximum(worst, nearest)
        n = actual.shape[-1]
        taken = torch.zeros_like(distances, dtype=torch.bool)
        rows, columns = (place // n)[..., None, None], (place % n)[..., None, None]
        index = torch.arange(n)
        taken |= (index[:, None] == rows) | (index[None, :] == columns)
        distances = distances.masked_fill(taken, float("inf"))
    return worst


def check(a: torch.Tensor, spread: float | None = 1.0) -> None:
    """A V = V diag(w) with unit vectors. `spread`: how far values may be off, of a stable algorithm's bound."""
    w, v = torch.linalg.eig(on_device(a))
    w_cpu, v_cpu = torch.linalg.eig(torch.zeros_like(a.resolve_conj()))  # of ones(20, 20) LAPACK's own gives up
    for actual, expected in ((w, w_cpu), (v, v_cpu)):
        assert (actual.shape, actual.dtype, actual.stride()) == (expected.shape, expected.dtype, expected.stride())
    alone = torch.linalg.eigvals(on_device(a))
    assert (alone.shape, alone.dtype, alone.stride()) == (w_cpu.shape, w_cpu.dtype, w_cpu.stride())
    if a.numel() == 0:
        return
    n, w, v = a.shape[-1], wide(w), wide(v)
    exact = wide(a).resolve_conj().to(v.dtype)
    scale = torch.linalg.matrix_norm(exact, keepdim=True)
    near(exact @ v, v * w.unsqueeze(-2), scale, rounding(a, n))
    near(v.abs().square().sum(-2), torch.ones(w.shape), torch.tensor(1.0), rounding(a, n))
    largest = v.abs() >= v.abs().amax(-2, keepdim=True) * (1 - rounding(a, n))
    assert (v.imag.abs().masked_fill(~largest, 1.0).amin(-2) <= rounding(a, n)).all()  # one of equal ones is real
    if spread is not None:
        expected = torch.linalg.eigvals(exact)
        for found in (w, wide(alone)):
            assert (farthest(found, expected) <= spread * rounding(a, n) * scale.amax()).all()


@pytest.mark.sampled(16)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 33])
def test_sizes(n, dtype):
    check(torch.randn(n, n, dtype=dtype), spread=50)
    check(torch.randn(3, n, n, dtype=dtype), spread=100)


@pytest.mark.parametrize("n, kind", [(64, torch.float32), (65, torch.complex128), (130, torch.float32)], ids=str)
def test_large(n, kind):
    check(torch.randn(n, n, dtype=kind), spread=100)


def test_many_tiny_matrices():
    check(torch.randn(66_001, 2, 2), spread=None)


def test_normal_matrices(dtype):
    """Their values are as exact as the matrix: symmetric, skew, unitary ones."""
    a = torch.randn(2, 13, 13, dtype=dtype)
    for x in (a + a.mH, a - a.mH, torch.linalg.qr(a).Q):
        check(x)
    w = torch.linalg.eigvals(on_device(a.real + a.real.mT))
    assert (w.imag.cpu() == 0).all()  # of a real matrix, what rounding gave is taken away


def test_special_matrices(dtype):
    for n in (2, 9, 20):
        shift = torch.diag(torch.ones(n - 1), 1).to(dtype)  # a Jordan block: its values are those of no rounding
        cycle = shift + torch.diag(torch.ones(1), 1 - n).to(dtype) if n > 2 else shift + shift.mT
        for a in (torch.zeros(n, n, dtype=dtype), torch.eye(n, dtype=dtype), torch.ones(n, n, dtype=dtype),
                  torch.diag(torch.arange(n)).to(dtype), cycle, shift,
                  torch.randn(n, n, dtype=dtype).triu() / n + torch.diag(torch.arange(n)).to(dtype)):  # fmt: skip
            check(a, spread=100 if a is not shift else None)
        check(shift.mT, spread=None)


@pytest.mark.parametrize("exponent", [-30, -18, 18, 30])
def test_scales(exponent, dtype):
    if exponent == -30 and dtype in (torch.float32, torch.complex64):
        exponent = -25
    check(torch.randn(8, 8, dtype=dtype) * 10.0**exponent, spread=100)


def test_layouts(dtype):
    for _, a in layouts(torch.randn(2, 3, 6, 6, dtype=dtype)):
        check(a, spread=100)
    check(torch.randn(5, 5, dtype=dtype).expand(3, 5, 5), spread=100)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_no_elements(shape):
    check(torch.randn(shape))


def test_infinities_are_an_error(device):
    for value in (float("nan"), float("inf")):
        a = torch.randn(2, 3, 3)
        a[1, 0, 2] = value
        for function in (torch.linalg.eig, torch.linalg.eigvals):
            with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
                function(a.to(device))
    for function in (torch.linalg.eig, torch.linalg.eigvals):
        with pytest.raises(RuntimeError, match="square"):
            function(torch.randn(2, 3, device=device))


def test_out(dtype):
    a = torch.randn(2, 5, 5, dtype=dtype).to("aule")
    w, v = torch.linalg.eig(a)
    poisoned = (torch.full((2, 10), 3, dtype=w.dtype, device="aule")[:, ::2], torch.full_like(v, 7))
    torch.linalg.eig(a, out=poisoned)
    assert torch.equal(poisoned[0].cpu(), w.cpu()) and torch.equal(poisoned[1].cpu(), v.cpu())
    out = torch.full_like(w, 3)
    assert torch.equal(torch.linalg.eigvals(a, out=out).cpu(), torch.linalg.eigvals(a).cpu())
    with pytest.raises(RuntimeError, match="torch.linalg.eigvals: Expected"):
        torch.linalg.eigvals(a, out=torch.empty(2, 5, dtype=torch.float16, device="aule"))


@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_gradient(kind):
    """Of sums over all values, and magnitudes of vectors: the order does not matter."""
    a = torch.randn(2, 5, 5, dtype=kind) + torch.diag(torch.arange(5.0) * 3).to(kind)

    def function(x):
        w, v = torch.linalg.eig(x)
        return (w.square() * v.abs().square().square().sum(-2)).sum(-1).abs()

    assert_gradients(function, a, factor=1e4)
    assert_gradients(lambda x: (torch.linalg.eigvals(x) ** 3).sum(-1).abs(), a, factor=1e4)
