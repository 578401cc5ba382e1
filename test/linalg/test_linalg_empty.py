"""Factorizations and solvers of matrices without rows, columns or a batch, against the CPU."""

import pytest
import torch

from helpers import assert_close, to_device

linalg = torch.linalg
SQUARE = [(0, 0), (2, 0, 0), (0, 3, 3), (2, 0, 3, 3)]
ANY = [*SQUARE, (0, 3), (3, 0), (2, 0, 3), (2, 3, 0), (0, 2, 3), (0, 3, 2)]
FULL = (2, 3, 3)  # for solvers of no right-hand sides


def columns(a, count):
    return a.new_ones(*a.shape[:-1], count)


def reflectors(a):
    return a, a.new_zeros(*a.shape[:-2], min(a.shape[-2:]))


def of_square(a):
    yield from (f(a) for f in (
        linalg.cholesky, linalg.cholesky_ex, linalg.det, linalg.slogdet, linalg.inv, linalg.inv_ex, linalg.ldl_factor,
        linalg.matrix_exp, linalg.eigvals, linalg.eigvalsh, linalg.eigh, linalg.eig, torch.cholesky_inverse,
        torch.logdet,
    ))  # fmt: skip
    yield linalg.pinv(a, hermitian=True)
    yield linalg.matrix_rank(a, hermitian=True)
    for power in (-1, 0, 3):
        yield linalg.matrix_power(a, power)
    for order in (2, "nuc", "fro"):
        yield linalg.cond(a, order)


def of_any(a):
    yield from (f(a) for f in (linalg.lu, linalg.lu_factor, linalg.qr, linalg.svd, linalg.svdvals, linalg.pinv,
                               linalg.matrix_rank, torch.geqrf))  # fmt: skip
    factors = linalg.lu_factor(a)
    yield torch.lu_unpack(*factors)
    yield torch.lu_unpack(*factors, unpack_data=False)
    yield torch.lu_unpack(*factors, unpack_pivots=False)
    for mode in ("complete", "r"):
        yield linalg.qr(a, mode=mode)
    yield linalg.svd(a, full_matrices=False)
    if a.shape[-2] >= a.shape[-1]:
        yield linalg.householder_product(*reflectors(a))
        for transposed in (False, True):
            yield torch.ormqr(*reflectors(a), columns(a, 2), transpose=transposed)
            yield torch.ormqr(*reflectors(a), columns(a, 2).mT, left=False, transpose=transposed)
    for count in (0, 2):
        if count > 0 or a.numel() == 0:
            yield linalg.lstsq(a, columns(a, count)).solution


def of_solvers(a):
    for count in (0, 2):
        b = columns(a, count)
        factors = linalg.lu_factor(a)
        yield linalg.solve(a, b)
        yield linalg.solve(a, b.mT, left=False)
        yield linalg.solve_triangular(a, b, upper=True)
        yield linalg.solve_triangular(a, b.mT, upper=False, left=False)
        yield torch.cholesky_solve(b, a)
        yield linalg.ldl_solve(*linalg.ldl_factor(a), b)
        for adjoint in (False, True):
            yield linalg.lu_solve(*factors, b, adjoint=adjoint)
            yield linalg.lu_solve(*factors, b.mT, left=False, adjoint=adjoint)


CASES = [(f, s) for f, shapes in ((of_square, SQUARE), (of_any, ANY), (of_solvers, [*SQUARE, FULL])) for s in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("functions, shape", CASES)
def test_without_elements(device, functions, shape, dtype):
    a = (2 * torch.eye(*shape[-2:], dtype=dtype)).expand(shape).contiguous()
    for i, (actual, expected) in enumerate(zip(functions(to_device(a)), functions(a), strict=True)):
        assert_close(actual, expected, msg=lambda text, i=i: f"result {i}: {text}")


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (3, 0), (2, 0, 3)])
def test_gradients_without_elements(device, shape):
    for f in (linalg.lu, linalg.lu_factor, linalg.qr, linalg.svdvals):
        a = torch.zeros(shape, device=device, requires_grad=True)
        results = f(a)
        results = [results] if isinstance(results, torch.Tensor) else results
        sum(t.sum() for t in results if t.requires_grad).backward()
        assert a.grad.shape == shape
