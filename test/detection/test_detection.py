"""torchvision's nms, roi_align and deform_conv2d against references in float64, as operators of its schemas.

Kernels: overlap_masks, suppress, roi_align, roi_align_backward, deform_columns, deform_columns_backward.
"""

import math

import pytest
import torch

from helpers import assert_close

try:
    import torchvision  # noqa: F401  its schemas
except ImportError:
    LIBRARY = torch.library.Library("torchvision", "DEF")
    ROI = "float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    SAMPLES = "int sampling_ratio, bool aligned) -> Tensor"
    STEPS = "".join(f"SymInt {name}_{d}, " for name in ("stride", "pad", "dilation") for d in "hw")
    OPERANDS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    GROUPS = "SymInt groups, SymInt offset_groups, bool use_mask)"
    LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    LIBRARY.define(f"roi_align(Tensor input, Tensor rois, {ROI}{SAMPLES}")
    LIBRARY.define(
        f"_roi_align_backward(Tensor grad, Tensor rois, {ROI}SymInt batch_size, SymInt channels, SymInt height, "
        f"SymInt width, {SAMPLES}"
    )
    SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor"
    for name, index, ratio in (
        ("roi_pool", "argmax", ""),
        ("ps_roi_pool", "channel_mapping", ""),
        ("ps_roi_align", "channel_mapping", "int sampling_ratio, "),
    ):
        places = (ROI + ratio).removesuffix(", ")
        LIBRARY.define(f"{name}(Tensor input, Tensor rois, {places}) -> (Tensor, Tensor)")
        LIBRARY.define(f"_{name}_backward(Tensor grad, Tensor rois, Tensor {index}, {places}, {SIZES}")
    LIBRARY.define(f"deform_conv2d({OPERANDS}{STEPS}{GROUPS} -> Tensor")
    LIBRARY.define(
        f"_deform_conv2d_backward(Tensor grad, {OPERANDS}{STEPS}{GROUPS} -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

OPS = torch.ops.torchvision
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
pytestmark = pytest.mark.validated


@pytest.fixture(params=TOLERANCE, ids=str)
def dtype(request):
    return request.param


def rounded(dtype, *shape, scale=1.0):
    """Random numbers of `dtype` on the device, and the same in float64 on the CPU, with a gradient."""
    x = (torch.randn(shape, dtype=torch.float64) * scale).to(dtype)
    return x.to("aule"), x.double().requires_grad_()


def compare(actual, expected, dtype):
    assert actual.dtype == dtype and actual.shape == expected.shape
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    assert_close(actual.double(), expected.double(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)


# Non-maximum suppression


def random_boxes(n, spread=100.0):
    corner = torch.rand(n, 2, dtype=torch.float64) * spread
    return torch.cat([corner, corner + torch.rand(n, 2, dtype=torch.float64) * 40], 1)


def nms_reference(boxes, scores, threshold):
    """Greedy, over float64 numbers."""
    order = scores.sort(descending=True, stable=True)[1]
    boxes = boxes[order]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    alive = torch.ones(len(boxes), dtype=torch.bool)
    for i in range(len(boxes)):
        if not alive[i]:
            continue
        low, high = boxes[:, :2].maximum(boxes[i, :2]), boxes[:, 2:].minimum(boxes[i, 2:])
        both = (high - low).clamp(min=0).prod(1)
        alive &= ~((both / (area + area[i] - both) > threshold) & (torch.arange(len(boxes)) > i))
    return order[alive]


@pytest.mark.parametrize(("n", "threshold"), [(1, 0.5), (31, 0.5), (33, 0.0), (200, 0.3), (1003, 0.7), (70, 1.0)])
def test_boxes_that_are_kept(dtype, n, threshold):
    boxes = random_boxes(n, spread=30 * math.sqrt(n)).to(dtype)
    scores = torch.rand(n).to(dtype)
    kept = OPS.nms(boxes.to("aule"), scores.to("aule"), threshold)
    assert kept.dtype == torch.int64
    assert kept.tolist() == nms_reference(boxes.double(), scores.double(), threshold).tolist()


def test_boxes_of_equal_scores_keep_their_order(device):
    boxes = random_boxes(300)
    scores = torch.randint(3, (300,)).float()
    kept = OPS.nms(boxes.float().to(device), scores.to(device), 0.2)
    assert kept.tolist() == nms_reference(boxes.float().double(), scores, 0.2).tolist()


def test_boxes_without_area_and_the_same_boxes(device):
    boxes = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 3, 3], [1, 1, 3, 3], [2, 2, 1, 1], [5, 5, 5, 9]])
    scores = torch.arange(6).flip(0).float()
    boxes = boxes.float().to(device)
    assert OPS.nms(boxes, scores.to(device), 0.5).tolist() == [0, 1, 2, 4, 5]
    assert OPS.nms(boxes[:0], scores[:0].to(device), 0.5).shape == (0,)


def test_boxes_that_are_views(device):
    storage = torch.randn(4, 90, device=device)
    boxes, scores = storage.abs().cumsum(0).t(), torch.rand(180, device=device)[::2]
    expected = nms_reference(boxes.cpu().double(), scores.cpu().double(), 0.4)
    assert OPS.nms(boxes, scores, 0.4).tolist() == expected.tolist()


def test_boxes_past_one_block_of_masks(device):
    """A grid of boxes that touch no other, each twice: one of each pair is kept."""
    side = 130
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    boxes = torch.stack([x, y, x + 1, y + 1], -1).reshape(-1, 4).float().repeat(2, 1)
    scores = torch.rand(len(boxes))
    kept = OPS.nms(boxes.to(device), scores.to(device), 0.5).cpu()
    first = torch.stack([scores[: side * side], scores[side * side :]])
    expected = first.argmax(0) * side * side + torch.arange(side * side)
    assert sorted(kept.tolist()) == expected.sort()[0].tolist()
    assert scores[kept].diff().le(0).all()


def test_errors_of_nms(device):
    boxes, scores = torch.zeros(3, 4, device=device), torch.zeros(3, device=device)
    with pytest.raises(RuntimeError, match=r"nms: expected boxes of shape \[n, 4\]"):
        OPS.nms(boxes[:, :3], scores, 0.5)
    with pytest.raises(RuntimeError, match=r"nms: expected scores of shape \[3\]"):
        OPS.nms(boxes, scores[:2], 0.5)
    with pytest.raises(RuntimeError, match="one dtype"):
        OPS.nms(boxes, scores.half(), 0.5)


# Regions of interest


def bilinear(plane, y, x):
    """plane [..., height, width] at places y and x of one shape; 0 for cells outside."""
    height, width = plane.shape[-2:]
    top, left = y.detach().floor().long(), x.detach().floor().long()
    result = 0
    for a in (0, 1):
        for b in (0, 1):
            i, j = top + a, left + b
            inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            weight = (1 - (y - i).abs()) * (1 - (x - j).abs()) * inside
            result = result + weight * plane[..., i.clamp(0, height - 1), j.clamp(0, width - 1)]
    return result


def roi_samples(roi, scale, size, ratio, aligned):
    """Places of the samples of a region along y and along x, and how many a bin has along each."""
    shift = 0.5 if aligned else 0.0
    corners = roi[1:] * scale - shift
    sides = [corners[3] - corners[1], corners[2] - corners[0]]
    if not aligned:
        sides = [s.clamp(min=1) for s in sides]
    bins = [side / n for side, n in zip(sides, size)]
    counts = [ratio if ratio > 0 else max(0, math.ceil(b)) for b in bins]
    places = []
    for n, count, b, start in zip(size, counts, bins, (corners[1], corners[0])):
        step = torch.arange(n).repeat_interleave(count) + (torch.arange(count).repeat(n).double() + 0.5) / max(count, 1)
        places.append(start + step * b)
    return places, counts


def roi_reference(x, rois, scale, size, ratio, aligned):
    """He et al. 2017, section 3, and the samples of torchvision's documentation."""
    height, width = x.shape[-2:]
    results = []
    for roi in rois:
        places, counts = roi_samples(roi, scale, size, ratio, aligned)
        y, x_ = torch.meshgrid(*places, indexing="ij")
        inside = (y >= -1) & (y <= height) & (x_ >= -1) & (x_ <= width)
        v = bilinear(x[int(roi[0])], y.clamp(0, height - 1), x_.clamp(0, width - 1)) * inside
        v = v.reshape(x.shape[1], size[0], counts[0], size[1], counts[1])
        results.append(v.sum((2, 4)) / max(counts[0] * counts[1], 1))
    return torch.stack(results)


def random_rois(n, images, height, width):
    """Inside, across the border, tiny ones, and one with its corners exchanged. Multiples of 1 / 8 are exact."""
    low = torch.rand(n, 2, dtype=torch.float64) * torch.tensor([width, height]) - 2
    high = low + torch.rand(n, 2, dtype=torch.float64) * torch.tensor([width, height]) * 0.8
    rois = torch.cat([torch.randint(images, (n, 1)).double(), low, high], 1)
    rois[0, 3:] = rois[0, 1:3] + 0.125
    rois[-1, 1:] = rois[-1, [3, 4, 1, 2]]
    return (rois * 8).round() / 8


def steady_rois(n, images, height, width, scale, size, ratio, aligned):
    """Random regions whose samples stay on their side of the image's limits when a place is rounded.

    A sample counts in [-1, size] and is zero beyond: at a limit one rounding of float32 decides. The places have at
    most 10 roundings of numbers below 64, each of 2^-18 at most.
    """
    while True:
        rois, steady = random_rois(n, images, height, width), True
        for roi in rois:
            places, _ = roi_samples(roi, scale, size, ratio, aligned)
            for place, limit in zip(places, (height, width)):
                steady &= not ((place + 1).abs() < 1e-4).any() and not ((place - limit).abs() < 1e-4).any()
        if steady:
            return rois


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("size", "ratio"), [((3, 2), 2), ((7, 7), 0), ((1, 5), 3), ((2, 2), -1)])
def test_regions(dtype, size, ratio, aligned):
    images, channels, height, width = 2, 3, 13, 17
    x, exact = rounded(dtype, images, channels, height, width)
    rois = steady_rois(9, images, height, width, 0.5, size, ratio, aligned)
    expected = roi_reference(exact, rois, 0.5, size, ratio, aligned)
    mine = rois.to(dtype).to("aule")
    compare(OPS.roi_align(x, mine, 0.5, *size, ratio, aligned), expected, dtype)
    grad, exact_grad = rounded(dtype, *expected.shape)
    sizes = (images, channels, height, width)
    actual = OPS._roi_align_backward(grad, mine, 0.5, *size, *sizes, ratio, aligned)
    compare(actual, torch.autograd.grad(expected, exact, exact_grad.detach())[0], dtype)


def test_regions_in_order(device):
    """The deterministic form sums as the atomic one does, twice the same bits."""
    grad = torch.randn(40, 2, 4, 4, device=device)
    rois = random_rois(40, 2, 9, 9).float().to(device)

    def run():
        return OPS._roi_align_backward(grad, rois, 1.0, 4, 4, 2, 2, 9, 9, 2, True)

    free = run()
    torch.use_deterministic_algorithms(True)
    try:
        ordered = [run(), run()]
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(*ordered)
    assert_close(free, ordered[0], rtol=1e-5, atol=1e-5)


def test_regions_far_larger_than_the_image(device):
    x = torch.randn(1, 1, 6, 5, device=device)
    rois = torch.tensor([[0.0, -3000, -2000, 2500, 1800], [0.0, -1e30, 0, 1e30, 4], [0.0, 0, 0, float("nan"), 4]])
    out = OPS.roi_align(x, rois.to(device), 1.0, 2, 3, 0, True).cpu()
    expected = roi_reference(x.cpu().double(), rois[:1].double(), 1.0, (2, 3), 0, True)
    assert_close(out[:1].double(), expected, rtol=1e-5, atol=1e-5)
    assert out.shape == (3, 1, 2, 3)  # and the others ended


def test_regions_of_views_and_of_nothing(device):
    x = torch.randn(9, 8, 3, 2, device=device).permute(3, 2, 1, 0)
    rois = random_rois(4, 2, 8, 9).float().to(device).t().contiguous().t()
    expected = roi_reference(x.cpu().double(), rois.cpu().double(), 1.0, (2, 2), 2, False)
    assert_close(OPS.roi_align(x, rois, 1.0, 2, 2, 2, False).double(), expected, rtol=2e-5, atol=2e-5)
    assert OPS.roi_align(x, rois[:0], 1.0, 2, 2, 2, False).shape == (0, 3, 2, 2)
    nothing = OPS._roi_align_backward(torch.empty(0, 3, 2, 2, device=device), rois[:0], 1.0, 2, 2, 2, 3, 8, 9, 2, False)
    assert nothing.shape == (2, 3, 8, 9) and not nothing.any()


def test_a_region_of_an_image_that_is_not_there(device):
    x = torch.randn(2, 1, 4, 4, device=device)
    OPS.roi_align(x, torch.tensor([[2.0, 0, 0, 3, 3]], device=device), 1.0, 2, 2, 2, False)
    with pytest.raises(IndexError, match="roi_align"):
        torch.aule.synchronize()


def test_many_regions(device):
    """Past 65,535 workgroups."""
    x = torch.randn(1, 1, 3, 3, device=device)
    n = 65536 * 64 // 4 + 5
    rois = torch.tensor([[0.0, 0, 0, 2, 2]], device=device).repeat(n, 1)
    out = OPS.roi_align(x, rois, 1.0, 2, 2, 1, True)
    assert torch.equal(out[-1], out[0]) and torch.equal(out.amax(0), out.amin(0))


# Deformable convolution


def deform_reference(x, weight, offset, mask, bias, stride, pad, dilation, groups):
    n, _, _, _ = x.shape
    o, _, kh, kw = weight.shape
    oh, ow = offset.shape[-2:]
    taps = kh * kw
    offset_groups = offset.shape[1] // (2 * taps)
    offset = offset.view(n, offset_groups, taps, 2, oh, ow)
    base_y = (
        torch.arange(oh).view(1, -1, 1) * stride[0] - pad[0] + (torch.arange(taps) // kw).view(-1, 1, 1) * dilation[0]
    )
    base_x = (
        torch.arange(ow).view(1, 1, -1) * stride[1] - pad[1] + (torch.arange(taps) % kw).view(-1, 1, 1) * dilation[1]
    )
    each = x.shape[1] // offset_groups
    images = []
    for i in range(n):
        parts = []
        for g in range(offset_groups):
            y, x_ = base_y + offset[i, g, :, 0], base_x + offset[i, g, :, 1]
            v = bilinear(x[i, g * each : (g + 1) * each], y, x_)  # [channels, taps, oh, ow]
            parts.append(v if mask is None else v * mask[i].view(offset_groups, taps, oh, ow)[g])
        images.append(torch.cat(parts))
    columns = torch.stack(images).view(n, groups, -1, oh * ow)
    out = torch.einsum("gok,ngkp->ngop", weight.view(groups, o // groups, -1), columns)
    return out.reshape(n, o, oh, ow) + bias.view(1, -1, 1, 1)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("channels", "outputs", "groups", "offset_groups", "kernel", "stride", "pad", "dilation"),
    [
        (3, 5, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
        (4, 6, 2, 2, (3, 2), (2, 1), (0, 2), (1, 2)),
        (6, 3, 3, 1, (1, 1), (1, 2), (0, 0), (1, 1)),
    ],
)
def test_deformed(dtype, channels, outputs, groups, offset_groups, kernel, stride, pad, dilation, masked):
    images, size = 2, (7, 9)
    out = [(s + 2 * p - d * (k - 1) - 1) // t + 1 for s, p, d, k, t in zip(size, pad, dilation, kernel, stride)]
    taps = kernel[0] * kernel[1]
    x = rounded(dtype, images, channels, *size)
    weight = rounded(dtype, outputs, channels // groups, *kernel)
    # Places at quarters have one slope in every dtype, and are not cells themselves.
    offset = ((torch.randn(images, 2 * offset_groups * taps, *out, dtype=torch.float64) * 2).round() + 0.25).to(dtype)
    offset = offset.to("aule"), offset.double().requires_grad_()
    mask = rounded(dtype, images, offset_groups * taps, *out)
    bias = rounded(dtype, outputs)
    own, exact = zip(x, weight, offset, mask, bias)
    expected = deform_reference(*exact[:3], exact[3] if masked else None, exact[4], stride, pad, dilation, groups)
    if not masked:
        own = (*own[:3], torch.zeros(images, 1, device="aule", dtype=dtype), own[4])
    steps = (*stride, *pad, *dilation, groups, offset_groups, masked)
    compare(OPS.deform_conv2d(*own, *steps), expected, dtype)
    grad, exact_grad = rounded(dtype, *expected.shape)
    wanted = [e for k, e in enumerate(exact) if masked or k != 3]
    grads = list(OPS._deform_conv2d_backward(grad, *own, *steps))
    if not masked:
        assert grads[3].shape == own[3].shape and not grads.pop(3).any()
    for actual, e in zip(grads, torch.autograd.grad(expected, wanted, exact_grad.detach()), strict=True):
        compare(actual, e, dtype)


def test_deformed_by_nothing_is_a_convolution(device):
    x, weight, bias = torch.randn(3, 8, 10, 12), torch.randn(6, 4, 3, 3), torch.randn(6)
    offset = torch.zeros(3, 18, 10, 12)
    expected = torch.nn.functional.conv2d(x.double(), weight.double(), bias.double(), padding=1, groups=2)
    mask = torch.empty(3, 0)
    own = [t.to(device) for t in (x.to(memory_format=torch.channels_last), weight, offset, mask, bias)]
    actual = OPS.deform_conv2d(*own, 1, 1, 1, 1, 1, 1, 2, 1, False)
    assert_close(actual.double(), expected, rtol=1e-4, atol=1e-4)


def test_no_images(device):
    own = [torch.randn(*s, device=device) for s in ((0, 2, 4, 4), (3, 2, 3, 3), (0, 18, 4, 4), (0, 9, 4, 4), (3,))]
    steps = (1, 1, 1, 1, 1, 1, 1, 1, True)
    out = OPS.deform_conv2d(*own, *steps)
    assert out.shape == (0, 3, 4, 4)
    grads = OPS._deform_conv2d_backward(out, *own, *steps)
    assert [g.shape for g in grads] == [t.shape for t in own] and not any(g.any() for g in grads)


def test_errors_of_deform_conv2d(device):
    own = [torch.randn(*s, device=device) for s in ((1, 2, 4, 4), (3, 2, 3, 3), (1, 18, 4, 4), (1, 9, 4, 4), (3,))]
    with pytest.raises(RuntimeError, match=r"expected offsets of shape \[1, 18, 2, 2\], got \[1, 18, 4, 4\]"):
        OPS.deform_conv2d(*own, 1, 1, 0, 0, 1, 1, 1, 1, True)
    with pytest.raises(RuntimeError, match="do not divide"):
        OPS.deform_conv2d(*own, 1, 1, 1, 1, 1, 1, 2, 1, True)


# Mixed precision


def test_autocast_computes_in_float32(device):
    boxes, scores = random_boxes(50).float().to(device), torch.rand(50, device=device)
    x, rois = torch.randn(2, 3, 8, 8, device=device), random_rois(5, 2, 8, 8).float().to(device)
    with torch.autocast("aule", dtype=torch.bfloat16):
        out = OPS.roi_align(x.half(), rois, 1.0, 2, 2, 2, True)
        kept = OPS.nms(boxes, scores.half(), 0.5)
    assert out.dtype == torch.float16
    assert torch.equal(out, OPS.roi_align(x.half().float(), rois, 1.0, 2, 2, 2, True).half())
    assert torch.equal(kept, OPS.nms(boxes, scores.half().float(), 0.5))
