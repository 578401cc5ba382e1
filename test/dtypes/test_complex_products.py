"""Products of complex matrices and vectors against complex128 on the CPU: layouts, bits, scalars, gradients."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, check_program, like_strided, limited, relative_error

pytestmark = pytest.mark.validated

DTYPES = [torch.complex64, torch.complex128]
UNIT = {torch.complex64: 1e-5, torch.complex128: 1e-13}
NAN = math.nan


def made(*size, dtype):
    return torch.randn(size, dtype=dtype)


def parts(z):
    return torch.view_as_real(z.detach().cpu().resolve_conj().resolve_neg())


def close(actual, expected, dtype, scale=1.0):
    """`expected` is complex128: roundings of its largest number apart, or of `scale` where that is larger."""
    assert actual.dtype == dtype
    assert relative_error(parts(actual), parts(expected), scale) < UNIT[dtype]


def check(function, *operands, scale=1.0):
    dtype = operands[0].dtype
    actual = function(*(like_strided(t) for t in operands))
    close(actual, function(*(t.to(torch.complex128) for t in operands)), dtype, scale)


# A matrix of given sizes in memory, its bits too.
LAYOUTS = {
    "n": lambda m, n, dtype: made(m, n, dtype=dtype),
    "t": lambda m, n, dtype: made(n, m, dtype=dtype).t(),
    "offset": lambda m, n, dtype: made(m + 2, n + 3, dtype=dtype)[1:-1, 2:-1],
    "step": lambda m, n, dtype: made(m, 2 * n, dtype=dtype)[:, ::2],
    "conj": lambda m, n, dtype: made(m, n, dtype=dtype).conj(),
    "mH": lambda m, n, dtype: made(n, m, dtype=dtype).mH,
    "neg": lambda m, n, dtype: made(m, n, dtype=dtype)._neg_view(),
    "neg mH": lambda m, n, dtype: made(n, m, dtype=dtype).mH._neg_view(),
    "conj step": lambda m, n, dtype: made(2 * m, 2 * n, dtype=dtype)[::2, 1::2].conj(),
    "row": lambda m, n, dtype: made(1, n, dtype=dtype).expand(m, n),
}
# Small ones by a kernel of their own; the others, of complex64, as a real product.
SIZES = [(37, 19, 45), (65, 33, 34), (5, 64, 130)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("a", LAYOUTS)
def test_mm(device, a, dtype):
    for b, (m, k, n) in itertools.product(LAYOUTS, [*SIZES, (7, 9, 11)]):
        check(torch.mm, LAYOUTS[a](m, k, dtype), LAYOUTS[b](k, n, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (1, 70, 33), (33, 70, 1), (3, 5, 2), (1, 1, 50), (40, 1, 1), (2, 900, 3)])
def test_thin(device, m, k, n, dtype):
    for a, b in itertools.product(["n", "mH", "conj step"], repeat=2):
        check(torch.mm, LAYOUTS[a](m, k, dtype), LAYOUTS[b](k, n, dtype))
    check(torch.mv, LAYOUTS["n"](m, k, dtype), made(k, dtype=dtype).conj())
    check(torch.mv, LAYOUTS["mH"](m, k, dtype), made(2 * k, dtype=dtype)[::2])


SCALARS = [(1, 1), (0.5, -2), (0, 1), (1j, 1), (1, 2 - 1j), (0.5 + 1j, 1j)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("beta,alpha", SCALARS)
def test_addmm(device, beta, alpha, dtype):
    for m, k, n in [(37, 40, 45), (6, 5, 4)]:
        a, b = LAYOUTS["n"](m, k, dtype), LAYOUTS["mH"](k, n, dtype)
        for c in [*(LAYOUTS[name](m, n, dtype) for name in LAYOUTS), made(n, dtype=dtype), made(m, 1, dtype=dtype)]:
            check(lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=alpha), c, a, b)
        c = made(n, m, dtype=dtype).t()
        check(lambda c, a, b: c.clone().addmm_(a, b, beta=beta, alpha=alpha), c, a, b)
        check(lambda c, a, v: torch.addmv(c, a, v, beta=beta, alpha=alpha), c[:, 0], a, b[:, 1])
        check(lambda c, a, v: c.clone().addmv_(a, v, beta=beta, alpha=alpha), c[:, 0], a.conj(), b[:, 1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("beta,alpha", SCALARS)
def test_batches(device, beta, alpha, dtype):
    for batches, m, k, n in [(5, 9, 13, 11), (3, 35, 40, 33)]:
        a, b, c = (
            made(batches, m, k, dtype=dtype),
            made(batches, n, k, dtype=dtype).mH,
            made(batches, m, n, dtype=dtype),
        )
        scalars = {"beta": beta, "alpha": alpha}
        check(torch.bmm, a, b)
        check(torch.bmm, a.conj(), b[:1].expand(batches, k, n))
        check(torch.bmm, a[:1].mT.contiguous().mT.expand(batches, m, k), b)
        check(lambda c, a, b: torch.baddbmm(c, a, b, **scalars), c, a, b)
        check(lambda c, a, b: torch.baddbmm(c, a, b, **scalars), c[0, :1].conj(), a, b)
        check(lambda c, a, b: c.clone().baddbmm_(a, b, **scalars), c, a, b)
        check(lambda c, a, b: torch.addbmm(c, a, b, **scalars), c[0], a.conj(), b)
        check(lambda c, a, b: c.clone().addbmm_(a, b, **scalars), c[0], a, b)
    transposed = made(6, 3, 40, dtype=dtype).transpose(0, 1)
    check(torch.bmm, transposed, made(3, 40, 37, dtype=dtype).conj())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 37, 1000, 5000])
def test_dot(device, n, dtype):
    x, y = made(n, dtype=dtype), made(2 * n, dtype=dtype)[::2]
    for function in (torch.dot, torch.vdot, torch.inner, torch.linalg.vecdot):
        for p, q in itertools.product([x, x.conj(), x._neg_view()], [y, y.conj()]):
            check(function, p, q, scale=n**0.5 + 1)
    out = torch.full((), NAN, dtype=dtype, device=device)
    torch.vdot(x.to(device), y.to(device), out=out)
    close(out, torch.vdot(x.to(torch.complex128), y.to(torch.complex128)), dtype, scale=n**0.5 + 1)


def test_vdot_of_real_numbers(device):
    x, y = torch.randn(50), torch.randn(50)
    assert_close(torch.vdot(x.to(device), y.to(device)), torch.dot(x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("m,k,n", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(device, m, k, n, dtype):
    a, b, c = made(m, k, dtype=dtype), made(k, n, dtype=dtype), made(m, n, dtype=dtype)
    check(torch.mm, a, b)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=2 + 1j, alpha=1j), c.conj(), a, b)
    check(lambda a, b: torch.bmm(a.expand(2, m, k), b.expand(2, k, n)), a, b)
    check(torch.mv, a, made(k, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_out(device, dtype):
    for m, k, n in [(17, 17, 17), (40, 40, 40)]:
        a, b = made(m, k, dtype=dtype), made(k, n, dtype=dtype)
        expected = a.to(torch.complex128) @ b.to(torch.complex128)
        da, db = a.to(device), b.to(device)
        for out in [
            torch.full((m, n), NAN, dtype=dtype, device=device),
            torch.full((n, m), NAN, dtype=dtype, device=device).t(),
            torch.full((m, n), NAN, dtype=dtype, device=device).conj(),
            torch.full((n, m), NAN, dtype=dtype, device=device).mH,
        ]:
            close(torch.mm(da, db, out=out), expected, dtype)
        wide = torch.zeros(m, 2 * n + 6, dtype=dtype, device=device)
        torch.mm(da, db, out=wide[:, 3 : 3 + 2 * n : 2])
        close(wide[:, 3 : 3 + 2 * n : 2], expected, dtype)
        assert wide[:, 2 * n + 3 :].abs().sum() == 0 and wide[:, 4 : 2 * n + 4 : 2].abs().sum() == 0
        close(torch.mm(da.clone(), db.conj(), out=torch.empty(0, dtype=dtype, device=device)),
              a.to(torch.complex128) @ b.to(torch.complex128).conj(), dtype)  # fmt: skip
        stack = torch.full((2, m, n), NAN, dtype=dtype, device=device)
        torch.bmm(da.expand(2, m, k), db.expand(2, k, n), out=stack)
        close(stack, expected.expand(2, m, n), dtype)
        close(torch.mv(da, db[:, 0], out=stack[0, 0]), expected[:, 0], dtype)
        own = da.clone()
        close(torch.mm(own, db, out=own), expected, dtype)
        own = da.clone()
        close(own.addmm_(own.mH, db, beta=1j, alpha=2),
              1j * a.to(torch.complex128) + 2 * a.mH.to(torch.complex128) @ b.to(torch.complex128), dtype)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_beta_zero_ignores_nan(device, dtype):
    for size in (9, 40):
        a, c = made(size, size, dtype=dtype), torch.full((size, size), complex(NAN, NAN), dtype=dtype)
        check(lambda a, c: torch.addmm(c, a, a, beta=0), a, c)
        check(lambda a, c: torch.addmm(c, a[:, :0], a[:0], beta=0), a, c)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_infinity_stays_in_its_row_and_column(device, dtype):
    for size in (8, 40):
        a, b = made(size, size, dtype=dtype), made(size, size, dtype=dtype)
        b[4, 2] = math.inf
        a[1, 3] = complex(0, NAN)
        finite = torch.isfinite((a.to(device) @ b.to(device)).cpu())
        expected = torch.ones(size, size, dtype=torch.bool)
        expected[1] = expected[:, 2] = False
        assert torch.equal(finite, expected)


PRODUCTS = {
    "matmul": (lambda a, b: a @ b, (3, 5, 7), (7, 4)),
    "matmul of batches": (lambda a, b: a @ b, (2, 1, 35, 7), (3, 7, 34)),
    "matmul of a vector": (lambda a, b: a @ b, (7,), (3, 7, 4)),
    "matmul of conjugates": (lambda a, b: a.mH @ b.conj(), (40, 35), (40, 34)),
    "mv": (torch.mv, (35, 40), (40,)),
    "linear": (F.linear, (3, 5, 40), (37, 40)),
    "linear with a bias": (lambda a, b: F.linear(a, b, b[:, 0]), (3, 5, 40), (37, 40)),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b.conj()), (3, 5, 7), (3, 6, 7)),
    "einsum of all": (lambda a, b: torch.einsum("ij,ji->", a, b), (5, 7), (7, 5)),
    "outer": (torch.outer, (35,), (40,)),
    "ger": (torch.ger, (35,), (40,)),
    "addr": (lambda a, b: torch.addr(a.outer(b), a, b, beta=1j, alpha=0.5 - 1j), (5,), (6,)),
    "kron": (torch.kron, (3, 5), (2, 4)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([1, 0], [0, 2])), (3, 5, 4), (5, 6, 3)),
    "chain_matmul": (lambda a, b: torch.chain_matmul(a, b, a), (3, 5), (5, 3)),
    "multi_dot": (lambda a, b: torch.linalg.multi_dot([a, b, a, b]), (3, 5), (5, 3)),
    "baddbmm of a broadcast": (lambda a, b: torch.baddbmm(a[0, 0], a, b, beta=1j), (3, 5, 5), (3, 5, 5)),
    "matrix_power": (lambda a, b: torch.linalg.matrix_power(a, 3) + b, (5, 5), (5, 5)),
    "vdot": (torch.vdot, (35,), (35,)),
    "dot": (torch.dot, (100,), (100,)),
    "cov": (lambda a, b: torch.cov(a) + b, (4, 9), (4, 4)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients(device, name, dtype):
    function, *sizes = PRODUCTS[name]
    operands = [made(*size, dtype=dtype) for size in sizes]
    on_device = [t.to(device).requires_grad_() for t in operands]
    on_cpu = [t.to(torch.complex128).requires_grad_() for t in operands]
    actual, expected = function(*on_device), function(*on_cpu)
    close(actual, expected, dtype)
    weight = made(*expected.shape, dtype=dtype)
    grads = torch.autograd.grad(actual, on_device, weight.to(device))
    for g, e in zip(grads, torch.autograd.grad(expected, on_cpu, weight.to(torch.complex128))):
        close(g, e, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bilinear(device, dtype):
    """PyTorch itself has no gradient of it."""
    x, y, weight, bias = (made(*size, dtype=dtype) for size in ((2, 4, 5), (2, 4, 3), (6, 5, 3), (6,)))
    check(F.bilinear, x, y, weight, bias)
    check(lambda x, y, w: F.bilinear(x.conj(), y, w), x, y, weight)


def test_numerical_gradients(device):
    def function(c, a, b):
        return torch.addmm(c, a.mH, b, beta=1j, alpha=2 - 1j).abs()

    operands = [torch.randn(size, dtype=torch.complex128, device=device, requires_grad=True)
                for size in ((3, 2), (4, 3), (4, 2))]  # fmt: skip
    assert torch.autograd.gradcheck(function, operands)


def test_a_long_k_is_cut(device):
    check_program("complex_long_k", TORCH_AULE_STRICT="1", **limited("max_loop_iterations=1000"))


def test_refusals(device):
    a = torch.randn(3, 4, dtype=torch.complex64, device=device)
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.mm(a, torch.randn(4, 2, device=device))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(a, a)
