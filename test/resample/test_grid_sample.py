"""grid_sampler_2d, grid_sampler_3d and their gradients against float64. Kernels: grid_sample, grid_sample_backward."""

from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close, assert_close_to_float64, layouts, like_strided, relative_error

pytestmark = pytest.mark.validated

DTYPES = [*FLOATS, torch.float64]
PADDINGS = ["zeros", "border", "reflection"]
MODES = [(dims, mode) for dims in (2, 3) for mode in ("bilinear", "nearest", "bicubic")][:-1]  # no cubic in 3-D
SPATIAL = {2: ((7, 11), (5, 9)), 3: ((4, 5, 7), (3, 6, 5))}


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def problem(dims, images=2, channels=3, reach=1.7):
    """Images, and a grid that leaves them on each side by more than a mirror image."""
    size, out = SPATIAL[dims]
    return torch.randn(images, channels, *size), (torch.rand(images, *out, dims) * 2 - 1) * reach


def sampler(mode, padding, align):
    return lambda x, grid: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("dims, mode", MODES)
def test_against_float64(dims, mode, padding, align, dtype):
    """Values and both gradients; the grid's numbers reach four images away."""
    x, grid = problem(dims, reach=4.3)
    assert_close_to_float64(sampler(mode, padding, align), x, grid, dtype=dtype, gradients=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dims, mode", MODES)
def test_deterministic_gradient(dims, mode, dtype):
    """Summed in order: twice the same bits, where every position of the grid reads the same few cells."""
    x, grid = problem(dims, channels=2)
    with deterministic():
        assert_close_to_float64(sampler(mode, "border", False), x, grid * 0.05, dtype=dtype, gradients=True)
        leaf, at = x.to("aule", dtype).requires_grad_(), (grid * 0.05).to("aule", dtype)
        out = sampler(mode, "border", False)(leaf, at)
        weights = torch.randn(out.shape).to("aule", dtype)
        first, second = (torch.autograd.grad(out, leaf, weights, retain_graph=True)[0] for _ in range(2))
        assert torch.equal(first.cpu(), second.cpu())


@pytest.mark.parametrize("channels", [1, 5, 70])
@pytest.mark.parametrize("size", [1, 2])
def test_thin_images(channels, size):
    """One or two cells along an axis, where the mirror has no width; many channels for few positions."""
    for align in (True, False):
        for padding in PADDINGS:
            x, grid = torch.randn(3, channels, size, 6), torch.rand(3, 2, 1, 2) * 5 - 2.5
            assert_close_to_float64(sampler("bilinear", padding, align), x, grid, gradients=True, scale=1)
            assert_close_to_float64(sampler("bicubic", padding, align), x, grid, gradients=True, scale=1)


@pytest.mark.parametrize("dims", [2, 3])
def test_strides_and_offsets(dims):
    x, grid = problem(dims)
    expected = sampler("bilinear", "zeros", False)(x.double(), grid.double())
    for _, view in layouts(x):
        for _, at in layouts(grid):
            actual = sampler("bilinear", "zeros", False)(like_strided(view), like_strided(at))
            assert actual.is_contiguous() and relative_error(actual, expected) < 3e-5
    row = x[:, :, :1].expand(x.shape)
    expected = sampler("bilinear", "zeros", False)(row.double(), grid.double())
    assert relative_error(sampler("bilinear", "zeros", False)(like_strided(row), grid.to("aule")), expected) < 3e-5


def test_strided_gradients():
    x, grid = problem(2)
    results = []
    for device, dtype in (("cpu", torch.float64), ("aule", torch.float32)):
        leaves = [t.to(device, dtype).requires_grad_() for t in (x.mT.contiguous().mT, grid)]
        out = sampler("bilinear", "reflection", True)(*leaves)
        weights = torch.linspace(-1, 1, out.numel()).to(device, dtype).view(out.mT.shape).mT
        results.append(torch.autograd.grad(out, leaves, weights))
    for expected, actual in zip(*results):
        assert relative_error(actual, expected) < 3e-5


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("mask", [(True, False), (False, True), (True, True)])
def test_gradients_one_at_a_time(dims, mask):
    """By the operator's own mask."""
    op = getattr(torch.ops.aten, f"grid_sampler_{dims}d_backward")
    x, grid = problem(dims)
    grad = torch.randn(2, 3, *SPATIAL[dims][1])
    expected = op(grad.double(), x.double(), grid.double(), 0, 0, False, [True, True])
    actual = op(grad.to("aule"), x.to("aule"), grid.to("aule"), 0, 0, False, list(mask))
    for wanted, a, e in zip(mask, actual, expected):
        assert relative_error(a, e) < 3e-5 if wanted else a is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nearest_takes_the_even_of_two(dtype):
    """Positions of the grid half-way between two cells, exactly."""
    x = torch.randn(1, 2, 9, 17, dtype=dtype)
    columns = (torch.arange(16) + 0.5) / 8 - 1
    rows = (torch.arange(8) + 0.5) / 4 - 1
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)[None].to(dtype)
    cells = [torch.arange(n) + torch.arange(n) % 2 for n in (8, 16)]  # 0, 2, 2, 4, 4, ...
    actual = F.grid_sample(x.to("aule"), grid.to("aule"), mode="nearest", align_corners=True)
    assert torch.equal(actual.cpu(), x[:, :, cells[0]][:, :, :, cells[1]])


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_infinite_and_huge_positions(mode, padding):
    """Far outside: zeros, or a cell of the image; never a read out of bounds. A NaN is -1, as is documented."""
    x = torch.randn(1, 2, 4, 5)
    grid = torch.tensor([[[torch.inf, 0.1], [-torch.inf, 0.1], [3e38, -0.3], [-3e38, -0.3], [torch.nan, 0.2]]])[None, 0]
    grid = grid.view(1, 1, 5, 2)
    out = sampler(mode, padding, False)(x.to("aule"), grid.to("aule")).cpu()
    assert out.isfinite().all()
    expected = sampler(mode, padding, False)(x, torch.tensor([-1.0, 0.2]).view(1, 1, 1, 2))
    assert_close(out[..., 4:], expected)
    if padding == "zeros":
        assert (out[..., :4] == 0).all()
    if padding == "border":
        expected = sampler(mode, padding, False)(x, grid.clamp(-2, 2)[:, :, :4])
        assert_close(out[..., :4], expected)


@pytest.mark.parametrize("x_shape, grid_shape", [
    ((0, 3, 4, 5), (0, 6, 7, 2)), ((2, 3, 4, 5), (2, 0, 7, 2)), ((2, 0, 4, 5), (2, 6, 7, 2)),
    ((2, 3, 4, 5, 6), (2, 3, 0, 2, 3)),
])  # fmt: skip
def test_no_elements(x_shape, grid_shape):
    results = []
    for device in ("cpu", "aule"):
        leaves = [torch.ones(shape, device=device).requires_grad_() for shape in (x_shape, grid_shape)]
        out = sampler("bilinear", "zeros", False)(*leaves)
        results.append((out, *torch.autograd.grad(out.sum(), leaves)))
    assert_close(results[1], results[0])


def test_many_positions():
    """More workgroups than an axis of a grid has."""
    x, grid = torch.randn(1, 1, 6, 7), torch.rand(1, 2100, 2100, 2) * 2.4 - 1.2
    actual = sampler("bilinear", "zeros", True)(x.to("aule"), grid.to("aule"))
    assert_close(actual, sampler("bilinear", "zeros", True)(x, grid), atol=1e-4)


def test_refused_as_on_the_cpu():
    x, grid = problem(2)
    volume, deep = problem(3)
    for arguments in ((x, grid[:1]), (x, grid[..., :1]), (x, deep), (x[:, :, :0], grid), (x, grid.double())):
        with pytest.raises(RuntimeError) as expected:
            sampler("bilinear", "zeros", False)(*arguments)
        with pytest.raises(RuntimeError) as actual:
            sampler("bilinear", "zeros", False)(*(t.to("aule") for t in arguments))
        assert str(actual.value).split(" but ")[0] == str(expected.value).split(" but ")[0]
    with pytest.raises(RuntimeError, match="bicubic"):
        sampler("bicubic", "zeros", False)(volume.to("aule"), deep.to("aule"))
