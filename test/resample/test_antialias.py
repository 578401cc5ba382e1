"""Antialiased resizing against float64, and of bytes against the CPU. Kernels: antialias, antialias_weights."""

import pytest
import torch
import torch.nn.functional as F

from helpers import (
    FLOATS,
    assert_close,
    assert_close_to_float64,
    check_program,
    layouts,
    like_strided,
    relative_error,
    without,
)

pytestmark = pytest.mark.validated

MODES = ["bilinear", "bicubic"] + ["lanczos"] * hasattr(torch.ops.aten, "_upsample_lanczos2d_aa")
SIZES = [((13, 17), (5, 7)), ((13, 17), (29, 31)), ((40, 9), (3, 20)), ((7, 8), (7, 8)), ((9, 1), (1, 4))]


def resize(mode, size, align=False):
    name = f"_upsample_{mode}2d_aa"
    return lambda x: getattr(torch.ops.aten, name)(x, list(size), align)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size, out", SIZES)
@pytest.mark.parametrize("align", [False, True])
def test_against_float64(size, out, mode, align, dtype):
    x = torch.randn(2, 3, *size)
    assert_close_to_float64(resize(mode, out, align), x, dtype=dtype, gradients=True)


@pytest.mark.float64
@pytest.mark.sampled(20)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size, out", [*SIZES, ((96, 130), (33, 41)), ((50, 60), (224, 224))])
def test_bytes_as_on_the_cpu(size, out, channels, mode):
    """Exactly: weights are integers, and each axis is rounded."""
    x = torch.randint(0, 256, (2, channels, *size), dtype=torch.uint8)
    x[:, :, ::2, ::3] = 255
    for layout in (torch.contiguous_format, torch.channels_last):
        y = x.contiguous(memory_format=layout)
        expected = resize(mode, out)(y)
        actual = resize(mode, out)(like_strided(y))
        assert actual.dtype == torch.uint8 and torch.equal(actual.cpu(), expected)


def test_bytes_without_float64():
    """Weights are rounded from float32: few results differ from the CPU's, by one or two."""
    check_program("antialias_bytes", **without("float64"))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolate(mode):
    """By scale factors, which the kernel uses in place of the sizes' quotient, and with both."""
    x = torch.randn(2, 3, 20, 23)
    for factor in ((0.37, 0.61), (1.9, 0.3)):
        for recompute in (False, True):

            def scaled(t):
                return F.interpolate(
                    t, scale_factor=factor, mode=mode, antialias=True, recompute_scale_factor=recompute
                )

            assert_close_to_float64(scaled, x, gradients=True)


@pytest.mark.parametrize("mode", MODES)
def test_strides_and_out(mode):
    x = torch.randn(2, 3, 14, 11)
    expected = resize(mode, (5, 6))(x.double())
    for _, view in layouts(x):
        actual = resize(mode, (5, 6))(like_strided(view))
        assert relative_error(actual, expected) < 3e-5
        assert actual.stride() == resize(mode, (5, 6))(view).stride()
    op = getattr(torch.ops.aten, f"_upsample_{mode}2d_aa").out
    for out in (torch.full((2, 3, 5, 6), 7.0), torch.full((2, 3, 6, 5), 7.0).mT):
        out = like_strided(out)
        op(x.to("aule"), [5, 6], False, out=out)
        assert relative_error(out, expected) < 3e-5
    row = x[:, :, :1].expand(x.shape)
    assert relative_error(resize(mode, (5, 6))(like_strided(row)), resize(mode, (5, 6))(row.double())) < 3e-5


@pytest.mark.parametrize("mode", MODES)
def test_no_elements(mode):
    x = torch.randn(0, 3, 6, 7)
    assert_close(resize(mode, (3, 4))(x.to("aule")), x.new_empty(0, 3, 3, 4))


def test_one_pixel_of_many():
    """A row of taps as long as the image."""
    x = torch.randn(1, 1, 3, 3000)
    assert_close_to_float64(resize("bilinear", (1, 1)), x, gradients=True, scale=1e-3)
    assert_close_to_float64(resize("bilinear", (2, 9000)), torch.randn(1, 1, 3, 2), gradients=True)


def test_many_planes():
    x = torch.randn(70_000, 1, 3, 4)
    assert_close(resize("bilinear", (2, 2))(x.to("aule")), resize("bilinear", (2, 2))(x))


def test_refused():
    x = torch.randn(2, 3, 4, 5)
    for bad in (x[0], x.long(), x.cfloat()):
        with pytest.raises(RuntimeError):
            resize("bilinear", (2, 2))(bad)
        with pytest.raises(RuntimeError):
            resize("bilinear", (2, 2))(bad.to("aule"))
