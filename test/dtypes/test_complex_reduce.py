"""Reductions and scans of complex numbers against complex128 on the CPU."""

import math

import pytest
import torch

from helpers import assert_close, assert_close_to_cpu, layouts, like_strided, relative_error

pytestmark = pytest.mark.validated

DTYPES = [torch.complex64, torch.complex128]
UNIT = {torch.complex64: 3e-6, torch.complex128: 1e-13, torch.float32: 3e-6, torch.float64: 1e-13}
NAN, INF = math.nan, math.inf

REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": lambda z, dim, keepdim=False: torch.prod(z, dim[0] if isinstance(dim, tuple) else dim, keepdim),
    "var": lambda z, dim, keepdim=False: torch.var(z, dim, keepdim=keepdim),
    "std": lambda z, dim, keepdim=False: torch.std(z, dim, correction=0, keepdim=keepdim),
    "norm 2": lambda z, dim, keepdim=False: torch.linalg.vector_norm(z, 2, dim, keepdim),
    "norm 1": lambda z, dim, keepdim=False: torch.linalg.vector_norm(z, 1, dim, keepdim),
    "norm inf": lambda z, dim, keepdim=False: torch.linalg.vector_norm(z, INF, dim, keepdim),
    "norm -inf": lambda z, dim, keepdim=False: torch.linalg.vector_norm(z, -INF, dim, keepdim),
    "norm 3": lambda z, dim, keepdim=False: torch.linalg.vector_norm(z, 3, dim, keepdim),
    "norm 0": lambda z, dim, keepdim=False: torch.linalg.vector_norm(z, 0, dim, keepdim),
    "logsumexp": torch.logsumexp,
}


def made(*size, dtype):
    return torch.randn(size, dtype=dtype)


def check(function, z, scale=1.0, **arguments):
    actual = function(like_strided(z), **arguments)
    expected = function(z.to(torch.complex128), **arguments)
    assert actual.dtype == (z.dtype if expected.is_complex() else z.real.dtype)
    assert actual.shape == expected.shape
    assert actual.is_complex() == expected.is_complex()
    real = actual if not actual.is_complex() else torch.view_as_real(actual.cpu().resolve_conj())
    wide = expected if not expected.is_complex() else torch.view_as_real(expected)
    assert relative_error(real, wide, scale) < UNIT[z.dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(device, name, dtype):
    function = REDUCTIONS[name]
    for _, z in layouts(made(5, 31, 7, dtype=dtype)):
        for dim in (0, 1, 2, (0, 2)):
            check(function, z, dim=dim)
    check(function, made(4, 33, dtype=dtype).conj().t(), dim=1, keepdim=True)
    check(function, made(3, 5000, dtype=dtype) if name != "prod" else made(3, 50, dtype=dtype), dim=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reduction_of_all(device, dtype):
    z = made(70_001, dtype=dtype)
    for function in (torch.sum, torch.mean, torch.linalg.vector_norm, torch.var, torch.std, torch.norm):
        actual, expected = function(z.to(device)), function(z.to(torch.complex128))
        assert_close(actual.cpu().to(expected.dtype), expected, rtol=1e-4, atol=1e-3)
    small = made(40, dtype=dtype)
    assert_close(torch.prod(small.to(device)), torch.prod(small), rtol=1e-4, atol=0)
    matrix = made(6, 9, dtype=dtype)
    assert_close(torch.trace(matrix.to(device)), torch.trace(matrix), rtol=1e-5, atol=1e-5)
    for function in (torch.var_mean, torch.std_mean):
        assert_close_to_cpu(lambda t: function(t, 1, correction=2, keepdim=True), matrix, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_truths(device, dtype):
    z = made(6, 50, dtype=dtype)
    z[:, ::2] = 0
    z[0] = torch.complex(torch.tensor(0.0), torch.tensor(2.0))
    z[1] = NAN
    z[2] = 0
    for function in (torch.any, torch.all):
        for dim in (0, 1):
            assert_close_to_cpu(lambda t: function(t, dim), z)
        assert_close_to_cpu(function, z)
    assert_close_to_cpu(torch.count_nonzero, z)
    assert_close_to_cpu(lambda t: torch.count_nonzero(t, 1), z)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scans(device, dtype):
    tolerance = 1e-4 if dtype == torch.complex64 else 1e-9
    for _, z in layouts(made(4, 29, 3, dtype=dtype)):
        for dim in range(3):
            assert_close_to_cpu(lambda t: torch.cumsum(t, dim), z, rtol=tolerance, atol=tolerance)
            assert_close_to_cpu(lambda t: torch.cumprod(t, dim), z, rtol=tolerance, atol=tolerance)
    z = made(2, 3001, dtype=dtype)
    assert_close_to_cpu(lambda t: torch.cumsum(t, 1), z, rtol=10 * tolerance, atol=10 * tolerance)
    circle = torch.polar(torch.ones(2, 3001, dtype=torch.float64), torch.rand(2, 3001, dtype=torch.float64)).to(dtype)
    expected = torch.cumprod(circle.to(torch.complex128), 1)
    assert_close(torch.cumprod(circle.to(device), 1).cpu().to(torch.complex128), expected, rtol=0, atol=tolerance * 10)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_logcumsumexp(device, dtype):
    tolerance = 1e-5 if dtype == torch.complex64 else 1e-12
    for _, z in layouts(3 * made(4, 29, 3, dtype=dtype)):  # angles above pi, which the result keeps
        for dim in range(3):
            check(torch.logcumsumexp, z, dim=dim)
    check(torch.logcumsumexp, made(4, 33, dtype=dtype).conj().t(), dim=1)
    for size, dim in (((2, 3001), 1), ((3001, 2), 0), ((2001, 40), 0)):  # rows in chunks: angles up to whole turns
        z = made(*size, dtype=dtype)
        expected = torch.logcumsumexp(z.to(torch.complex128), dim)
        actual = torch.logcumsumexp(z.to(device), dim).cpu().to(torch.complex128)
        assert (torch.exp(actual - expected) - 1).abs().max() < 10 * tolerance
    z = made(4, 6, dtype=dtype)
    z[0, :2], z[1, 2], z[2, 3] = complex(-INF, 0), complex(INF, 0.5), complex(NAN, 1)
    z[3, 2], z[3, 4] = complex(INF, 1), complex(INF, 0)
    for t in (z, z[:, :0], z[0, 2]):
        assert_close_to_cpu(lambda t: torch.logcumsumexp(t, -1), t, rtol=tolerance, atol=tolerance)
    poison = torch.full((6, 4), NAN, dtype=dtype, device=device).t()
    torch.logcumsumexp(z.to(device), 1, out=poison)
    assert_close(poison, torch.logcumsumexp(z, 1), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_edges(device, dtype):
    for function in (torch.sum, torch.prod, torch.cumsum, torch.cumprod):
        assert_close_to_cpu(lambda t: function(t, 0), made(0, 3, dtype=dtype))
        assert_close_to_cpu(lambda t: function(t, 1), made(0, 3, dtype=dtype))
        assert_close_to_cpu(lambda t: function(t, 0), made(dtype=dtype))
    one = made(dtype=dtype)
    for function in (torch.linalg.vector_norm, torch.mean, torch.any, lambda t: torch.var(t, correction=0)):
        assert_close_to_cpu(function, one, rtol=1e-6, atol=1e-6)
    large = torch.tensor([[3e30 + 4e30j]], dtype=torch.complex64)
    assert_close_to_cpu(lambda t: torch.linalg.vector_norm(t, dim=1), large, rtol=1e-6, atol=0)
    z = made(3, 9, dtype=dtype)
    for name in ("sum", "cumsum", "prod", "cumprod"):
        function = getattr(torch, name)
        for to in (torch.complex64, torch.complex128):
            assert_close_to_cpu(lambda t: function(t, 1, dtype=to), z, rtol=1e-5, atol=1e-5)
            assert_close_to_cpu(lambda t: function(t, 1, dtype=to), z.real, rtol=1e-5, atol=1e-5)
    poison = torch.full((9, 3), NAN, dtype=dtype, device=device).t()
    torch.cumsum(z.to(device), 1, out=poison)
    assert_close(poison, torch.cumsum(z, 1), rtol=1e-5, atol=1e-5)
    poison = torch.full((6,), NAN, dtype=dtype, device=device)[::2]
    torch.sum(z.to(device), 1, out=poison)
    assert_close(poison, torch.sum(z, 1), rtol=1e-5, atol=1e-5)
    with pytest.raises(NotImplementedError):
        torch.amax(z.to(device), 0)
    with pytest.raises(NotImplementedError):
        torch.cummax(z.to(device), 0)


def test_sum_without_nans(device):
    z = made(5, 40, dtype=torch.complex64)
    z[1, 2], z[2, 3] = complex(NAN, 1), complex(2, NAN)
    expected = torch.where(torch.isnan(z), 0, z).sum(1)
    assert_close(torch.nansum(z.to(device), 1), expected, rtol=1e-5, atol=1e-5)


def test_complex32(device):
    z = torch.randn(6, 100, dtype=torch.complex64).to(torch.complex32)
    for function in (torch.sum, torch.mean, torch.cumsum, torch.prod):
        part = z[:, :10] if function is torch.prod else z
        actual, expected = function(part.to(device), 1), function(part.to(torch.complex64), 1)
        assert actual.dtype == torch.complex32
        assert_close(actual.cpu().to(torch.complex64), expected, rtol=5e-3, atol=3e-2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_over_indices(device, dtype):
    x, source = made(7, 5, dtype=dtype), made(12, 5, dtype=dtype)
    i = torch.randint(0, 7, (12,))
    tolerance = 1e-5
    assert_close_to_cpu(lambda x, s, i: x.index_add(0, i, s), x, source, i, rtol=tolerance, atol=tolerance)
    assert_close_to_cpu(lambda x, s, i: x.index_add(0, i, s, alpha=2.5), x, source, i, rtol=tolerance, atol=tolerance)
    assert_close_to_cpu(
        lambda x, s, i: x.index_add(0, i, s, alpha=1 - 2j), x, source, i, rtol=tolerance, atol=tolerance
    )
    assert_close_to_cpu(
        lambda x, s, i: x.scatter_add(0, i[:, None].expand(12, 5), s), x, source, i, rtol=tolerance, atol=tolerance
    )
    assert_close_to_cpu(
        lambda x, s, i: x.index_put((i,), s, accumulate=True), x, source.conj(), i, rtol=tolerance, atol=tolerance
    )
    assert_close_to_cpu(lambda x, s, i: torch.renorm(x, 2, 0, 1.5), x, source, i, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_over_indices(device, dtype):
    tolerance = 1e-5 if dtype == torch.complex64 else 1e-12
    i = torch.randint(0, 7, (12, 5))
    for x, source in (
        (made(7, 5, dtype=dtype), made(12, 5, dtype=dtype)),
        (made(5, 7, dtype=dtype).t(), made(13, 11, dtype=dtype)[1:, ::2][:, :5].conj()),
    ):
        for function in (
            lambda x, s, i: x.scatter(0, i, s, reduce="multiply"),
            lambda x, s, i: x.scatter(0, i, 1 - 2j, reduce="multiply"),
            lambda x, s, i: x.scatter_reduce(0, i, s, "prod"),
            lambda x, s, i: x.scatter_reduce(0, i, s, "prod", include_self=False),
            lambda x, s, i: x.scatter_reduce(0, i, s, "mean"),
            lambda x, s, i: x.scatter_reduce(0, i, s, "mean", include_self=False),
            lambda x, s, i: x.index_reduce(0, i[:, 0], s, "prod"),
            lambda x, s, i: x.scatter_reduce(0, i[:0], s, "prod"),
        ):
            assert_close_to_cpu(function, x, source, i, rtol=tolerance, atol=tolerance)
    wide, rows = made(3, 70, dtype=dtype), made(40, 70, dtype=dtype) / 2  # a row of columns that each walk
    assert_close_to_cpu(
        lambda x, s, i: x.index_reduce(0, i, s, "prod"), wide, rows, torch.randint(0, 3, (40,)), rtol=1e-4, atol=1e-4
    )
    deep = [made(2, 3, 2, 2, 4, dtype=dtype).permute(4, 2, 0, 3, 1)[..., ::2] for _ in range(2)]
    index = torch.randint(0, 4, deep[1].shape)  # more strided dimensions than push constants hold
    assert_close_to_cpu(
        lambda x, s, i: x.scatter(0, i, s, reduce="multiply"), *deep, index, rtol=tolerance, atol=tolerance
    )
    with pytest.raises(NotImplementedError):
        made(7, 5, dtype=dtype).to(device).scatter_reduce(0, i.to(device), made(12, 5, dtype=dtype).to(device), "amax")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_to_num(device, dtype):
    z = made(5, 8, dtype=dtype)
    z[0, :4] = torch.tensor([complex(NAN, 1), complex(INF, NAN), complex(-INF, INF), complex(2, -INF)])
    for _, t in [*layouts(z), ("conjugate", z.conj()), ("empty", z[:0])]:
        assert_close_to_cpu(torch.nan_to_num, t, rtol=0, atol=0, wide=False)
        assert_close_to_cpu(lambda t: torch.nan_to_num(t, 3.0, posinf=4.0, neginf=-5.0), t, rtol=0, atol=0, wide=False)
    assert_close_to_cpu(lambda t: t.clone().nan_to_num_(), z, rtol=0, atol=0, wide=False)
    poison = torch.full((8, 5), NAN, dtype=dtype, device=device).t()
    torch.nan_to_num(z.to(device), out=poison)
    assert torch.equal(poison.cpu(), torch.nan_to_num(z))


GRADIENTS = {
    "sum": lambda z: z.sum(0),
    "mean": lambda z: z.mean(1),
    "prod": lambda z: z.prod(1),
    "var": lambda z: z.var(1),
    "std": lambda z: z.std(0),
    "norm": lambda z: torch.linalg.vector_norm(z, 2, 1),
    "norm 3": lambda z: torch.linalg.vector_norm(z, 3, 0),
    "cumsum": lambda z: z.cumsum(1),
    "cumprod": lambda z: z.cumprod(1),
    "logcumsumexp": lambda z: z.logcumsumexp(1),
    "logsumexp": lambda z: z.logsumexp(1),
    "broadcast": lambda z: (z * z[0].conj()).abs(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device, name):
    function, z = GRADIENTS[name], made(4, 6, dtype=torch.complex64)
    weight = torch.randn_like(function(z))

    def gradient(z, weight):
        z = z.detach().clone().requires_grad_()
        function(z).backward(weight)
        return z.grad

    assert_close_to_cpu(gradient, z, weight, rtol=1e-4, atol=1e-4)
