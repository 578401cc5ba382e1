"""max_unpool1d, max_unpool2d and max_unpool3d against the CPU. Kernel: max_unpool."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, assert_close, layouts, like_strided, run_program

pytestmark = pytest.mark.validated

unpool2d, unpool3d = torch.ops.aten.max_unpool2d, torch.ops.aten.max_unpool3d
POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
UNPOOL = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}
SPATIAL = {1: (13,), 2: (9, 11), 3: (5, 6, 4)}


def distinct(planes, count, size):
    """[planes, count] places below `size`, none twice in a plane, so that one answer is right."""
    return torch.rand(planes, size).argsort(1)[:, :count].contiguous()


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])  # 1: windows overlap, and repeat an index with equal elements
def test_undoes_max_pool(dims, stride, dtype):
    x = torch.randn(2, 3, *SPATIAL[dims]).to(dtype)
    for values in (x, x[0]):
        pooled, indices = POOL[dims](values, 2, stride, return_indices=True)
        expected = UNPOOL[dims](pooled, indices, 2, stride, output_size=SPATIAL[dims])
        actual = UNPOOL[dims](pooled.to("aule"), indices.to("aule"), 2, stride, output_size=SPATIAL[dims])
        assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients(dims):
    pooled, indices = POOL[dims](torch.randn(2, 3, *SPATIAL[dims]), 2, return_indices=True)
    results = []
    for device, dtype in (("cpu", torch.float64), ("aule", torch.float32)):
        leaf = pooled.to(device, dtype).requires_grad_()
        out = UNPOOL[dims](leaf, indices.to(device), 2, output_size=SPATIAL[dims])
        (grad,) = torch.autograd.grad((out * out).sum(), leaf)
        results.append((out, grad))
    for expected, actual in zip(*results):
        assert_close(actual, expected.float())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_integers_as_on_cuda(dtype):
    x, places = torch.randint(1, 100, (2, 3, 4, 5)), distinct(6, 20, 63).view(2, 3, 4, 5)
    expected = unpool2d(x.double(), places, [7, 9]).to(dtype)
    assert torch.equal(unpool2d(x.to("aule", dtype), places.to("aule"), [7, 9]).cpu(), expected)


def test_strides_and_offsets():
    x, places = torch.randn(2, 3, 4, 5), distinct(6, 20, 63).view(2, 3, 4, 5)
    for _, view in layouts(x):
        shape = view.shape
        indices = distinct(shape[:-2].numel(), shape[-2:].numel(), 63).view(shape)
        for index in (indices, indices.mT.contiguous().mT):
            actual = unpool2d(like_strided(view), like_strided(index), [7, 9])
            assert actual.is_contiguous()  # as torch.cuda's; the CPU keeps channels-last
            assert torch.equal(actual.cpu(), unpool2d(view.contiguous(), index.contiguous(), [7, 9]))
    row = torch.randn(2, 3, 1, 5).expand(2, 3, 4, 5)
    assert torch.equal(unpool2d(like_strided(row), places.to("aule"), [7, 9]).cpu(), unpool2d(row, places, [7, 9]))


def test_out():
    x, places = torch.randn(2, 3, 4, 5), distinct(6, 20, 63).view(2, 3, 4, 5)
    on_device = x.to("aule"), places.to("aule")
    expected = unpool2d(x, places, [7, 9])
    for out in (torch.empty(0), torch.full((2, 3, 7, 9), 5.0), torch.full((2, 3, 9, 7), 5.0).mT):
        out = like_strided(out)
        assert unpool2d.out(*on_device, [7, 9], out=out) is out
        assert torch.equal(out.cpu(), expected)
    volume, deep = x[:, :, None], places[:, :, None]
    expected = unpool3d(volume, deep, [3, 3, 7], [1] * 3, [0] * 3)
    out = torch.full((2, 3, 3, 3, 7), 5.0, device="aule")
    unpool3d.out(volume.to("aule"), deep.to("aule"), [3, 3, 7], [1] * 3, [0] * 3, out=out)
    assert torch.equal(out.cpu(), expected)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        unpool2d.out(*on_device, [7, 9], out=torch.empty(0, dtype=torch.float64, device="aule"))
    with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor"):
        unpool2d.out(*on_device, [4, 5], out=on_device[0])


@pytest.mark.parametrize("shape, size", [((0, 3, 4, 5), [7, 9]), ((2, 3, 4, 5), [0, 9]), ((0, 4, 5), [7, 0])])
def test_no_elements(shape, size):
    x, places = torch.randn(shape), torch.zeros(shape, dtype=torch.int64)
    actual = unpool2d(x.to("aule"), places.to("aule"), size)
    torch.aule.synchronize()
    assert torch.equal(actual.cpu(), unpool2d(x, places, size))


@pytest.mark.parametrize("planes, count, size", [(70_000, 3, 4), (1, 70_000 * 64 + 5, 2200 * 2200)])
def test_many_planes_and_groups(planes, count, size):
    """More than 65,535 rows, and more workgroups than an axis of a grid has."""
    x = torch.randn(planes, 1, count)
    places = distinct(planes, count, size).view(planes, 1, count)
    side = [2, size // 2]
    assert torch.equal(unpool2d(x.to("aule"), places.to("aule"), side).cpu(), unpool2d(x, places, side))


def test_an_element_of_a_repeated_index_stays():
    x, places = torch.randn(1, 8, 64), torch.randint(3, (1, 8, 64))
    out = unpool2d(x.to("aule"), places.to("aule"), [1, 4]).cpu().flatten()
    assert out[3] == 0 and all(value in x[places == place] for place, value in enumerate(out[:3]))


X, I = torch.randn(2, 3, 4, 4), torch.zeros(2, 3, 4, 4, dtype=torch.int64)
Y, J = torch.randn(2, 3, 2, 4, 4), torch.zeros(2, 3, 2, 4, 4, dtype=torch.int64)
REFUSED = {
    "indices": (unpool2d, X, I.int(), [8, 8]),
    "output_size": (unpool2d, X, I, [8, 8, 8]),
    "rank": (unpool2d, X[0, 0], I[0, 0], [8, 8]),
    "shape": (unpool2d, X, I[0], [8, 8]),
    "negative": (unpool2d, X, I, [8, -8]),
    "3d indices": (unpool3d, Y, J.int(), [8, 8, 8], [1, 1, 1], [0, 0, 0]),
    "3d rank": (unpool3d, Y[0, 0], J[0, 0], [8, 8, 8], [1, 1, 1], [0, 0, 0]),
    "3d output_size": (unpool3d, Y, J, [8, 8], [1, 1, 1], [0, 0, 0]),
    "3d stride count": (unpool3d, Y, J, [8, 8, 8], [1, 1], [0, 0, 0]),
    "3d padding": (unpool3d, Y, J, [8, 8, 8], [1, 1, 1], [0, 0]),
    "3d shape": (unpool3d, Y, J[0], [8, 8, 8], [1, 1, 1], [0, 0, 0]),
    "3d stride": (unpool3d, Y, J, [8, 8, 8], [0, 1, 1], [0, 0, 0]),
    "3d negative": (unpool3d, Y, J, [8, 8, -8], [1, 1, 1], [0, 0, 0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_on_the_cpu(name):
    op, x, indices, *sizes = REFUSED[name]
    with pytest.raises(RuntimeError) as expected:
        op(x, indices, *sizes)
    with pytest.raises(RuntimeError) as actual:
        op(x.to("aule"), indices.to("aule"), *sizes)
    if "negative" in name and "overflow" in str(expected.value):  # torch 2.11 allocates before it looks
        assert "output_size must contain non-negative spatial dimensions" in str(actual.value)
    else:
        assert str(actual.value) == str(expected.value)


def test_other_refusals():
    for op, x, i, *sizes in ((unpool2d, X, I, [8, 8]), (unpool3d, Y, J, [8, 8, 8], [1] * 3, [0] * 3)):
        with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions.*dimension 1 being empty"):
            op(x[:, :0].to("aule"), i[:, :0].to("aule"), *sizes)
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            op(x.bool().to("aule"), i.to("aule"), *sizes)
        torch.use_deterministic_algorithms(True)
        try:
            with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
                op(x.to("aule"), i.to("aule"), *sizes)
        finally:
            torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("index", [-1, 64])
def test_an_index_out_of_range_raises(index):
    """In a process of its own, as the error stays on the device until it is raised."""
    result = run_program("unpool_index", str(index))
    assert f"max_unpool2d: index {index} is out of bounds for dimension with size 64" in result.stdout, result
