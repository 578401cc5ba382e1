"""Reductions against the CPU: every op, over dimension sets, layouts and dtypes."""

import math

import pytest
import torch

from helpers import ALL_DTYPES, FLOATS, INTS, assert_close, assert_close_to_cpu, layouts, random_tensor

pytestmark = pytest.mark.validated

DIMS = [None, 0, 1, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2)]


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_sum(dtype):
    x = random_tensor(5, 37, 9, dtype=dtype)
    for dim in DIMS:
        assert_close_to_cpu(
            lambda t: torch.sum(t, dim=dim), x, rtol=1e-2 if dtype.is_floating_point else None, atol=1e-2
        )
    assert_close_to_cpu(lambda t: torch.sum(t, dim=1, keepdim=True), x, rtol=1e-2, atol=1e-2)
    assert_close_to_cpu(lambda t: torch.sum(t, dim=(0, 2), dtype=torch.float32), x, wide=False, rtol=1e-4, atol=1e-3)


@pytest.mark.vector_widths
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool], ids=str)
def test_layouts(dtype):
    for _, x in layouts(random_tensor(3, 8, 5, 7, dtype=dtype)):
        for dim in [None, 0, 1, 3, (1, 3), (0, 2), (0, 2, 3)]:
            for f in [torch.sum, torch.amax, torch.any]:
                arguments = {} if dim is None else {"dim": dim}
                if f is torch.sum and dtype == torch.float16:
                    arguments["dtype"] = torch.float32
                assert_close_to_cpu(lambda t: f(t, **arguments), x, rtol=1e-4, atol=1e-4)


def test_expanded_and_many_dimensions(device):
    x = torch.randn(1, 6, 1).expand(4, 6, 5)
    assert_close_to_cpu(lambda t: t.sum((0, 1)), x)
    assert_close_to_cpu(lambda t: t.argmax(), x)
    y = torch.randn(2, 3, 2, 3, 2, 3, 2).permute(1, 0, 3, 2, 5, 4, 6)
    for dim in [(0, 2, 4, 6), (1, 3, 5), (0, 3, 6), 2]:
        assert_close_to_cpu(lambda t: t.sum(dim), y, atol=1e-4)
        assert_close_to_cpu(lambda t: t.amin(dim, keepdim=True), y)
    assert_close_to_cpu(lambda t: t.argmax(), y)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
def test_float_ops(dtype):
    x = random_tensor(4, 33, 6, dtype=dtype)
    for f in [torch.mean, torch.var, torch.std, torch.logsumexp, torch.nansum]:
        for dim in [0, 1, (0, 2)]:
            assert_close_to_cpu(
                lambda t: f(t, dim=dim),
                x,
                rtol=1e-2 if dtype != torch.float64 else 1e-9,
                atol=1e-3 if dtype != torch.float64 else 1e-9,
            )
    assert_close_to_cpu(lambda t: torch.var_mean(t, dim=1, correction=0, keepdim=True), x)
    assert_close_to_cpu(lambda t: torch.std_mean(t, dim=(0, 1), correction=2), x)
    assert_close_to_cpu(lambda t: torch.mean(t), x)
    assert_close_to_cpu(lambda t: torch.prod(t, 1), x, rtol=1e-2 if dtype != torch.float64 else 1e-9, atol=1e-3)
    assert_close_to_cpu(
        lambda t: torch.prod(t * 0.01 + 1), x, rtol=3e-1 if dtype in (torch.float16, torch.bfloat16) else 1e-4
    )


@pytest.mark.vector_widths
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_extremes(dtype):
    x = random_tensor(6, 31, 5, dtype=dtype)
    for f in [torch.max, torch.min, torch.argmax, torch.argmin]:
        if dtype == torch.bool and f in (torch.argmax, torch.argmin):
            continue  # not on the CPU either
        assert_close_to_cpu(lambda t: f(t), x)
        for dim in [0, 1, 2]:
            assert_close_to_cpu(lambda t: f(t, dim, True), x, wide=False)
    for f in [torch.amax, torch.amin]:
        assert_close_to_cpu(lambda t: f(t, (0, 2)), x, wide=False)
    assert_close_to_cpu(lambda t: torch.aminmax(t, dim=1), x, wide=False)
    assert_close_to_cpu(lambda t: torch.aminmax(t), x, wide=False)
    for f in [torch.any, torch.all, torch.count_nonzero]:
        assert_close_to_cpu(lambda t: f(t), x)
        assert_close_to_cpu(lambda t: f(t, 1), x)
    assert_close_to_cpu(lambda t: torch.all(t * 0 == 0, (0, 1)), x)


@pytest.mark.vector_widths
def test_nan(device):
    x = torch.randn(7, 40)
    x[2, 5] = x[2, 9] = x[3, 0] = float("nan")
    x[4] = float("inf")
    x[5] = -float("inf")
    for f in [torch.max, torch.min]:
        assert_close_to_cpu(lambda t: f(t, 1), x)
        assert_close_to_cpu(lambda t: f(t), x)
    for f in [torch.argmax, torch.argmin]:
        assert_close_to_cpu(lambda t: f(t), x)
        assert_close_to_cpu(lambda t: f(t, 0), x)
    for f in [torch.amax, torch.aminmax, torch.sum, torch.nansum, torch.any, torch.all, torch.std]:
        assert_close_to_cpu(lambda t: f(t, dim=1), x, rtol=1e-4)
    assert_close_to_cpu(lambda t: torch.logsumexp(t, 1), x)
    assert_close_to_cpu(lambda t: torch.count_nonzero(t, 1), x)


@pytest.mark.vector_widths
def test_ties_take_the_first(device):
    x = torch.zeros(3, 500)
    x[1, 77] = x[1, 400] = 1
    for f in [torch.argmax, torch.argmin]:
        assert_close_to_cpu(lambda t: f(t, 1), x)
        assert_close_to_cpu(lambda t: f(t), x)
    big = torch.zeros(200_000)
    big[150_001] = big[190_000] = 2
    assert torch.argmax(big.to(device)).item() == 150_001
    assert torch.argmin(big.to(device)).item() == 0


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
def test_norms(p):
    x = random_tensor(9, 17, 4)
    assert_close_to_cpu(lambda t: torch.linalg.vector_norm(t, p, dim=(0, 2)), x, rtol=1e-4)
    assert_close_to_cpu(lambda t: torch.norm(t, p, dim=1, keepdim=True), x, rtol=1e-4)
    assert_close_to_cpu(lambda t: torch.linalg.vector_norm(t, p), x.half(), rtol=1e-2)
    assert_close_to_cpu(lambda t: torch.linalg.vector_norm(t, p, dtype=torch.float32), x.half(), wide=False, rtol=1e-4)
    if p not in (0, 0.5):
        assert_close_to_cpu(lambda t: torch.renorm(t, abs(p), 1, 1.5), x, rtol=1e-4)


def test_out_and_dtype(device):
    x = torch.randn(6, 10)
    xd = x.to(device)
    wide = torch.empty(6, 20, device=device)[:, ::2]
    torch.sum(xd.unsqueeze(0), dim=0, out=wide)
    assert_close(wide, x)
    out = torch.empty(0, device=device)
    torch.amax(xd, 1, out=out)
    assert_close(out, x.amax(1))
    values, indices = torch.empty(0, device=device), torch.empty(0, dtype=torch.long, device=device)
    torch.max(xd, 1, out=(values, indices))
    assert_close((values, indices), tuple(x.max(1)))
    for dtype in [torch.int64, torch.int32, torch.float64, torch.float16]:
        assert_close_to_cpu(lambda t: torch.sum(t * 5, 0, dtype=dtype), x, rtol=1e-2, atol=1e-2)
    assert_close_to_cpu(lambda t: torch.mean(t, 0, dtype=torch.float32), torch.arange(12).reshape(3, 4))
    assert_close_to_cpu(lambda t: torch.prod(t, 0), torch.arange(1, 13).reshape(3, 4))
    with pytest.raises(RuntimeError, match="mean"):
        torch.mean(torch.arange(4, device=device))


def test_empty_and_scalars(device):
    for shape in [(0,), (3, 0), (0, 4)]:
        x = torch.empty(shape)
        for f in [torch.sum, torch.prod, torch.mean, torch.any, torch.all, torch.count_nonzero]:
            assert_close_to_cpu(lambda t: f(t), x)
            assert_close_to_cpu(lambda t: f(t, 0), x)
        assert_close_to_cpu(lambda t: torch.var(t, 0), x)
        assert_close_to_cpu(lambda t: torch.logsumexp(t, 0), x)
        with pytest.raises((RuntimeError, IndexError)):
            torch.max(x.to(device))
    with pytest.raises(IndexError):
        torch.empty(0, 3, device=device).amax(0)
    s = torch.tensor(3.5)
    for f in [torch.sum, torch.mean, torch.amax, torch.argmax, torch.any, torch.max]:
        assert_close_to_cpu(lambda t: f(t), s)
    assert_close_to_cpu(lambda t: torch.max(t, 0), s)
    assert_close_to_cpu(lambda t: torch.logsumexp(t, 0), s)


@pytest.mark.vector_widths
def test_accuracy_of_long_sums(device):
    x = torch.rand(1 << 22)
    exact = x.double().sum().item()
    assert abs(x.to(device).sum().item() - exact) / exact < 1e-6
    y = torch.rand(1 << 20) + 1000
    assert_close(torch.var(y.to(device)), torch.var(y.double()).float(), rtol=1e-4)
    rows = torch.rand(8, 1 << 17).to(device)
    assert_close(rows.sum(1), rows.cpu().double().sum(1).float(), rtol=1e-6)
    columns = torch.rand(1 << 16, 16).to(device)
    assert_close(columns.mean(0), columns.cpu().double().mean(0).float(), rtol=1e-6)


def test_gradients(device):
    x = torch.randn(4, 6, requires_grad=True)
    for f in [lambda t: t.sum(1), lambda t: t.mean(), lambda t: t.var(0), lambda t: t.std(), lambda t: t.norm(),
              lambda t: t.logsumexp(1), lambda t: t.prod(1)]:  # fmt: skip
        y = x.detach().to(device).requires_grad_()
        (expected,) = torch.autograd.grad(f(x).square().sum(), x)
        (actual,) = torch.autograd.grad(f(y).square().sum(), y)
        assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_equal(device):
    x = torch.arange(10, device=device)
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:5])


def test_refuses(device):
    with pytest.raises(IndexError):
        torch.sum(torch.ones(3, device=device), 2)
    with pytest.raises(RuntimeError):
        torch.var(torch.arange(3, device=device))
    for dtype in INTS:
        assert torch.sum(torch.ones(3, dtype=dtype, device=device)).dtype == torch.int64
