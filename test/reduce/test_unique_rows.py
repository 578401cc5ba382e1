"""torch.unique and unique_consecutive along a dimension."""

import pytest
import torch

from helpers import assert_close, random_tensor

DTYPES = [torch.float32, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool]


def both(device, function, x, dim):
    for inverse, counts in ((True, True), (False, True), (False, False)):
        expected = function(x, return_inverse=inverse, return_counts=counts, dim=dim)
        assert_close(function(x.to(device), return_inverse=inverse, return_counts=counts, dim=dim), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [torch.unique, torch.unique_consecutive])
def test_along_a_dimension(device, function, dtype):
    x = torch.randint(0, 2, (61, 5)).to(dtype)
    both(device, function, x, 0)
    both(device, function, x.t(), 1)
    both(device, function, x.t().reshape(5, 1, 61), -1)
    both(device, function, torch.randint(0, 3, (37, 1)).to(dtype), 0)
    both(device, function, torch.randint(0, 2, (4, 3, 23, 2)).to(dtype), 2)
    both(device, function, torch.randint(0, 2, (1, 9)).to(dtype), 0)


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 13, 100])
def test_order_of_many_columns(device, columns):
    """Rows that differ in any one column; the first column counts most."""
    x = random_tensor(1, columns).expand(40, columns).clone()
    x[torch.arange(40), torch.randint(columns, (40,))] += torch.randint(-1, 2, (40,))
    both(device, torch.unique, x, 0)


def test_negative_and_extreme_values(device):
    x = torch.tensor([[-(2**63), 5], [2**63 - 1, -5], [0, 0], [-(2**63), -5], [0, 0]])
    both(device, torch.unique, x, 0)
    y = torch.tensor([[-torch.inf, -0.0], [torch.inf, 0.0], [-torch.inf, 0.0], [1.5, -2.0]])
    both(device, torch.unique, y, 0)


def test_no_elements(device):
    for function in (torch.unique, torch.unique_consecutive):
        both(device, function, torch.empty(0, 3), 0)
        for shape, dim in (((0, 0), 0), ((3, 0), 0)):
            with pytest.raises(RuntimeError, match="unique cannot be applied"):
                function(torch.empty(shape, device=device), dim=dim)
