"""Pooling, resampling and convolutions of float64 and of whole numbers against the CPU. Kernels: avg_pool, max_pool,
upsample, unfold_columns, gemm_scalar."""

import pytest
import torch
import torch.nn.functional as F
from test_conv import POOLS, SPATIAL, UPSAMPLES

from helpers import INTS, assert_close, check_program, limited, to_device

pytestmark = pytest.mark.validated


def layouts(x):
    """The values of `x`: dense, its last two dimensions exchanged in memory, and inside a larger tensor."""
    yield x
    yield x.transpose(-1, -2).contiguous().transpose(-1, -2)
    yield torch.cat([x[:1], x])[1:]
    yield F.pad(x, (1, 2))[..., 1:-2]


def poison(*like):
    """Fill what the allocator hands out next with ones in all bits, which are NaNs."""
    for t in like:
        blocks = [torch.full((t.numel() * t.element_size(),), 255, dtype=torch.uint8, device="aule") for _ in range(8)]
        blocks.clear()


def check_float64(function, x):
    """Results and gradients, within roundings of float64."""
    expected = function(leaf := x.clone().requires_grad_())
    seed = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad(expected, leaf, seed)
    for t in layouts(x):
        poison(expected, x)
        own = to_device(t).requires_grad_()
        actual = function(own)
        (grad,) = torch.autograd.grad(actual, own, to_device(seed))
        assert_close(actual, expected, rtol=1e-13, atol=1e-13)
        assert_close(grad, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.float64
@pytest.mark.parametrize("name", POOLS)
def test_pooling_of_float64(name):
    x = torch.randn(2, 3, *SPATIAL[name.split("pool")[1][0]], dtype=torch.float64)
    check_float64(POOLS[name], x)
    check_float64(POOLS[name], x[0])


@pytest.mark.float64
def test_maxima_that_float32_confuses():
    x = torch.zeros(1, 1, 4, 6, dtype=torch.float64)
    x[0, 0, 1::2, ::2] = 1e-300
    x[0, 0, ::2, 1::2] = 1 + torch.arange(6, dtype=torch.float64).view(2, 3) * 1e-15
    x[0, 0, 3, 5] = float("nan")
    expected = F.max_pool2d(x, (2, 3), return_indices=True)
    assert_close(F.max_pool2d(x.to("aule"), (2, 3), return_indices=True), expected, rtol=0, atol=0)
    expected = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
    assert_close(F.adaptive_max_pool2d(x.to("aule"), (3, 4), return_indices=True), expected, rtol=0, atol=0)


@pytest.mark.float64
@pytest.mark.parametrize("dims, options", UPSAMPLES, ids=str)
def test_interpolation_of_float64(dims, options):
    check_float64(lambda x: F.interpolate(x, **options), torch.randn(2, 3, *(7, 6, 5)[:dims], dtype=torch.float64))


@pytest.mark.float64
def test_positions_of_float64():
    """Scales whose positions float32 would put beside a cell's edge."""
    x = torch.randn(1, 1, 997, dtype=torch.float64)
    for options in ({"size": 997 * 3}, {"scale_factor": 1 / 3}, {"scale_factor": 1.1}, {"size": 64}):
        for mode in ("nearest", "nearest-exact", "linear"):
            expected = F.interpolate(x, mode=mode, **options)
            assert_close(F.interpolate(x.to("aule"), mode=mode, **options), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", INTS)
def test_maxima_of_whole_numbers(dtype):
    info = torch.iinfo(dtype)
    for name, function in POOLS.items():
        if not name.startswith(("max_pool2d", "max_pool3d")):  # the CPU has no max_pool1d of them
            continue
        spatial = SPATIAL[name.split("pool")[1][0]]
        x = torch.randint(info.min, info.max, (2, 3, *spatial)).to(dtype)
        x[0] = info.min  # what padding must not replace
        x[1, 0].flatten()[-1] = info.max
        for t in layouts(x):
            poison(x)
            assert_close(function(to_device(t)), function(x))
    x = torch.randint(info.min, info.max, (3, 9, 8)).to(dtype)
    expected = F.max_pool2d(x, (3, 2), 2, (1, 0), return_indices=True)
    assert_close(F.max_pool2d(x.to("aule"), (3, 2), 2, (1, 0), return_indices=True), expected)


def test_averages_of_int64():
    """Rounded towards zero; sums past 2^53."""
    for name, function in POOLS.items():
        if not name.startswith("avg"):
            continue
        for most in (50, 1 << 58):
            x = torch.randint(-most, most, (2, 3, *SPATIAL[name.split("pool")[1][0]]))
            for t in layouts(x):
                poison(x)
                assert_close(function(to_device(t)), function(x))
    x, g = torch.randint(-99, 99, (2, 3, 7, 6)), torch.randint(-99, 99, (2, 3, 4, 3))
    arguments = ([3, 3], [2, 2], [1, 1], False, True, None)
    expected = torch.ops.aten.avg_pool2d_backward(g, x, *arguments)
    assert_close(torch.ops.aten.avg_pool2d_backward(g.to("aule"), x.to("aule"), *arguments), expected)


@pytest.mark.parametrize("dims, options", [case for case in UPSAMPLES if case[1]["mode"].startswith("near")], ids=str)
def test_nearest_bytes(dims, options):
    x = torch.randint(0, 256, (2, 3, *(7, 6, 5)[:dims]), dtype=torch.uint8)
    for t in layouts(x):
        poison(x)
        assert_close(F.interpolate(to_device(t), **options), F.interpolate(x, **options))


CONVOLUTIONS = {
    "conv1d": lambda x, w: F.conv1d(x[:, :, 0], w[:, :, 0], padding=2, stride=2),
    "conv2d": lambda x, w: F.conv2d(x, w, w[:, 0, 0, 0], padding=(1, 2), dilation=(1, 2)),
    "conv2d groups": lambda x, w: F.conv2d(x, w[:, :2], groups=3, stride=(2, 1)),
    "conv3d": lambda x, w: F.conv3d(x[:, :, None], w[:, :, None], padding=(0, 1, 1)),
    "conv_transpose1d": lambda x, w: F.conv_transpose1d(x[:, :, 0], w.transpose(0, 1)[:, :, 0], stride=2),
    "conv_transpose2d": lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=(2, 3), padding=1),
    "conv_transpose2d groups": lambda x, w: F.conv_transpose2d(x, w[:6, :4], groups=3, output_padding=1, stride=2),
    "conv_transpose3d": lambda x, w: F.conv_transpose3d(
        x[:, :, None], w.transpose(0, 1)[:, :, None], padding=(0, 1, 1)
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_whole_numbers(name):
    """They wrap as the dtype does. The CPU has one-dimensional and two-dimensional ones of the smaller dtypes only."""
    function, served = CONVOLUTIONS[name], 0
    for dtype in INTS:
        info = torch.iinfo(dtype)
        x = torch.randint(info.min, info.max, (2, 6, 7, 5)).to(dtype)
        w = torch.randint(info.min, info.max, (9, 6, 3, 3)).to(dtype)
        try:
            expected = function(x, w)
        except RuntimeError:
            continue
        for t in layouts(x):
            poison(expected)
            assert_close(function(to_device(t), to_device(w)), expected)
            served += 1
    assert served


def test_nothing_and_refusals():
    for dtype in (torch.float64, torch.int64):
        if dtype == torch.float64 and not torch.aule.get_device_properties().float64:
            continue
        x = torch.zeros(0, 3, 6, 5, dtype=dtype, device="aule")
        assert F.max_pool2d(x, 2).shape == F.avg_pool2d(x, 2).shape == (0, 3, 3, 2)
    whole = torch.zeros(1, 1, 4, 4, dtype=torch.int32, device="aule")
    for call in (lambda: F.avg_pool2d(whole, 2), lambda: F.adaptive_max_pool2d(whole, 2),
                 lambda: F.max_pool2d(whole.bool(), 2), lambda: F.interpolate(whole, scale_factor=2)):  # fmt: skip
        with pytest.raises(RuntimeError):  # by the CPU too
            call()


@pytest.mark.float64
def test_long_windows():
    """A device that ends long loops: windows in parts, one axis after the other."""
    check_program("pool_long_windows", **limited("max_loop_iterations=64"))
