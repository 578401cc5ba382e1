"""Numbers at the ends of their range, zeros with a sign, infinities and NaN: the CPU's results, eager and compiled."""

import math

import pytest
import torch

from helpers import assert_close, to_device

BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
in_both_forms = pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])


def any_bits(dtype, n):
    """Numbers of all exponents, some infinite or NaN."""
    limits = torch.iinfo(BITS[dtype])
    return torch.randint(limits.min, limits.max, (n,), dtype=BITS[dtype]).view(dtype)


def formed(function, is_compiled):
    if not is_compiled:
        return function
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def assert_bits_equal(actual, expected):
    actual = actual.cpu()
    kind = BITS[expected.dtype]
    same = (actual.view(kind) == expected.view(kind)) | (actual.isnan() & expected.isnan())
    assert same.all(), (actual[~same][:5], expected[~same][:5])


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_remainders_are_exact(device, dtype, is_compiled):
    """math.fmod is the reference: the CPU's operator is NaN for large quotients."""
    near = torch.randn(2, 500, dtype=dtype)
    ends = torch.tensor([torch.finfo(dtype).max, -torch.finfo(dtype).max, 5.0, 0.0, -0.0, math.inf], dtype=dtype)
    x = torch.cat([any_bits(dtype, 3000), near[0] * 100, ends, ends, near[0]])
    y = torch.cat([any_bits(dtype, 3000), near[1], torch.ones_like(ends), 0.1 * torch.ones_like(ends), near[1] * 0])

    def exact(a, b):
        return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) and b != 0 else math.nan

    expected = torch.tensor([exact(a, b) for a, b in zip(x.tolist(), y.tolist())], dtype=dtype)
    remainder, python_remainder = formed(lambda a, b: (torch.fmod(a, b), torch.remainder(a, b)), is_compiled)(
        x.to(device), y.to(device)
    )
    assert_bits_equal(remainder, expected)
    other_sign = (expected != 0) & ((expected < 0) != (y < 0))
    assert_bits_equal(python_remainder, torch.where(other_sign, expected + y, expected))


@in_both_forms
def test_quotients_are_floored_below_a_rounded_one(device, is_compiled):
    def function(a, b):
        return a % b, a // b, torch.fmod(a, b)

    x = torch.tensor([5.0, 1, -1, 1, 7, -7, 3e300, 1e16], dtype=torch.float64)
    y = torch.tensor([0.1, 0.1, 0.1, -0.1, 2, 2, 1e300, 3], dtype=torch.float64)
    assert_close(formed(function, is_compiled)(*to_device((x, y))), function(x, y), rtol=0, atol=0)
    x, y = torch.tensor([3.4028234663852886e38, -3.4028234663852886e38]), torch.tensor([1.0, 2.5])
    expected = tuple(t.float() for t in function(x.double(), y.double()))
    assert_close(formed(function, is_compiled)(*to_device((x, y))), expected, rtol=1e-7, atol=0)


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_angles_of_any_size(device, dtype, is_compiled):
    """Among them the float64 that is nearest to a multiple of pi / 2, and zeros with their signs."""
    x = any_bits(dtype, 5000)
    x = torch.cat([x[x.isfinite()], torch.randn(2000, dtype=dtype) * 1e6])
    known = torch.tensor([1e16, 1e300, 6381956970095103.0 * 2.0**797, 1e6, 999999.5, 2.0**20, 1.0, 0.0], dtype=dtype)
    x = torch.cat([x, known[known.isfinite()], -known[known.isfinite()]])
    functions = (torch.sin, torch.cos) if dtype == torch.float64 else (torch.sin, torch.cos, torch.tan)
    results = formed(lambda t: [f(t) for f in functions], is_compiled)(x.to(device))
    for f, actual in zip(functions, results):
        expected = f(x.double()).to(dtype)
        eps = torch.finfo(dtype).eps
        assert_close(actual, expected, rtol=16 * eps, atol=0 if dtype == torch.float64 else eps / 8, msg=str(f))
        assert torch.equal(actual.cpu().signbit(), expected.signbit()), f
