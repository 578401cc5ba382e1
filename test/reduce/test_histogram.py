"""Histograms of one and several dimensions."""

import pytest
import torch

from helpers import assert_close, assert_close_to_cpu, random_tensor

FLOAT_TYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogram(device, dtype, density, weighted):
    x = random_tensor(13, 37, dtype=dtype)
    x[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    weight = random_tensor(13, 37, low=0, high=2, dtype=dtype) if weighted else None
    edges = torch.tensor([-3.0, -1.5, -1.5, 0.0, 0.25, 4.0], dtype=dtype)
    if density:
        edges = edges.unique()

    def equal_bins(x, weight):
        return torch.histogram(x, 7, range=(-2.0, 3.0), weight=weight, density=density)

    def given_bins(x, edges, weight):
        return torch.histogram(x, edges, weight=weight, density=density)

    for t, w in ((x, weight), (x.t(), None if weight is None else weight.t())):
        assert_close_to_cpu(equal_bins, t, w)
        assert_close_to_cpu(given_bins, t, edges, w)
    hist, bins = torch.empty(0, dtype=dtype, device=device), torch.empty(0, dtype=dtype, device=device)
    torch.histogram(x.to(device), 5, range=(-1.0, 1.0), out=(hist, bins))
    assert_close((hist, bins), tuple(torch.histogram(x, 5, range=(-1.0, 1.0))))
    torch.histogram(x.to(device), edges.to(device), out=(hist, bins))
    assert_close((hist, bins), tuple(torch.histogram(x, edges)))


def test_range_of_the_data(device):
    for x in (random_tensor(1001), torch.full((9,), 2.5), torch.empty(0), torch.arange(101.0)):
        assert_close_to_cpu(lambda t: torch.histogram(t, 10), x)
    with pytest.raises(RuntimeError, match="not finite"):
        torch.histogram(torch.tensor([1.0, torch.nan], device=device), 3)


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
@pytest.mark.parametrize("density", [False, True])
def test_several_dimensions(device, dtype, density):
    x, weight = random_tensor(11, 41, 3, dtype=dtype), random_tensor(11, 41, low=0, high=2, dtype=dtype)
    edges = [torch.linspace(-2, 2, n, dtype=dtype) for n in (4, 6, 3)]

    def counted(x, weight=None):
        return torch.histogramdd(x, [3, 5, 2], range=[-2.0, 2, -3, 3, -1, 1], weight=weight, density=density)

    def given(x, edges, weight):
        return torch.histogramdd(x, edges, weight=weight, density=density)

    assert_close_to_cpu(counted, x)
    assert_close_to_cpu(counted, x, weight)
    assert_close_to_cpu(given, x, edges, weight)
    assert_close_to_cpu(lambda t: torch.histogramdd(t, 4, density=density), x[..., 1:])
    with pytest.raises(RuntimeError, match="sequences of bin edges"):
        torch.histogramdd(x.to(device), [3, 5])


def test_many_samples(device):
    """More than float32 counts in steps of one."""
    hist, _ = torch.histogram(torch.zeros((), device=device).expand(2**24 + 3), 2, range=(-1.0, 0.5))
    assert hist.tolist() == [0.0, float(2**24 + 3)] or hist.tolist() == [0.0, 2.0**24 + 4]
