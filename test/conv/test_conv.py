"""Convolution, pooling, interpolation and padding against the CPU.

Kernels: unfold_columns, conv_direct, implicit_gemm, max_pool, avg_pool, upsample, edge_pad.
"""

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, check_program, without

pytestmark = pytest.mark.validated

CONVS = [  # dims, channels in, out, spatial, kernel, options
    (1, 3, 5, (17,), (3,), {}),
    (1, 4, 6, (16,), (5,), dict(stride=2, padding=2, groups=2)),
    (2, 3, 7, (9, 11), (3, 3), dict(padding=1)),
    (2, 4, 4, (10, 7), (3, 2), dict(stride=(2, 1), padding=(1, 0), dilation=(1, 2))),
    (2, 6, 6, (8, 8), (3, 3), dict(padding=1, groups=6)),
    (2, 5, 8, (6, 5), (1, 1), {}),
    (3, 2, 3, (5, 4, 6), (2, 3, 2), dict(padding=1)),
    (3, 6, 6, (5, 4, 6), (3, 3, 2), dict(padding=1, groups=3)),
]
TRANSPOSED = [
    (1, 3, 4, (9,), (4,), dict(stride=2, padding=1)),
    (2, 4, 6, (5, 6), (3, 3), dict(stride=2, padding=1, output_padding=1)),
    (2, 4, 4, (5, 5), (2, 2), dict(groups=2)),
    (3, 2, 3, (3, 4, 3), (2, 2, 2), dict(stride=2)),
]


def with_gradients(function, tensors, grad=None):
    """Outputs and input gradients, on the CPU (float64) and on the device (float32)."""
    results = []
    for device, dtype in (("cpu", torch.float64), ("aule", torch.float32)):
        leaves = [t.to(device, dtype).requires_grad_() for t in tensors]
        out = function(*leaves)
        seed = torch.ones_like(out) if grad is None else grad.to(device, dtype)
        grads = torch.autograd.grad(out, leaves, seed)
        results.append([out, *grads])
    expected, actual = results
    for a, e in zip(actual, expected):
        assert_close(a, e.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.without_shuffles
@pytest.mark.parametrize("case", CONVS + TRANSPOSED, ids=str)
def test_convolution(case):
    dims, c_in, c_out, spatial, kernel, options = case
    transposed = case in TRANSPOSED
    groups = options.get("groups", 1)
    x = torch.randn(2, c_in, *spatial)
    w = torch.randn(*((c_in, c_out // groups) if transposed else (c_out, c_in // groups)), *kernel)
    b = torch.randn(c_out)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    out = function(x, w, b, **options)
    with_gradients(lambda x, w, b: function(x, w, b, **options), [x, w, b], torch.randn_like(out))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("channels, images", [(64, 7), (3, 9), (1700, 2)])  # 3 + 3 + 1 images; each apart; all at once
def test_depthwise_weights_from_parts_of_the_images(device, dtype, channels, images):
    x, w = torch.randn(images, channels, 6, 7), torch.randn(channels, 1, 5, 5)
    leaf = w.to(dtype).to(device).requires_grad_()
    y = F.conv2d(x.to(dtype).to(device), leaf, padding=2, stride=(1, 2), groups=channels)
    g = torch.randn_like(y)
    wide = w.double().requires_grad_()
    expected = F.conv2d(x.to(dtype).double(), wide, padding=2, stride=(1, 2), groups=channels)
    (wanted,) = torch.autograd.grad(expected, wide, g.cpu().double())
    (actual,) = torch.autograd.grad(y, leaf, g)
    limit = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    assert_close(actual.double(), wanted, rtol=limit, atol=limit * wanted.abs().max().item())


@pytest.mark.without_shuffles
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_convolution_half(dtype):
    x, w = torch.randn(2, 4, 8, 9), torch.randn(5, 4, 3, 3) / 6
    expected = F.conv2d(x.to(dtype).float(), w.to(dtype).float(), padding=1)
    actual = F.conv2d(x.to("aule", dtype), w.to("aule", dtype), padding=1)
    assert actual.dtype == dtype and actual.is_contiguous()
    assert_close(actual.float(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.without_shuffles
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("case", CONVS + TRANSPOSED, ids=str)
def test_16_bit_convolutions_round_at_most_twice(case, dtype, record_property):
    """Once after the sum, once after the bias. The CPU rounds transposed ones more often: both errors are recorded."""
    dims, c_in, c_out, spatial, kernel, options = case
    transposed = case in TRANSPOSED
    groups = options.get("groups", 1)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    x = torch.randn(2, c_in, *spatial, dtype=dtype)
    w = torch.randn(*((c_in, c_out // groups) if transposed else (c_out, c_in // groups)), *kernel, dtype=dtype)
    b = torch.randn(c_out, dtype=dtype)
    exact = function(x.double(), w.double(), b.double(), **options)
    sizes = function(x.double().abs(), w.double().abs(), b.double().abs(), **options)
    step = torch.finfo(dtype).eps / 2  # of a number's own size; the sum before the bias may be larger than the result

    def error(result):
        return ((result.cpu().double() - exact).abs() / sizes).max().item() / step

    ours = error(function(x.to("aule"), w.to("aule"), b.to("aule"), **options))
    cpus = error(function(x, w, b, **options))
    record_property("error_in_roundings", {"aule": ours, "cpu": cpus})
    assert ours <= 2.01, f"{ours:.2f} roundings from float64, the CPU {cpus:.2f}"
    if transposed and groups == 1:
        assert ours <= max(cpus, 1.01), f"{ours:.2f} roundings from float64, the CPU {cpus:.2f}"


@pytest.mark.without_shuffles
def test_convolution_layouts_and_empty():
    x, w = torch.randn(2, 6, 7, 3).permute(0, 3, 1, 2), torch.randn(4, 3, 3, 3).transpose(2, 3)
    assert_close(F.conv2d(x.to("aule"), w.to("aule")), F.conv2d(x, w), rtol=1e-4, atol=1e-4)
    empty = F.conv2d(torch.randn(0, 3, 7, 7, device="aule"), w.to("aule"))
    assert empty.shape == (0, 4, 5, 5)


@pytest.mark.without_shuffles
def test_convolution_in_tiles():
    """The kernel of devices with real shared memory: float32, and where there are matrix units float16, and pieces."""
    check_program("conv_in_tiles", TORCH_AULE_OVERRIDES="float32_pieces=float16", **without("subgroup_shuffle"))


@pytest.mark.without_shuffles
def test_convolution_refuses():
    with pytest.raises(RuntimeError):
        F.conv2d(torch.randn(1, 3, 8, 8, device="aule"), torch.randn(4, 2, 3, 3, device="aule"))
    with pytest.raises(RuntimeError):
        F.conv2d(torch.randn(1, 3, 8, 8, device="aule"), torch.randn(4, 3, 3, 3))


def test_unfold_and_fold():
    x = torch.randn(2, 3, 8, 9)
    out = F.unfold(x, (3, 2), dilation=2, padding=1, stride=2)
    assert_close(F.unfold(x.to("aule"), (3, 2), dilation=2, padding=1, stride=2), out)
    back = F.fold(out, (8, 9), (3, 2), dilation=2, padding=1, stride=2)
    assert_close(F.fold(out.to("aule"), (8, 9), (3, 2), dilation=2, padding=1, stride=2), back)


POOLS = {
    "max_pool1d": lambda x: F.max_pool1d(x, 3, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0), dilation=(1, 2)),
    "max_pool2d_ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "max_pool3d": lambda x: F.max_pool3d(x, 2, (1, 2, 1), 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 3, 2, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool2d_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool2d_divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2, 1, 1),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 4),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, (2, 2, 3)),
}
SPATIAL = {"1": (13,), "2": (9, 11), "3": (5, 6, 4)}


@pytest.mark.parametrize("name", POOLS)
def test_pooling(name):
    spatial = SPATIAL[name.split("pool")[1][0]]
    x = torch.randn(2, 3, *spatial)
    out = POOLS[name](x)
    with_gradients(POOLS[name], [x], torch.randn_like(out))
    with_gradients(POOLS[name], [x[0]])


def test_max_pool_indices_nan_and_channels_last():
    x = torch.randn(2, 3, 8, 8)
    x[0, 1, 3, 3] = float("nan")
    expected = F.max_pool2d(x, 2, return_indices=True)
    actual = F.max_pool2d(x.to("aule"), 2, return_indices=True)
    assert_close(actual, expected)
    last = x.to("aule").to(memory_format=torch.channels_last)
    pooled = F.max_pool2d(last, 2)
    assert pooled.is_contiguous(memory_format=torch.channels_last)
    assert_close(pooled, expected[0])


UPSAMPLES = [
    (1, dict(size=13, mode="nearest")),
    (1, dict(scale_factor=0.6, mode="nearest-exact")),
    (1, dict(size=9, mode="linear", align_corners=True)),
    (2, dict(scale_factor=2, mode="nearest")),
    (2, dict(size=(4, 15), mode="nearest-exact")),
    (2, dict(scale_factor=(1.7, 0.5), mode="bilinear", align_corners=False)),
    (2, dict(size=(13, 5), mode="bilinear", align_corners=True)),
    (2, dict(size=(12, 15), mode="bicubic", align_corners=False)),
    (2, dict(size=(4, 15), mode="bicubic", align_corners=True)),
    (3, dict(size=(7, 3, 9), mode="trilinear", align_corners=False)),
    (3, dict(scale_factor=2, mode="nearest")),
]


@pytest.mark.parametrize("dims, options", UPSAMPLES, ids=str)
def test_interpolate(dims, options):
    x = torch.randn(2, 3, *(7, 6, 5)[:dims])
    out = F.interpolate(x, **options)
    with_gradients(lambda x: F.interpolate(x, **options), [x], torch.randn_like(out))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("padding", [(2, 3), (0, 2, 3, 1), (1, 2, 0, 1, 2, 1), (-1, 2, 1, -2)], ids=str)
def test_edge_padding(mode, padding):
    dims = len(padding) // 2
    x = torch.randn(2, 3, *(6, 5, 4)[:dims])
    out = F.pad(x, padding, mode=mode)
    with_gradients(lambda x: F.pad(x, padding, mode=mode), [x], torch.randn_like(out))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128], ids=str)
def test_edge_padding_of_wide_and_complex_numbers(device, mode, dtype):
    for shape, padding in (((3, 9), (4, 2)), ((2, 3, 9), (1, 5)), ((2, 3, 5, 4), (2, 1, 0, 3))):
        x = torch.randn(shape, dtype=dtype)
        results = []
        for t in (x, x.to(device)):
            leaf = t.requires_grad_()
            out = F.pad(leaf, padding, mode=mode)
            seed = torch.linspace(-1, 1, out.numel(), dtype=dtype.to_real()).view(out.shape).to(t.device, dtype)
            results.append([out, *torch.autograd.grad(out, leaf, seed)])
        assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)
