"""Dense tensors of 2^16 elements and more on lavapipe: unary_simd, binary_simd, ternary_simd."""

import pytest
import torch

from helpers import assert_close, assert_close_to_cpu, random_tensor

pytestmark = pytest.mark.validated

# Whole workgroups of 256 in one launch and in two (512 workgroups are a row of the grid), and what is left over.
SIZES = [1 << 16, (1 << 16) + 5, 256 * (512 * 2 + 3) + 129]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "a,b",
    [
        ("float32", "float32"),
        ("float16", "float32"),
        ("bfloat16", "bfloat16"),
        ("float32", "int64"),
        ("int8", "float16"),
    ],
)
def test_dtypes(n, a, b):
    x, y = random_tensor(n, dtype=getattr(torch, a)), random_tensor(n, dtype=getattr(torch, b))
    assert_close_to_cpu(lambda x, y: torch.add(x, y, alpha=2), x, y)
    assert_close_to_cpu(torch.gt, x, y)
    assert_close_to_cpu(lambda x: x * 3, x)
    assert_close_to_cpu(lambda x, y: torch.where(x > 0, x, y), x, y)


@pytest.mark.parametrize("n", SIZES)
def test_in_place_and_out(n):
    x, y, z = random_tensor(n), random_tensor(n), random_tensor(n)
    assert_close_to_cpu(lambda x, y: x.add_(y), x, y)
    assert_close_to_cpu(lambda x, y: torch.mul(x, y, out=x), x, y)
    assert_close_to_cpu(lambda x: x.neg_(), x)
    assert_close_to_cpu(lambda x, y, z: x.addcmul_(y, z, value=0.5), x, y, z)
    assert_close_to_cpu(torch.add, x[1:], y[1:])  # addresses that 16 does not divide
    assert_close_to_cpu(torch.add, x[:-4], y[4:])
    assert_close_to_cpu(torch.mul, x.view(-1, 1)[:, 0], torch.tensor(2.5))


@pytest.mark.parametrize(
    "function",
    [torch.exp, torch.erf, torch.lgamma, torch.sin, torch.nn.functional.gelu, torch.isnan, torch.round, torch.frac],
)
def test_unary(function):
    assert_close_to_cpu(function, random_tensor(70000) * 10 + 0.1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function", [torch.fmod, torch.div, torch.pow, torch.atan2, torch.maximum, torch.nextafter, torch.floor_divide]
)
def test_same_as_small(device, function):
    x, y = random_tensor(70000).abs().to(device) + 0.5, random_tensor(70000).to(device) + 0.25
    x[::1001] = float("nan")
    y[::1003] = float("inf")
    half = 35000
    pieces = [function(x[i : i + half], y[i : i + half]) for i in (0, half)]
    assert_close(function(x, y), torch.cat(pieces), rtol=0, atol=0)
