"""segment_reduce: reductions of segments that lengths or offsets give, and their gradients."""

import math

import pytest
import torch

from helpers import FLOATS, assert_close, assert_close_to_cpu, assert_close_to_float64, random_tensor

pytestmark = pytest.mark.validated
REDUCTIONS = ["sum", "mean", "max", "min", "prod"]
LENGTHS = torch.tensor([3, 0, 7, 1, 26])


def reduced(reduce, axis=0, initial=None):
    def function(data, lengths):
        return torch.segment_reduce(data, reduce, lengths=lengths, axis=axis, initial=initial)

    return function


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_layouts(device, reduce, dtype):
    lengths = LENGTHS[torch.randperm(5)]
    for initial in (None, 2.0):
        for x in (
            random_tensor(37, dtype=dtype),
            random_tensor(37, 3, 5, dtype=dtype),
            random_tensor(5, 37, dtype=dtype).t(),
        ):
            tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(dtype, 1e-5)  # of products
            assert_close_to_cpu(reduced(reduce, 0, initial), x, lengths, rtol=tolerance, atol=tolerance)
            assert_close_to_cpu(reduced(reduce, 0, initial), x, lengths.int(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_inner_axis_and_offsets(device, reduce):
    x, lengths = random_tensor(2, 9, 3), torch.tensor([[4, 5, 0], [0, 2, 7]])
    assert_close_to_cpu(reduced(reduce, 1), x, lengths)
    offsets = torch.tensor([[0, 4, 4, 9], [1, 2, 6, 8]])  # the second row leaves elements out

    def by_offsets(x, offsets):
        return torch.segment_reduce(x, reduce, offsets=offsets, axis=1)

    assert_close_to_cpu(by_offsets, x, offsets)
    a, b = x.to(device).requires_grad_(), x.clone().requires_grad_()
    weight = random_tensor(2, 3, 3)
    (by_offsets(a, offsets.to(device)) * weight.to(device)).nan_to_num().sum().backward()
    (by_offsets(b, offsets) * weight).nan_to_num().sum().backward()
    assert_close(a.grad, b.grad)


@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients(device, reduce, initial):
    x = random_tensor(37, 3)
    x[5:8] = x[4]  # ties
    x[20, 1] = 0.0
    x[21, 2] = math.nan
    x[30, 0] = x[31, 0] = 0.0
    weight = random_tensor(5, 3, low=0.1, high=2)  # the CPU does not divide a negative gradient among ties
    for dtype in (torch.float32, torch.float64):
        a, b = x.to(device, dtype).requires_grad_(), x.double().requires_grad_()
        (reduced(reduce, 0, initial)(a, LENGTHS.to(device)) * weight.to(device, dtype)).sum().backward()
        (reduced(reduce, 0, initial)(b, LENGTHS) * weight.double()).sum().backward()
        assert_close(a.grad.double(), b.grad, rtol=1e-4, atol=1e-5)


def test_ties_share_a_negative_gradient(device):
    x = torch.ones(6, device=device, requires_grad=True)
    (-torch.segment_reduce(x, "max", lengths=torch.tensor([4, 2], device=device))).sum().backward()
    assert_close(x.grad, torch.tensor([-0.25] * 4 + [-0.5] * 2))


def test_long_segments(device):
    """A workgroup for each segment, where there is a GPU or a driver that ends loops."""
    x, lengths = random_tensor(100_003), torch.tensor([40_000, 3, 0, 60_000])
    for reduce in ("sum", "mean", "max", "min"):
        assert_close_to_float64(lambda t, r=reduce: reduced(r)(t, lengths.to(t.device)).nan_to_num(-1, -1, -1), x)
    x[50_000] = math.nan
    assert_close_to_cpu(reduced("max"), x, lengths)
    assert_close_to_cpu(reduced("min"), x, lengths)


def test_checks(device):
    x = random_tensor(9, 2).to(device)
    for lengths, message in (([4, 4], "to sum to"), ([-1, 10], "negative")):
        with pytest.raises(RuntimeError, match=message):
            torch.segment_reduce(x, "sum", lengths=torch.tensor(lengths, device=device))
    with pytest.raises(RuntimeError, match="unsupported reduction"):
        torch.segment_reduce(x, "median", lengths=torch.tensor([9], device=device))
    with pytest.raises(RuntimeError, match="Either lengths or offsets"):
        torch.segment_reduce(x, "sum")
    empty = torch.segment_reduce(x[:0], "sum", lengths=torch.zeros(3, dtype=torch.long, device=device), initial=1)
    assert_close(empty, torch.ones(3, 2))
    outside = torch.segment_reduce(x, "sum", offsets=torch.tensor([-5, 4, 90], device=device), unsafe=True)
    assert_close(outside, torch.stack([x[:4].sum(0), x[4:].sum(0)]).cpu())
