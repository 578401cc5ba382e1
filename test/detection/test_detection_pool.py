"""torchvision's roi_pool, ps_roi_align and ps_roi_pool against references in float64, as operators of its schemas.

Kernels: roi_pool, roi_pool_backward; of positions also roi_align, roi_align_backward.
"""

import itertools
import math

import pytest
import torch
from test_detection import (  # `dtype` is a fixture
    OPS,
    compare,
    dtype,  # noqa: F401
    random_rois,
    roi_reference,
    rounded,
)

from helpers import assert_close

pytestmark = pytest.mark.validated

FAR = 2.0**29  # corners beyond are taken for corners there
SCALES = [0.5, 1.0]  # inside of the image for the most part, and across its border


def nearest(v):
    """Halves away from 0, as the operators round corners. NaN is 0."""
    v = 0.0 if math.isnan(v) else min(max(v, -FAR), FAR)
    return int(math.copysign(math.floor(abs(v) + 0.5), v))


def bins_of(low, high, n, more, limit, wide):
    """First and last cell, this excluded, of the n bins of a side, by the division and the products of dtype `wide`."""
    side = max(nearest(high) - nearest(low) + more, 1)
    step = torch.tensor(side, dtype=wide) / torch.tensor(n, dtype=wide)
    edges = torch.arange(n + 1, dtype=wide) * step
    first, last = edges[:-1].floor().long() + nearest(low), edges[1:].ceil().long() + nearest(low)
    return list(zip(first.clamp(0, limit).tolist(), last.clamp(0, limit).tolist()))


def pool_reference(x, rois, scale, size, wide=torch.float32, positions=False, past=0):
    """Maxima and their cells: Girshick 2015, section 2.1. Positions: means, Dai et al. 2016, equation 1.

    Over the image without its `past` last rows and columns. Returns values and cells [regions, channels, *size].
    """
    wide = torch.float64 if wide == torch.float64 else torch.float32
    height, width = x.shape[-2:]
    values, cells = [], []
    for roi in rois.double():
        left, top, right, bottom = (roi[1:] * scale).tolist()
        more = 0 if positions else 1
        ys = bins_of(top, bottom, size[0], more, height - past, wide)
        xs = bins_of(left, right, size[1], more, width - past, wide)
        for place, (y, z) in enumerate(itertools.product(ys, xs)):
            plane = x[int(roi[0])]
            bin_ = (plane[place :: size[0] * size[1]] if positions else plane)[:, slice(*y), slice(*z)].flatten(1)
            if not bin_.shape[1]:
                at = torch.full((len(bin_),), -1)
                value = torch.zeros(len(bin_), dtype=x.dtype)
            elif positions:
                value, at = bin_.mean(1), torch.zeros(len(bin_))
            else:
                at = torch.tensor([row.index(max(row)) for row in bin_.tolist()])  # the first
                value = bin_.gather(1, at[:, None])[:, 0]
                at = (y[0] + at // (z[1] - z[0])) * width + z[0] + at % (z[1] - z[0])
            values.append(value)
            cells.append(at)
    shape = (len(rois), *size, -1)
    return torch.stack(values).view(shape).permute(0, 3, 1, 2), torch.stack(cells).view(shape).permute(0, 3, 1, 2)


def mapping_of(regions, channels, size):
    return torch.arange(channels, dtype=torch.int32).view(1, -1, *size).expand(regions, -1, -1, -1)


def align_reference(x, rois, scale, size, ratio):
    """Samples of roi_align, each bin from its channels."""
    every = roi_reference(x, rois, scale, size, ratio, True)
    return torch.einsum("kcijij->kcij", every.view(len(rois), -1, *size, *size))


def rois_off_the_edges(scale, size, ratio, *image):
    """Random regions none of whose samples is where rounding decides whether it is in the image."""
    while True:
        rois = random_rois(9, 2, *image)
        near = torch.tensor(math.inf, dtype=torch.float64)
        for low, high, n, end in ((2, 4, size[0], image[0]), (1, 3, size[1], image[1])):
            for start, side in zip(rois[:, low] * scale - 0.5, (rois[:, high] - rois[:, low]) * scale):
                count = ratio if ratio > 0 else max(1, math.ceil(side / n))
                places = start + (torch.arange(n * count) + 0.5) * side / (n * count)
                near = torch.cat([near.view(1), (places + 1).abs(), (places - end).abs()]).min()
        if near > 1e-3:
            return rois


# The operators by one signature: x, rois, scale, size -> values, index; and grad, rois, index, scale, size, sizes.
POOLS = {
    "roi_pool": (OPS.roi_pool, OPS._roi_pool_backward),
    "ps_roi_pool": (OPS.ps_roi_pool, OPS._ps_roi_pool_backward),
    "ps_roi_align": (
        lambda x, rois, scale, *size: OPS.ps_roi_align(x, rois, scale, *size, 2),
        lambda *a: OPS._ps_roi_align_backward(*a[:6], 2, *a[6:]),
    ),
}


@pytest.fixture(params=POOLS)
def name(request):
    return request.param


@pytest.fixture
def in_order():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [(3, 2), (7, 7), (1, 5)])
def test_maxima(dtype, size, scale):  # noqa: F811
    sizes = (2, 3, 13, 17)
    x, exact = rounded(dtype, *sizes)
    rois = random_rois(9, 2, 13, 17)
    mine = rois.to(dtype).to("aule")
    expected, cells = pool_reference(exact, rois, scale, size, dtype)
    actual, index = OPS.roi_pool(x, mine, scale, *size)
    assert index.dtype == torch.int32 and torch.equal(index.cpu().long(), cells)
    assert actual.dtype == dtype and torch.equal(actual.cpu().double(), expected)
    grad, exact_grad = rounded(dtype, *expected.shape)
    actual = OPS._roi_pool_backward(grad, mine, index, scale, *size, *sizes)
    compare(actual, torch.autograd.grad(expected, exact, exact_grad.detach())[0], dtype)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [(3, 2), (1, 1), (2, 7)])
def test_means_of_positions(dtype, size, scale):  # noqa: F811
    """The last row and column are in no mean, but in the gradients: as torchvision has it."""
    sizes = (2, 2 * size[0] * size[1], 13, 17)
    x, exact = rounded(dtype, *sizes)
    rois = random_rois(9, 2, 13, 17)
    mine = rois.to(dtype).to("aule")
    expected, _ = pool_reference(exact, rois, scale, size, dtype, positions=True, past=1)
    actual, index = OPS.ps_roi_pool(x, mine, scale, *size)
    compare(actual, expected, dtype)
    assert torch.equal(index.cpu(), mapping_of(9, sizes[1], size))
    grad, exact_grad = rounded(dtype, *expected.shape)
    actual = OPS._ps_roi_pool_backward(grad, mine, index, scale, *size, *sizes)
    whole, _ = pool_reference(exact, rois, scale, size, dtype, positions=True)
    compare(actual, torch.autograd.grad(whole, exact, exact_grad.detach())[0], dtype)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("size", "ratio"), [((3, 2), 2), ((2, 3), 0), ((1, 1), 3), ((2, 2), -1)])
def test_samples_of_positions(dtype, size, ratio, scale):  # noqa: F811
    sizes = (2, 2 * size[0] * size[1], 13, 17)
    x, exact = rounded(dtype, *sizes)
    rois = rois_off_the_edges(scale, size, ratio, 13, 17)
    mine = rois.to(dtype).to("aule")
    expected = align_reference(exact, rois, scale, size, ratio)
    grad, exact_grad = rounded(dtype, *expected.shape)
    exact_grad = torch.autograd.grad(expected, exact, exact_grad.detach())[0]
    samples = ((rois[:, 3:] - rois[:, 1:3]) * scale / torch.tensor(size).flip(0)).ceil()
    if ratio <= 0:  # a mean of no samples
        expected = expected.detach().masked_fill((samples == 0).any(1).view(-1, 1, 1, 1), math.nan)
    actual, index = OPS.ps_roi_align(x, mine, scale, *size, ratio)
    compare(actual, expected, dtype)
    assert torch.equal(index.cpu(), mapping_of(9, sizes[1], size))
    actual = OPS._ps_roi_align_backward(grad, mine, index, scale, *size, ratio, *sizes)
    compare(actual, exact_grad, dtype)


def test_a_mean_of_no_samples_is_nan(device):
    x = torch.randn(1, 4, 5, 5, device=device)
    rois = torch.tensor([[0.0, 1, 1, 1, 3], [0, 1, 1, 3, 3]], device=device)
    out, index = OPS.ps_roi_align(x, rois, 1.0, 2, 2, 0)
    assert out[0].isnan().all() and out[1].isfinite().all()
    grad = OPS._ps_roi_align_backward(torch.ones_like(out[:1]), rois[:1], index[:1], 1.0, 2, 2, 0, 1, 4, 5, 5)
    assert not grad.any()


def test_the_first_of_equal_maxima(device):
    x = torch.randint(3, (2, 4, 11, 12)).float()
    rois = random_rois(20, 2, 11, 12)
    expected, cells = pool_reference(x.double(), rois, 1.0, (2, 3))
    actual, index = OPS.roi_pool(x.to(device), rois.float().to(device), 1.0, 2, 3)
    assert torch.equal(index.cpu().long(), cells) and torch.equal(actual.cpu().double(), expected)


def test_numbers_that_are_no_maxima(device):
    """NaN is passed over. Where nothing is above -FLT_MAX, that is the result, of no cell: as torchvision has it."""
    inf, nan, least = math.inf, math.nan, -torch.finfo(torch.float32).max
    x = torch.tensor([[nan, nan], [-inf, nan], [least, -inf], [nan, -2.0], [inf, nan]], device=device).view(1, 5, 1, 2)
    out, index = OPS.roi_pool(x, torch.tensor([[0.0, 0, 0, 1, 0]], device=device), 1.0, 1, 1)
    assert out.flatten().tolist() == [least, least, least, -2.0, inf]
    assert index.flatten().tolist() == [-1, -1, -1, 1, 0]
    grad = OPS._roi_pool_backward(
        torch.ones_like(out), torch.zeros(1, 5, device=device), index, 1.0, 1, 1, 1, 5, 1, 2
    ).flatten()
    assert grad.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize("bins", [7, 13, 14])
@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
def test_bins_end_where_rounding_has_them(device, wide, bins):
    """The numbers of an image rise, so that maxima show where bins end: some a cell late, as float32 rounds."""
    sides = torch.arange(1, 200)
    x = torch.arange(250, dtype=wide).view(1, 1, 1, -1)
    rois = torch.zeros(len(sides), 5, dtype=wide)
    rois[:, 3] = sides - 1
    expected = torch.tensor([[last - 1 for _, last in bins_of(0, s - 1, bins, 1, 250, wide)] for s in sides.tolist()])
    _, index = OPS.roi_pool(x.to(device), rois.to(device), 1.0, 1, bins)
    assert torch.equal(index.cpu()[:, 0, 0].long(), expected)
    late = (expected[:, -1] != sides - 1).sum()
    assert late > 0 or wide == torch.float64


@pytest.mark.usefixtures("in_order")
def test_in_order(device, name):
    """The deterministic form sums as the atomic one does: the terms are multiples of 1 / 64, whose sums are exact.

    So many regions that a driver that ends loops gets them in parts.
    """
    forward, backward = POOLS[name]
    n, sizes = 5000, (2, 8, 9, 9)
    low = torch.randint(-2, 9, (n, 2))
    rois = torch.cat([torch.randint(2, (n, 1)), low, low + 2 ** torch.randint(1, 3, (n, 2))], 1).float().to(device)
    out, index = forward(torch.randn(sizes, device=device), rois, 1.0, 2, 2)
    grad = torch.randint(-4, 5, out.shape, device=device).float()
    ordered = backward(grad, rois, index, 1.0, 2, 2, *sizes)
    torch.use_deterministic_algorithms(False)
    assert ordered.any() and torch.equal(backward(grad, rois, index, 1.0, 2, 2, *sizes), ordered)


def test_corners_that_are_far_away_or_nan(device):
    x = torch.randn(1, 6, 6, 5)
    nan = math.nan
    rois = torch.tensor(
        [[0, -3000, -2000, 2500, 1800], [0, -1e30, 0, 1e30, 4], [0, 0, 0, nan, 4], [0, nan, 2, 3, nan], [0] + [nan] * 4]
    )
    expected, cells = pool_reference(x.double(), rois, 1.0, (2, 3))
    out, index = OPS.roi_pool(x.to(device), rois.to(device), 1.0, 2, 3)
    assert torch.equal(out.cpu().double(), expected) and torch.equal(index.cpu().long(), cells)
    expected, _ = pool_reference(x.double(), rois, 1.0, (2, 3), positions=True, past=1)
    compare(OPS.ps_roi_pool(x.to(device), rois.to(device), 1.0, 2, 3)[0], expected, torch.float32)
    rois = torch.cat([torch.tensor([[0.0, -40.25, -30.25, 35, 28]]), rois])
    out, index = OPS.ps_roi_align(x.to(device), rois.to(device), 1.0, 2, 3, 0)
    compare(out[:1], align_reference(x.double(), rois[:1].double(), 1.0, (2, 3), 0), torch.float32)
    OPS._ps_roi_align_backward(torch.ones_like(out), rois.to(device), index, 1.0, 2, 3, 0, *x.shape)
    torch.aule.synchronize()  # the others ended


def test_views(device, name):
    forward, backward = POOLS[name]
    x = torch.randn(9, 8, 4, 2, device=device).permute(3, 2, 1, 0)
    rois = random_rois(5, 2, 8, 9).float().to(device)
    expected = forward(x.contiguous(), rois, 1.0, 2, 2)
    flipped = rois.t().contiguous().t()
    actual = forward(x, flipped, 1.0, 2, 2)
    assert torch.equal(actual[0], expected[0]) and torch.equal(actual[1], expected[1])
    grad = torch.randn(2, 2, expected[0].shape[1], 5, device=device).permute(3, 2, 1, 0)
    index = torch.stack([expected[1]] * 2, -1)[..., 0]
    actual = backward(grad, flipped, index, 1.0, 2, 2, *x.shape)
    expected = backward(grad.contiguous(), rois, expected[1], 1.0, 2, 2, *x.shape)
    assert_close(actual, expected, rtol=1e-5, atol=1e-5)  # atomics


def test_nothing(device, name):
    """No regions, no channels, no images, images without cells."""
    forward, backward = POOLS[name]
    rois = torch.tensor([[0.0, 0, 0, 3, 3]], device=device)
    whole, without_images, without_rows = (2, 4, 8, 9), (0, 4, 8, 9), (2, 4, 0, 9)
    for shape, regions in ((whole, 0), ((2, 0, 8, 9), 1), (without_images, 1), (without_images, 0), (without_rows, 1)):
        out, index = forward(torch.randn(shape, device=device), rois[:regions], 1.0, 2, 2)
        channels = shape[1] if name == "roi_pool" else shape[1] // 4
        assert out.shape == index.shape == (regions, channels, 2, 2) and index.dtype == torch.int32
        assert not out.any()
        grad = backward(out, rois[:regions], index, 1.0, 2, 2, *shape)
        assert grad.shape == shape and not grad.any()


def test_a_region_of_an_image_that_is_not_there(device, name):
    forward, backward = POOLS[name]
    x = torch.randn(2, 4, 4, 4, device=device)
    for image in (2.0, -1.0):
        rois = torch.tensor([[image, 0, 0, 3, 3], [1, 0, 0, 3, 3]], device=device)
        forward(x, rois, 1.0, 2, 2)
        with pytest.raises(IndexError, match=name):
            torch.aule.synchronize()
    # The backward leaves the region out, after the forward has reported it.
    out, index = forward(x, rois[1:], 1.0, 2, 2)
    both = backward(torch.cat([out, out]), rois, torch.cat([index, index]), 1.0, 2, 2, *x.shape)
    assert_close(both, backward(out, rois[1:], index, 1.0, 2, 2, *x.shape), rtol=1e-5, atol=1e-5)


def test_a_cell_that_is_not_there(device):
    rois, grad = torch.zeros(1, 5, device=device), torch.ones(1, 1, 1, 2, device=device)
    for cell in (16, -2):
        index = torch.tensor([[[[cell, 3]]]], dtype=torch.int32, device=device)
        total = OPS._roi_pool_backward(grad, rois, index, 1.0, 1, 2, 1, 1, 4, 4).sum()
        with pytest.raises(IndexError, match="roi_pool_backward"):
            torch.aule.synchronize()
        assert total.item() == 1


def test_many_regions(device):
    """Past 65,535 workgroups."""
    x = torch.randn(1, 1, 3, 3, device=device)
    n = 65536 * 64 // 4 + 5
    rois = torch.tensor([[0.0, 0, 0, 2, 2]], device=device).repeat(n, 1)
    out, index = OPS.roi_pool(x, rois, 1.0, 2, 2)
    assert torch.equal(out[-1], out[0]) and torch.equal(out.amax(0), out.amin(0))
    grad = OPS._roi_pool_backward(torch.ones_like(out), rois, index, 1.0, 2, 2, *x.shape)
    assert grad.sum().item() == 4 * n and grad.max().item() >= n


def test_errors(device):
    x, rois = torch.randn(1, 6, 4, 4, device=device), torch.zeros(1, 5, device=device)
    with pytest.raises(RuntimeError, match="ps_roi_pool: expected channels for each of the 4 bins alike, got 6"):
        OPS.ps_roi_pool(x, rois, 1.0, 2, 2)
    with pytest.raises(RuntimeError, match=r"roi_pool: expected rois of shape \[regions, 5\]"):
        OPS.roi_pool(x, rois[:, :4], 1.0, 2, 2)
    with pytest.raises(RuntimeError, match="ps_roi_align: expected input and rois of one dtype"):
        OPS.ps_roi_align(x, rois.half(), 1.0, 2, 3, 2)
    with pytest.raises(RuntimeError, match="an output size above 0"):
        OPS.roi_pool(x, rois, 1.0, 0, 2)
    out, index = OPS.roi_pool(x, rois, 1.0, 2, 2)
    with pytest.raises(RuntimeError, match="roi_pool_backward: expected an index of dtype int32"):
        OPS._roi_pool_backward(out, rois, index.long(), 1.0, 2, 2, *x.shape)
    with pytest.raises(RuntimeError, match=r"expected a gradient of shape \[1, 5, 2, 2\]"):
        OPS._roi_pool_backward(out, rois, index, 1.0, 2, 2, 1, 5, 4, 4)


def test_autocast_computes_in_float32(device, name):
    forward, _ = POOLS[name]
    x, rois = torch.randn(2, 4, 8, 8, device=device).half(), random_rois(5, 2, 8, 8).float().to(device)
    with torch.autocast("aule", dtype=torch.bfloat16):
        out, index = forward(x, rois, 1.0, 2, 2)
    expected = forward(x.float(), rois, 1.0, 2, 2)
    assert out.dtype == torch.float16 and torch.equal(out, expected[0].half())
    assert index.dtype == torch.int32 and torch.equal(index, expected[1])
