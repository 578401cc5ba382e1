"""QR by Householder reflections against LAPACK in float64: factors with its signs, all modes, sizes and layouts."""

import math

import pytest
import torch

from helpers import like_strided
from linalg_reference import assert_gradients, check_orthonormal, dtypes, near, rounding, well_conditioned, wide

pytestmark = pytest.mark.validated

dtype = dtypes()


def close(actual: torch.Tensor, expected: torch.Tensor, n: int) -> None:
    """Within n roundings of the largest element of the batch's matrices."""
    scale = wide(expected).abs().amax() if expected.numel() else torch.tensor(1.0)
    near(actual, expected, scale, rounding(actual, n))


def reflected_heads(a: torch.Tensor) -> torch.Tensor:
    """The real parts of what stands on the diagonal when each reflection begins: beta (1 - tau), by LAPACK's larfg."""
    packed, tau = torch.geqrf(wide(a))
    return packed.diagonal(0, -2, -1).real * (1 - tau.real)


def check_qr(a: torch.Tensor, mode: str = "reduced") -> None:
    """Q R is A, Q's columns are orthonormal, R is triangular and has LAPACK's signs."""
    m, n = a.shape[-2:]
    q, r = torch.linalg.qr(like_strided(a), mode=mode)
    q_cpu, r_cpu = torch.linalg.qr(a, mode=mode)
    assert (q.shape, r.shape) == (q_cpu.shape, r_cpu.shape)
    assert (q.stride(), r.stride()) == (q_cpu.stride(), r_cpu.stride())
    q, r = wide(q), wide(r)
    scale = wide(a).abs().amax() if a.numel() else torch.tensor(1.0)
    assert torch.equal(r.triu(), r)
    diagonal, expected = r.diagonal(0, -2, -1).real, wide(r_cpu).diagonal(0, -2, -1)
    # A reflection turns its column's head against its sign. Where the head is not larger than its own rounding, neither
    # sign is wrong. MKL leaves the last element of a large wide complex matrix as it is, where LAPACK makes it real.
    clear = reflected_heads(a).abs() > 2 * rounding(a, max(m, n)) * scale
    clear &= (expected.imag == 0) if a.is_complex() else True
    assert torch.equal((diagonal > 0)[clear], (expected.real > 0)[clear])
    if mode == "r":
        return
    check_orthonormal(q, rounding(a, max(m, n)))
    near(q @ r, wide(a), scale, rounding(a, max(m, n)))


SHAPES = [(1, 1), (2, 2), (3, 5), (5, 3), (1, 7), (7, 1), (16, 16), (31, 33), (33, 31), (64, 64), (100, 7), (7, 100)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, mode, dtype):
    check_qr(torch.randn(*shape, dtype=dtype), mode)
    check_qr(torch.randn(3, *shape, dtype=dtype), mode)


@pytest.mark.parametrize("n", [90, 130, 200])
def test_panels(n, dtype):
    check_qr(torch.randn(n, n, dtype=dtype))
    check_qr(torch.randn(n + 57, n, dtype=dtype))
    check_qr(torch.randn(n, n + 21, dtype=dtype), "complete")


@pytest.mark.parametrize("shape", [(512, 512), (5000, 8), (20_000, 3), (3, 20_000), (2100, 40)])
def test_long_columns(shape):
    check_qr(torch.randn(*shape))


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 4, 3), (2, 0, 3), (2, 3, 0)])
def test_no_elements(shape, mode):
    check_qr(torch.randn(*shape), mode)


def test_layouts(dtype):
    base = torch.randn(4, 40, 50, dtype=dtype)
    check_qr(base.mT)
    check_qr(base[:, 3:33, 5:45:2])
    check_qr(base[1:, ::2].transpose(0, 1)[3:9])
    check_qr(base[0].expand(3, 40, 50))
    check_qr(torch.randn(2, 3, 2, 6, 4, dtype=dtype))


def test_many_small_matrices(dtype):
    check_qr(torch.randn(70_001, 3, 2, dtype=dtype))


def test_factors_are_lapack_s(dtype):
    """Element by element, where the matrix is well conditioned."""
    for shape in [(6, 6), (40, 24), (24, 40), (3, 120, 100)]:
        n = min(shape[-2:])
        a = torch.randn(*shape, dtype=dtype) + 4 * torch.eye(*shape[-2:], dtype=dtype) * n**0.5
        expected, expected_tau = torch.geqrf(wide(a))
        packed, tau = torch.geqrf(like_strided(a))
        close(packed, expected, 100)
        close(tau, expected_tau, 100)
        for actual, wanted in zip(torch.linalg.qr(like_strided(a)), torch.linalg.qr(wide(a))):
            close(actual, wanted, 100)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_special_matrices(mode, dtype):
    zero = torch.zeros(5, 4, dtype=dtype)
    diagonal = torch.diag(torch.tensor([2.0, -3, 0, 5])).to(dtype)
    low_rank = torch.randn(12, 2, dtype=dtype) @ torch.randn(2, 9, dtype=dtype)
    graded = torch.randn(20, 12, dtype=dtype) * torch.logspace(0, -20, 12).to(dtype)
    huge = torch.randn(20, 12, dtype=dtype) * 1e25
    tiny = torch.randn(20, 12, dtype=dtype) * 1e-25
    for a in (zero, diagonal, low_rank, graded, huge, tiny):
        check_qr(a, mode)
    q, r = torch.linalg.qr(diagonal.to("aule"))  # nothing stands below: no reflection, no change of sign
    assert torch.equal(q.cpu(), torch.eye(4, dtype=dtype)) and torch.equal(r.cpu(), diagonal)


def test_nan_finishes(dtype):
    a = torch.randn(40, 40, dtype=dtype)
    a[3, 5] = float("nan")
    assert torch.linalg.qr(a.to("aule"))[1].cpu().isnan().any()
    a[3, 5] = float("inf")
    torch.linalg.qr(a.to("aule"))[1].cpu()


@pytest.mark.parametrize("shape", [(5, 5), (40, 35), (2, 90, 70)])
def test_householder_product(shape, dtype):
    for count in (shape[-1], shape[-1] - 3, 0):
        packed, tau = torch.geqrf(torch.randn(*shape, dtype=dtype))
        tau = tau[..., :count]
        expected = torch.linalg.householder_product(wide(packed), wide(tau))
        actual = torch.linalg.householder_product(packed.to("aule"), tau.to("aule"))
        close(actual, expected, 100)
        out = torch.full_like(packed, 7).to("aule")
        torch.linalg.householder_product(packed.to("aule"), tau.to("aule"), out=out)
        close(out, expected, 100)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_ormqr(left, transpose, dtype):
    for m, n, other in [(6, 4, 3), (50, 40, 9), (70, 70, 33)]:
        packed, tau = torch.geqrf(torch.randn(2, m, n, dtype=dtype))
        c = torch.randn(2, m, other, dtype=dtype) if left else torch.randn(2, other, m, dtype=dtype)
        expected = torch.ormqr(wide(packed), wide(tau), wide(c), left, transpose)
        actual = torch.ormqr(*(like_strided(t) for t in (packed, tau, c)), left, transpose)
        close(actual, expected, 100)


def test_out(dtype):
    a = torch.randn(2, 9, 7, dtype=dtype)
    device = a.to("aule")
    expected = torch.linalg.qr(device)
    poisoned = [torch.full((2, 20, 14), 3, dtype=dtype, device="aule")[:, : t.shape[1] * 2 : 2, : t.shape[2]]
                for t in expected]  # fmt: skip
    fresh = [torch.empty(0, dtype=dtype, device="aule") for _ in expected]
    for outs in (poisoned, fresh):
        torch.linalg.qr(device, out=outs)
        for out, wanted in zip(outs, expected):
            assert torch.equal(out.cpu(), wanted.cpu())
    packed = torch.geqrf(device, out=(torch.empty(0, dtype=dtype, device="aule"), torch.empty_like(fresh[0])[:0]))
    for out, wanted in zip(packed, torch.geqrf(device)):
        assert torch.equal(out.cpu(), wanted.cpu())
    with pytest.raises(RuntimeError, match="dtype"):
        torch.linalg.qr(device, out=(torch.empty(0, device="aule", dtype=torch.float16), fresh[1]))


@pytest.mark.parametrize("shape", [(6, 4), (5, 5), (2, 4, 7)])
def test_gradient(shape, dtype):
    assert_gradients(torch.linalg.qr, well_conditioned(*shape, dtype=dtype))


@pytest.mark.parametrize("n", [30, 72])
def test_columns_of_the_least_numbers(n, dtype):
    """Reflections of columns whose squares, and whose elements' sizes, are not normal numbers."""
    least = torch.finfo(dtype).tiny
    scales = torch.logspace(0, math.log10(least) + 1, n, dtype=torch.float64).to(dtype)
    dependent = torch.randn(n, 2, dtype=dtype) @ torch.randn(2, n, dtype=dtype)
    for a in (torch.randn(n, n, dtype=dtype), (torch.randn(n, n, dtype=dtype) * scales[:, None]).tril(), dependent):
        q, r = torch.linalg.qr((a * scales).to("aule"))
        check_orthonormal(q, rounding(a, n))
        near(wide(q) @ wide(r), wide(a * scales), (a * scales).abs().amax(), rounding(a, n))
