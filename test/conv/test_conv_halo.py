"""Convolutions by tiles that hold the halo of their positions, against float64: halo_conv, halo_conv_weight.

tools/run_tests.py runs this where lavapipe takes its cooperative matrices for GPUs' kernels. Other kernels round sums
more often, so a device without these has nothing to check here.
"""

import pytest
import torch
import torch.nn.functional as F

from helpers import does_without, launches
from matrix_units import ON_CPU, has_matrices, matrix_dtypes

HALVES = pytest.param(  # float32 as scaled float16
    torch.float32,
    marks=pytest.mark.skipif(
        not has_matrices(torch.float16, "usable"), reason="the device has no cooperative matrices of float16"
    ),
)
pytestmark = [
    pytest.mark.without_shuffles,
    pytest.mark.skipif(
        ON_CPU and not does_without("subgroup_shuffle"), reason="a processor has other kernels, if it has shuffles"
    ),
]

CASES = [  # images, channels, out channels, spatial, kernel, options; overrides
    (1, 32, 32, (7, 7), (3, 3), dict(padding=1), {}),
    (3, 40, 33, (13, 9), (3, 3), dict(padding=1), {}),
    (2, 35, 17, (13, 9), (3, 3), {}, {}),
    (2, 24, 40, (9, 5), (5, 5), dict(padding=2), {}),
    (2, 16, 8, (6, 9), (2, 3), dict(padding=(3, 2), dilation=(1, 2)), {}),
    (2, 72, 16, (7, 9), (3, 3), dict(padding=1), dict(halo_tile=(32, 32, 16, 16, 32, 0, 64), halo_weight_tile=())),
    (1, 16, 40, (3, 150), (3, 3), dict(padding=1), {}),
    (1, 16, 24, (5, 21), (3, 3), dict(padding=1),
     dict(halo_tile=(64, 32, 32, 16, 16, 2), halo_weight_tile=(32, 16, 16, 8, 32, 5, 2, 3, 12))),
    (2, 40, 24, (9, 13), (3, 3), dict(padding=1), dict(halo_tile=(64, 64, 32, 32, 32, 0, 0, 0, 3))),  # packed: NVIDIA's
    (1, 35, 33, (13, 9), (3, 3), dict(padding=1), dict(halo_tile=(64, 64, 32, 32, 32, 0, 0, 0, 3))),
    (3, 136, 64, (7, 7), (3, 3), dict(padding=1), dict(halo_tile=(64, 64, 32, 32, 32, 0, 64, 0, 3))),
    (1, 16, 24, (5, 6), (1, 3), dict(padding=(0, 1)), dict(halo_tile=(16, 16, 16, 8, 16, 0, 0, 2, 3))),  # unrolled
    (2, 16, 24, (43,), (3,), dict(padding=1), {}),
    (2, 16, 16, (5, 6, 7), (3, 3, 3), dict(padding=1), {}),
    (2, 24, 16, (6, 4, 7), (3, 3, 3), dict(padding=(1, 0, 1), stride=(2, 1, 1), dilation=(2, 1, 1)), {}),
    (2, 40, 24, (9, 13), (3, 3), dict(padding=1, stride=2), {}),
    (1, 48, 17, (10, 12), (3, 3), dict(stride=2), dict(halo_tile=(32, 32, 16, 16, 32, 0, 64), halo_weight_tile=())),
    (1, 24, 17, (13, 17), (4, 5), dict(padding=(1, 3), stride=(3, 2)), {}),
    (1, 40, 16, (8, 8), (2, 2), dict(stride=2), {}),
    (2, 16, 24, (4, 9, 7), (3, 3, 3), dict(padding=1, stride=(1, 2, 2)), {}),
]  # fmt: skip


def bound(exact, sizes, terms, dtype, largest):
    """One rounding to `dtype` of a float32 sum of that many terms, in any order, added again in parts.

    float32 operands are rounded to float16: by 2^-11 of their size, and by 2^-39 of the largest below its normal
    numbers. `largest`: the product of both operands'.
    """
    own, f32 = torch.finfo(dtype), torch.finfo(torch.float32)
    most = exact.abs() * own.eps / 2 + sizes * (terms + 32) * f32.eps / 2 + own.smallest_normal * own.eps / 2
    if dtype == torch.float32:
        most = most + sizes * (2 * 2.0**-11 + 2.0**-22) + terms * largest * 2.0**-38
    return most


@pytest.fixture
def tf32():
    """What PyTorch's default is, and what the tests' is not."""
    torch.backends.fp32_precision = "tf32"
    yield
    torch.backends.fp32_precision = "none"


@pytest.mark.parametrize("dtype", [*matrix_dtypes("usable"), HALVES])
@pytest.mark.parametrize("last", [False, True], ids=["", "last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_passes(case, last, dtype, override, tf32):
    images, channels, out_channels, spatial, kernel, options, settings = case
    override(halo_conv="always", scaled_halves="always", **settings)
    function, dims = getattr(F, f"conv{len(spatial)}d"), len(spatial)
    shapes = (images, channels, *spatial), (out_channels, channels, *kernel), (out_channels,)
    x, w, b = (torch.randn(*shape, dtype=dtype) for shape in shapes)
    wide = [t.double().requires_grad_() for t in (x, w, b)]
    exact = function(*wide, **options)
    seed = torch.randn(exact.shape, dtype=dtype)
    expected = [exact, *torch.autograd.grad(exact, wide[:2], seed.double())]
    sized = [t.double().abs().requires_grad_() for t in (x, w, b)]  # the same of the terms' sizes
    size = function(*sized, **options)
    sizes = [size, *torch.autograd.grad(size, sized[:2], seed.double().abs())]
    taps = w[0, 0].numel()
    terms = [channels * taps + 1, out_channels * taps, images * exact[0, 0].numel()]

    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(dims + 2 if last else 0, torch.contiguous_format)
    leaves = [t.to("aule", memory_format=form) if t.dim() > 1 else t.to("aule") for t in (x, w, b)]
    leaves = [t.requires_grad_() for t in leaves]
    out = function(*leaves, **options)
    assert out.is_contiguous(memory_format=form)
    results = [out, *torch.autograd.grad(out, leaves[:2], seed.to("aule", memory_format=form))]
    peaks = [t.abs().max().double() for t in (x, w, seed)]
    products = [peaks[0] * peaks[1], peaks[2] * peaks[1], peaks[0] * peaks[2]]
    for name, got, e, s, n, largest in zip(("result", "input", "weight"), results, expected, sizes, terms, products):
        excess = ((got.double().cpu() - e).abs() / bound(e, s, n, dtype, largest)).max().item()
        assert excess <= 1, (name, excess)


@pytest.mark.parametrize("dtype", [HALVES])
@pytest.mark.parametrize("powers", [(0, 0), (90, -80), (-100, 100), (110, -126), (-126, 60)], ids=str)
def test_scales(dtype, powers, override, tf32):
    """Powers of two change nothing else: from near the least normal number to near the largest."""
    override(halo_conv="always", scaled_halves="always")
    x, w = torch.randn(2, 24, 9, 7, dtype=dtype), torch.randn(16, 24, 3, 3, dtype=dtype)
    x[0, 0, 0, 0], w[0, 0, 0, 0] = 4.0, 4.0  # at least this far above the scaled tensor's subnormal numbers
    plain = F.conv2d(x.to("aule"), w.to("aule"), padding=1).cpu()
    scaled = [t * 2.0**power for t, power in zip((x, w), powers)]
    result = F.conv2d(*(t.to("aule") for t in scaled), padding=1).cpu()
    exact = plain.double() * 2.0 ** sum(powers)
    tiny = torch.finfo(dtype).smallest_normal
    # Elements below the least normal number may be flushed to zero before they are scaled.
    lost = 24 * 9 * tiny * max(float(scaled[0].abs().max()), float(scaled[1].abs().max()))
    assert (result.double() - exact).abs().max() <= max(lost, 2 * tiny)


@pytest.mark.parametrize("dtype", [HALVES])
def test_special_numbers(dtype, override, tf32):
    override(halo_conv="always", scaled_halves="always")
    x, w = torch.randn(1, 16, 9, 9, dtype=dtype), torch.randn(16, 16, 3, 3, dtype=dtype).abs() + 0.1

    def result(image):
        return F.conv2d(image.to("aule"), w.to("aule"), padding=1).cpu()

    assert torch.equal(result(x * 0), torch.zeros(1, 16, 9, 9))
    for value in (float("inf"), float("nan")):
        special = x.clone()
        special[0, 3, 4, 4] = value
        got, near = result(special), torch.zeros(9, 9, dtype=torch.bool)
        near[3:6, 3:6] = True
        assert got[..., ~near].isfinite().all()
        assert (got[..., near].isnan() if value != value else got[..., near] == value).all()


def kernels(dtype):
    """Those of a convolution's three passes."""
    x = torch.randn(1, 32, 7, 7, dtype=dtype, device="aule").contiguous(memory_format=torch.channels_last)
    w = torch.randn(32, 32, 3, 3, dtype=dtype, device="aule")
    with torch.aule.profiler.profile() as p:
        leaves = [t.clone().requires_grad_() for t in (x, w)]
        out = F.conv2d(*leaves, padding=1)
        torch.autograd.grad(out, leaves, torch.ones_like(out))
        torch.aule.synchronize()
    return {name.split("(")[0] for name in (e.key for e in p.key_averages()) if name.startswith("halo_conv")}


@pytest.mark.parametrize("dtype", [*matrix_dtypes("usable"), HALVES])
def test_kernels_are_these(dtype, override, tf32):
    """One of these makes each pass; and none if they are forbidden."""
    override(halo_conv="always", scaled_halves="always")
    assert len(kernels(dtype)) == 2
    override(halo_conv="never")
    assert not kernels(dtype)
    if dtype == torch.float32:
        override(halo_conv="always", scaled_halves="never")
        assert not kernels(dtype)


@pytest.mark.parametrize("dtype", [HALVES])
def test_switches_of_float32(dtype, override):
    """PyTorch's own say whether float32 is multiplied as halves; its default does, and conftest.py does not."""
    override(halo_conv="always", scaled_halves="always")
    own = torch.backends.cudnn.allow_tf32
    try:
        for allowed in (True, False):
            torch.backends.cudnn.allow_tf32 = allowed
            assert bool(kernels(dtype)) == allowed
        for precision in ("tf32", "ieee"):
            torch.backends.fp32_precision = precision
            assert bool(kernels(dtype)) == (precision == "tf32")
    finally:
        torch.backends.fp32_precision = "none"
        torch.backends.cudnn.allow_tf32 = own


@pytest.mark.parametrize("dtype", [*matrix_dtypes("usable"), HALVES])
@pytest.mark.parametrize(("stride", "kernel", "halo"), [(1, 3, "always"), (2, 3, "never"), (2, 1, "never")], ids=str)
def test_gradients_share_what_they_read(stride, kernel, halo, dtype, override, tf32):
    """The gradient of the result is brought into order once for both, and they are what each is alone."""
    override(halo_conv=halo, scaled_halves="always")
    pad, places = kernel // 2, [(n + kernel // 2 * 2 - kernel) // stride + 1 for n in (9, 8)]
    shapes = (2, 16, *places), (2, 24, 9, 8), (16, 24, kernel, kernel)
    operands = [torch.randn(shape, dtype=dtype).to("aule") for shape in shapes]

    def gradients(of_input, of_weight):
        rest = None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, [of_input, of_weight, False]
        return torch.ops.aten.convolution_backward(*operands, *rest)[:2]

    both, alone = gradients(True, True), (gradients(True, False)[0], gradients(False, True)[1])
    assert all(torch.equal(one, other) for one, other in zip(both, alone))
    assert launches(lambda: gradients(True, True)) < sum(
        launches(lambda masks=masks: gradients(*masks)) for masks in ((True, False), (False, True))
    )
