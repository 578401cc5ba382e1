"""Cumulative operations against the CPU."""

import pytest
import torch

from helpers import FLOATS, INTS, assert_close, assert_close_to_cpu, layouts, random_tensor

pytestmark = pytest.mark.validated


@pytest.mark.vector_widths
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64, *INTS, torch.bool], ids=str)
def test_sum_and_product(dtype):
    x = random_tensor(4, 29, 3, dtype=dtype)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-2 if dtype.is_floating_point else None
    for dim in range(3):
        assert_close_to_cpu(lambda t: torch.cumsum(t, dim), x, rtol=tolerance, atol=tolerance)
        assert_close_to_cpu(lambda t: torch.cumprod(t, dim), x, rtol=tolerance, atol=tolerance)


@pytest.mark.vector_widths
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool], ids=str
)
def test_extremes(dtype):
    x = random_tensor(4, 29, 3, dtype=dtype)
    if dtype == torch.float32:
        x[1, 4, 1] = x[1, 9, 1] = float("nan")
    for dim in range(3):
        assert_close_to_cpu(lambda t: torch.cummax(t, dim), x, wide=False)
        assert_close_to_cpu(lambda t: torch.cummin(t, dim), x, wide=False)


def test_logcumsumexp():
    x = torch.randn(5, 40) * 5
    x[0, :3] = -float("inf")
    x[1, 7] = float("inf")
    x[2, 5] = float("nan")
    for dim in (0, 1):
        assert_close_to_cpu(lambda t: torch.logcumsumexp(t, dim), x, rtol=1e-4)
    assert_close_to_cpu(lambda t: torch.logcumsumexp(t, 0), x.double())


def test_long_rows(device):
    x = torch.randn(2, 30_011)
    assert_close(torch.cumsum(x.to(device), 1), x.double().cumsum(1).float(), rtol=1e-4, atol=1e-3)
    i = torch.randint(-1000, 1000, (100_003,))
    assert_close_to_cpu(lambda t: torch.cumsum(t, 0), i)
    assert_close_to_cpu(lambda t: torch.cummax(t, 0), i)
    assert_close_to_cpu(lambda t: torch.cumsum(t, 0), torch.randint(0, 5, (3000, 2, 3)))


@pytest.mark.vector_widths
def test_layouts_out_and_empty(device):
    for _, x in layouts(torch.randn(3, 4, 5)):
        assert_close_to_cpu(lambda t: torch.cumsum(t, 1), x)
        assert_close_to_cpu(lambda t: torch.cummin(t, 0), x)
    x = torch.randn(3, 4)
    out = torch.empty(4, 3, device=device).t()
    torch.cumsum(x.to(device), 1, out=out)
    assert_close(out, x.cumsum(1))
    assert_close_to_cpu(lambda t: t.cumsum_(0), x.clone())
    assert_close_to_cpu(lambda t: torch.cumsum(t, 0, dtype=torch.float64), torch.arange(5))
    assert_close_to_cpu(lambda t: torch.cumsum(t, 1), torch.empty(3, 0))
    assert_close_to_cpu(lambda t: torch.cumsum(t, 0), torch.tensor(4.0))
    assert_close_to_cpu(lambda t: torch.cummax(t, 0), torch.tensor(4.0))


def test_gradients(device):
    x = torch.rand(4, 6) + 0.5
    for f in [lambda t: t.cumsum(1), lambda t: t.cumprod(0), lambda t: t.cummax(1).values, lambda t: t.logcumsumexp(1)]:
        a, b = x.to(device).requires_grad_(), x.clone().requires_grad_()
        f(a).square().sum().backward()
        f(b).square().sum().backward()
        assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
