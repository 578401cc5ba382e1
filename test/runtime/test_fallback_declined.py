"""Dtypes that kernels decline: the CPU computes the operator whole, warned and counted, or strict mode refuses it."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from helpers import INTS, assert_close, does_without, run_interpreter, without


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


# In every process, and in one for a device without float64.
ALWAYS = {
    "uint16 mul": (torch.uint16, lambda x: x * x),
    "uint16 in place": (torch.uint16, lambda x: x.t().clone().mul_(x.t())),
    "uint16 out": (torch.uint16, lambda x: torch.mul(x, x, out=torch.empty(0, dtype=x.dtype, device=x.device))),
    "uint16 where": (torch.uint16, lambda x: torch.where(x.bool(), x, x * x)),
    "uint16 sum": (torch.uint16, lambda x: x.sum(0) + x.prod()),
    "uint16 cumprod of a view": (torch.uint16, lambda x: x.t().cumprod(0)),
    "uint32 and": (torch.uint32, lambda x: x & x.t().contiguous().t()),
    "resample uint8": (torch.uint8, lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear")),
}
# float64 and complex128 have arithmetic where the device has float64.
WITHOUT_FLOAT64 = {
    "pool float64": (torch.float64, lambda x: F.avg_pool1d(x[None], 2)),
    "max_pool float64": (torch.float64, lambda x: F.max_pool1d(x[None], 2)),
    "resample float64": (torch.float64, lambda x: F.interpolate(x[None], scale_factor=2)),
    "mul": (torch.complex128, lambda x: x * x),
    "scalar": (torch.complex128, lambda x: (x + 1j) * 2 - 1),
    "in place": (torch.complex128, lambda x: x.clone().mul_(x).add_(1).div_(2j)),
    "out": (torch.complex128, lambda x: torch.add(x, x, out=torch.empty(0, dtype=x.dtype, device=x.device))),
    "abs": (torch.complex128, lambda x: x.abs()),
    "exp": (torch.complex128, lambda x: x.exp() + x.sin().tanh().sqrt()),
    "sum": (torch.complex128, lambda x: x.sum(0) + x.mean(dim=1, keepdim=True).prod()),
    "cumsum": (torch.complex128, lambda x: x.cumsum(1)),
    "where": (torch.complex128, lambda x: torch.where(x.real > 0, x, -x)),
    "cumprod of a view": (torch.complex128, lambda x: x.t().cumprod(0)),
    "cumprod in place": (torch.complex128, lambda x: x.t().clone().cumprod_(0)),
    "renorm": (torch.complex128, lambda x: torch.renorm(x, 2, 0, 0.5)),
    "equal": (torch.complex128, lambda x: (x == x.conj()) | x.isnan()),
    "mixed": (torch.complex128, lambda x: x.real * x + x.real.mul(2j)),
    "var": (torch.complex128, lambda x: x.var(dim=1) + torch.linalg.vector_norm(x, dim=1)),
    "inv": (torch.complex128, lambda x: torch.linalg.inv(x[:, :4])),
    "inv of a conjugate": (torch.complex128, lambda x: torch.linalg.inv(x[:, 1:5].mH)),
    "eigvals": (torch.complex128, lambda x: torch.linalg.eigvals(x[:, :4] @ x[:, :4].mH).real.sort()[0]),
    "conv": (torch.complex128, lambda x: F.conv1d(x[None], x[:, None], groups=4)),
}
HERE = does_without("float64")
DECLINED = ALWAYS | (WITHOUT_FLOAT64 if HERE else {})


@pytest.mark.skipif(HERE, reason="starts the others")
def test_in_a_process_without_float64():
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "kernel_declines or strict_mode", __file__]
    done = run_interpreter(*arguments, timeout=600, **without("float64"))
    assert done.returncode == 0, done.stdout + done.stderr


def values(dtype):
    if dtype.is_floating_point and dtype.itemsize == 1 or dtype in (torch.uint16, torch.uint32):
        return torch.arange(24).reshape(4, 6).remainder(7).to(dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(-9 if dtype.is_signed else 0, 10, (4, 6), dtype=dtype)
    return torch.randn(4, 6, dtype=dtype)


@pytest.mark.parametrize("name", DECLINED)
def test_the_cpu_computes_what_a_kernel_declines(device, not_strict, name):
    dtype, function = DECLINED[name]
    x = values(dtype)
    try:
        expected = function(x)
    except NotImplementedError as error:
        pytest.skip(f"nor has the CPU of this torch: {error}")
    torch.aule.reset_fallback_report()
    actual = quietly(function, x.to(device))
    assert torch.aule.fallback_report(), "counted"
    assert actual.device.type == "aule"
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DECLINED)
def test_strict_mode_refuses_it(device, name):
    dtype, function = DECLINED[name]
    x = values(dtype).to(device)
    before = x.cpu()
    torch.aule.reset_fallback_report()
    with pytest.raises((NotImplementedError, RuntimeError)):
        function(x)
    assert torch.aule.fallback_report() == []
    if not dtype.is_floating_point or dtype.itemsize > 1:
        assert torch.equal(x.cpu(), before)


DIFFERENTIATED = ("inv", "inv of a conjugate", "pool float64", "resample float64", "mul", "exp", "sum")


@pytest.mark.parametrize("name", [name for name in DIFFERENTIATED if name in DECLINED])
def test_gradients_of_what_a_kernel_declines(device, not_strict, name):
    dtype, function = DECLINED[name]
    x = values(dtype)
    leaf, leaf_device = x.clone().requires_grad_(), x.to(device).requires_grad_()
    y, z = function(leaf), quietly(function, leaf_device)
    weight = torch.randn_like(y)
    (g,) = torch.autograd.grad(y, leaf, weight)
    (h,) = quietly(torch.autograd.grad, z, leaf_device, weight.to(device))
    assert_close(h, g, rtol=1e-5, atol=1e-5)


def test_lists_of_mixed_dtypes_are_done_once(device, not_strict):
    x = [torch.randn(5), torch.randn(5, dtype=torch.complex64), torch.randn(3)]
    y = [t.to(device) for t in x]
    for function in (
        lambda t: torch._foreach_mul_(t, 2.0),
        lambda t: torch._foreach_add_(t, [u.clone() for u in t]),
        lambda t: torch._foreach_addcmul_(t, [u.clone() for u in t], [u.clone() for u in t], 0.5),
        lambda t: torch._foreach_div_(t, [2.0, 3.0, 4.0]),
    ):
        function(x)
        quietly(function, y)
        assert_close(y, x, rtol=1e-5, atol=1e-6)


def test_running_statistics_through_the_fallback(device, not_strict):
    layer = torch.nn.BatchNorm1d(4, dtype=torch.float64)
    other = torch.nn.BatchNorm1d(4, dtype=torch.float64).to(device)
    x = torch.randn(8, 4, dtype=torch.float64)
    assert_close(quietly(other, x.to(device)), layer(x))
    assert_close(other.running_mean, layer.running_mean)
    assert_close(other.running_var, layer.running_var)


EVERY = [
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.complex64, torch.complex128, torch.complex32, torch.uint16, torch.uint32, torch.uint64, torch.bool),
    *INTS,
]


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_creation_and_printing(device, not_strict, dtype):
    """Zeros, ones, constants, identities and their text in every dtype; sequences where the CPU has them."""

    def bits(t):
        return t.cpu().contiguous().view(torch.uint8)

    for make in (
        lambda d: torch.zeros(3, 2, dtype=dtype, device=d),
        lambda d: torch.ones(3, 2, dtype=dtype, device=d),
        lambda d: torch.full((3, 2), 1, dtype=dtype, device=d),
        lambda d: torch.empty(3, 2, dtype=dtype, device=d).fill_(1),
        lambda d: torch.empty(4, 6, dtype=dtype, device=d)[::2, ::3].fill_(1),
        lambda d: torch.eye(3, dtype=dtype, device=d),
        lambda d: torch.arange(1, 7, 2, dtype=dtype, device=d),
        lambda d: torch.linspace(0, 9, 4, dtype=dtype, device=d),
        lambda d: torch.logspace(0, 3, 4, dtype=dtype, device=d),
        lambda d: torch.tensor([0, 1, 1], dtype=dtype, device=d),
    ):
        try:
            expected = make("cpu")
        except (RuntimeError, TypeError):
            continue  # nor has the CPU this dtype
        actual = quietly(make, device)
        if dtype.is_complex:
            assert_close(actual, expected, rtol=1e-6, atol=1e-6)  # ours are powers of 10 by exp and log
        elif dtype.itemsize > 1 and dtype.is_floating_point:
            assert_close(actual, expected)
        else:
            assert torch.equal(bits(actual), bits(expected))
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
    x = torch.ones(2, dtype=dtype)
    assert quietly(repr, x.to(device)).startswith(repr(x)[:9])
