"""cdist and pdist, and their gradients, against float64. Kernels: distances, distances_backward."""

import pytest
import torch

from helpers import FLOATS, assert_close, assert_close_to_float64, layouts, like_strided, relative_error

pytestmark = pytest.mark.validated

DTYPES = [*FLOATS, torch.float64]
POWERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")]
NO_PRODUCT = "donot_use_mm_for_euclid_dist"


def cdist(p, mode=NO_PRODUCT):
    return lambda x, y: torch.cdist(x, y, p, compute_mode=mode)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("features", [1, 5, 37])
def test_cdist(features, p, dtype):
    """Both gradients; sizes that fill no tile."""
    x, y = torch.randn(2, 19, features), torch.randn(2, 33, features)
    if p == 0.0:  # some equal numbers
        x, y = x.round(), y.round()
    # 16-bit distances are stored rounded, and the gradient divides by them.
    gradients = dtype.itemsize >= 4 or p != float("inf")
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4 if dtype == torch.float32 else None
    assert_close_to_float64(cdist(p), x, y, dtype=dtype, gradients=gradients, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradient_of_the_maximum_in_16_bits(dtype):
    """The difference that is the maximum is found among rounded ones: of integers, exactly."""
    x, y = torch.randint(-40, 40, (7, 5)).to(dtype), torch.randint(-40, 40, (9, 5)).to(dtype)
    results = []
    for device, wide in (("cpu", torch.float32), ("aule", dtype)):
        leaves = [t.to(device, wide).requires_grad_() for t in (x, y)]
        results.append(torch.autograd.grad(cdist(float("inf"))(*leaves).sum(), leaves))
    assert_close([g.float() for g in results[1]], list(results[0]))


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"])
def test_by_a_product(mode):
    x, y = torch.randn(3, 30, 6), torch.randn(3, 41, 6) + 1
    assert_close_to_float64(cdist(2.0, mode), x, y, gradients=True, tolerance=1e-4)
    op = torch.ops.aten._cdist_forward
    code = 1 if mode == "use_mm_for_euclid_dist" else 0
    assert relative_error(op(x.to("aule"), y.to("aule"), 2.0, code), torch.cdist(x.double(), y.double())) < 1e-4


def test_broadcast_batches():
    x, y = torch.randn(4, 1, 7, 3), torch.randn(5, 6, 3)
    for p in (1.0, 2.0):
        assert_close_to_float64(cdist(p), x, y, gradients=True, tolerance=1e-4)


@pytest.mark.parametrize("p", POWERS)
def test_equal_points(p):
    """The slope at distance 0 is 0."""
    x = torch.randn(6, 4)
    results = []
    for device in ("cpu", "aule"):
        leaves = [x.clone().to(device).requires_grad_() for _ in range(2)]
        out = cdist(p)(*leaves)
        results.append((out, *torch.autograd.grad(out.sum(), leaves)))
    for actual, expected in zip(results[1], results[0]):
        assert relative_error(actual, expected, 1.0) < 1e-4


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("points", [2, 3, 8, 21])
def test_pdist(points, p, dtype):
    x = torch.randn(points, 5)
    gradients = dtype.itemsize >= 4 or p != float("inf")
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4 if dtype == torch.float32 else None
    assert_close_to_float64(
        lambda t: torch.nn.functional.pdist(t, p), x, dtype=dtype, gradients=gradients, tolerance=tolerance
    )


def test_strides_and_offsets():
    x, y = torch.randn(2, 9, 7), torch.randn(2, 12, 7)
    expected = torch.cdist(x.double(), y.double(), 1.0)
    for _, view in layouts(x):
        for _, other in layouts(y):
            assert relative_error(torch.cdist(like_strided(view), like_strided(other), 1.0), expected) < 3e-5
    expected = torch.nn.functional.pdist(x[0].double(), 3.0)
    for _, view in layouts(x[0]):
        assert relative_error(torch.nn.functional.pdist(like_strided(view), 3.0), expected) < 3e-5
    row = x[:, :1].expand(x.shape)
    assert (
        relative_error(torch.cdist(like_strided(row), y.to("aule"), 1.0), torch.cdist(row.double(), y.double(), 1.0))
        < 3e-5
    )


@pytest.mark.parametrize("x_shape, y_shape", [
    ((0, 4, 3), (0, 5, 3)), ((2, 0, 3), (2, 5, 3)), ((2, 4, 3), (2, 0, 3)), ((2, 4, 0), (2, 5, 0)),
])  # fmt: skip
def test_no_elements(x_shape, y_shape):
    for p in (1.0, 2.0):
        results = []
        for device in ("cpu", "aule"):
            leaves = [torch.ones(shape, device=device).requires_grad_() for shape in (x_shape, y_shape)]
            out = cdist(p)(*leaves)
            results.append((out, *torch.autograd.grad(out.sum(), leaves)))
        assert_close(results[1], results[0])
    for shape in ((0, 3), (1, 3), (4, 0)):
        x = torch.ones(shape)
        leaf = x.to("aule").requires_grad_()
        out = torch.nn.functional.pdist(leaf)
        assert_close(out, torch.nn.functional.pdist(x))
        assert_close(torch.autograd.grad(out.sum(), leaf)[0], torch.zeros(shape))


def test_many_pairs():
    """More workgroups than an axis of a grid has."""
    x = torch.randn(2999, 1)
    assert_close(torch.nn.functional.pdist(x.to("aule"), 1.0), torch.nn.functional.pdist(x, 1.0))


def test_nan_and_infinity():
    x = torch.tensor([[0.0, torch.nan], [torch.inf, 1.0], [1.0, 2.0]])
    y = torch.tensor([[0.0, 1.0], [-torch.inf, 5.0]])
    for p in (1.0, 2.0, 3.0, float("inf")):
        assert_close(cdist(p)(x.to("aule"), y.to("aule")), cdist(p)(x, y))


def test_refused():
    x = torch.randn(4, 3, device="aule")
    for arguments, message in (
        ((x, torch.randn(4, 2, device="aule")), "same number of columns"),
        ((x, x, -1.0), "non-negative p"),
        ((x.int(), x.int()), "floating"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.cdist(*arguments)
    with pytest.raises(RuntimeError, match="non-negative p"):
        torch.nn.functional.pdist(x, -1.0)
