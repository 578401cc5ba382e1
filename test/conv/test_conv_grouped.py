"""Convolutions of thin groups, depthwise above all, against float64, in both memory formats.

Kernels: grouped_conv, grouped_conv_weight, grouped_conv_parts.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close_to_float64, check_program, launches, layouts, relative_error, without

pytestmark = pytest.mark.validated

CASES = {  # groups, channels and out channels of a group, extent, kernel, options
    "3x3": (24, 1, 1, (9, 11), (3, 3), dict(padding=1)),
    "5x5 stride 2": (16, 1, 1, (13, 24), (5, 5), dict(padding=2, stride=2)),
    "7x7 whole loads": (8, 1, 1, (12, 16), (7, 7), dict(padding=3)),
    "odd channels": (7, 1, 1, (14, 14), (3, 3), dict(padding=(0, 2))),
    "stride 3 and 1": (6, 1, 1, (11, 13), (3, 4), dict(padding=1, stride=(1, 3))),
    "stride 4, gaps": (8, 1, 1, (9, 18), (2, 2), dict(stride=4)),
    "one tap, stride 2": (8, 1, 1, (7, 7), (1, 1), dict(stride=2)),
    "dilation": (8, 1, 1, (20, 20), (3, 3), dict(padding=6, dilation=6)),
    "dilation and stride": (8, 1, 1, (10, 16), (3, 3), dict(padding=2, dilation=2, stride=2)),
    "more padding than taps": (8, 1, 1, (4, 5), (3, 3), dict(padding=5)),
    "wide kernel": (4, 1, 1, (3, 40), (2, 19), dict(padding=(1, 9))),
    "multiplier": (5, 1, 3, (9, 10), (3, 3), dict(padding=1)),
    "fewer out": (6, 4, 1, (7, 9), (3, 2), dict(stride=2)),
    "groups of 8": (4, 8, 8, (6, 7), (3, 3), dict(padding=1)),
    "groups of 16 and 4": (3, 16, 4, (6, 12), (3, 3), dict(padding=1, stride=2)),
    "groups of 3": (4, 3, 5, (8, 5), (3, 3), {}),
    "1-D": (6, 1, 1, (50,), (5,), dict(padding=2)),
    "1-D, long kernel": (6, 1, 1, (70,), (31,), dict(padding=15, stride=2)),
}
FORMATS = {"first": torch.contiguous_format, "last": torch.channels_last}


def operands(case, images=3):
    groups, channels, out_channels, extent, kernel, options = CASES[case]
    x, w = torch.randn(images, groups * channels, *extent), torch.randn(groups * out_channels, channels, *kernel)
    return x, w / w[0].numel() ** 0.5, torch.randn(groups * out_channels), dict(options, groups=groups)


def convolution(x, transposed=False):
    return getattr(F, f"conv{'_transpose' * transposed}{x.dim() - 2}d")


def in_format(t, name):
    return t.contiguous(memory_format=FORMATS[name]) if t.dim() == 4 else t


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_convolution_and_gradients(case, order, dtype):
    x, w, b, options = operands(case)
    if x.dim() == 3 and order == "last":
        return  # there is one memory format only

    shapes = convolution(x)(x, w, b, **options).shape, x.shape, w.shape

    def function(x, w, b):
        for shape in shapes:  # the blocks that results will get
            torch.full(shape, math.nan, dtype=x.dtype, device=x.device)
        out = convolution(x)(in_format(x, order), w, b, **options)
        if x.dim() == 4:
            assert out.is_contiguous(memory_format=FORMATS[order])
        return out

    assert_close_to_float64(function, x, w, b, dtype=dtype, gradients=True)


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize("case", ["5x5 stride 2", "multiplier", "groups of 16 and 4", "1-D, long kernel"])
def test_transposed(case, order):
    x, w, _, options = operands(case)
    image, bias = torch.randn(2, w.size(0), *x.shape[2:]), torch.randn(x.size(1))
    if options.get("stride", 1) == 2:
        options["output_padding"] = 1
    assert_close_to_float64(
        lambda x, w, b: convolution(x, transposed=True)(in_format(x, order), w, b, **options),
        image, w, bias, gradients=True,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_views(dtype):
    """Operands that start and step anywhere: offsets that allow no wide load, and copies where a view is not dense."""
    x, w, b, options = operands("3x3")
    expected = F.conv2d(x.to(dtype).double(), w.to(dtype).double(), b.to(dtype).double(), **options)
    limit = {torch.float32: 2e-6, torch.float16: 1.5e-3}[dtype]
    for name, image in layouts(x.to(dtype)):
        storage = torch.zeros(x.numel() + 1, dtype=dtype, device="aule")
        views = [image.to("aule"), storage[1:].view(x.shape), storage[1:].view(3, 9, 11, 24).permute(0, 3, 1, 2)]
        for view in views:
            view.copy_(image)
            for _, weight in layouts(w.to(dtype)):
                out = F.conv2d(view, weight.to("aule"), b.to("aule", dtype), **options)
                assert relative_error(out, expected) <= limit, (name, view.stride(), weight.stride())


def test_no_elements_and_broken_sizes():
    w = torch.randn(6, 1, 3, 3, device="aule", requires_grad=True)
    empty = F.conv2d(torch.randn(0, 6, 7, 7, device="aule"), w, padding=1, groups=6)
    assert empty.shape == (0, 6, 7, 7)
    empty.sum().backward()
    assert torch.equal(w.grad.cpu(), torch.zeros(6, 1, 3, 3))
    with pytest.raises(RuntimeError):
        F.conv2d(torch.randn(1, 6, 2, 2, device="aule"), w, groups=6)


def test_more_than_65535_workgroups():
    """Of 64 invocations, 8 results each: the grid has several rows."""
    images, width = 3, 11_300_000
    x, w = torch.randn(images, 2, width), torch.randn(2, 1, 3)
    out = F.conv1d(x.to("aule"), w.to("aule"), padding=1, groups=2)
    for part in (slice(0, 1000), slice(width // 2, width // 2 + 1000), slice(width - 1000, width)):
        wide = x[:, :, max(part.start - 1, 0) : part.stop + 1].double()
        expected = F.conv1d(wide, w.double(), padding=1, groups=2)
        lost = part.start > 0
        assert relative_error(out[:, :, part], expected[:, :, lost : lost + 1000]) <= 1e-6


@pytest.mark.parametrize("order", FORMATS)
def test_no_copies(order):
    """One launch a pass, and one that turns the weight where channels are last."""
    x, w, b, options = operands("3x3")
    x, w, b = in_format(x.to("aule"), order), w.to("aule"), b.to("aule")
    assert launches(lambda: F.conv2d(x, w, b, **options)) == (2 if order == "last" else 1)


def test_infinite_and_nan_values_stay_in_their_windows():
    x = torch.zeros(1, 8, 5, 40)
    x[0, 3, 2, 17], x[0, 5, 0, 0] = float("inf"), float("nan")
    w = torch.ones(8, 1, 3, 3)
    for order in FORMATS:
        out = F.conv2d(in_format(x.to("aule"), order), w.to("aule"), padding=1, groups=8)
        torch.testing.assert_close(out.cpu(), F.conv2d(x, w, padding=1, groups=8), equal_nan=True)


def test_kernels_of_gpus():
    check_program("gpu_grouped_conv", **without("cpu_kernels"))
