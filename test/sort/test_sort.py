"""Sorting, selection, searching and sets against the CPU."""

import pytest
import torch

from helpers import ALL_DTYPES, assert_close, assert_close_to_cpu, layouts, random_tensor

pytestmark = pytest.mark.validated

NAN = float("nan")


@pytest.mark.vector_widths
@pytest.mark.parametrize("dtype", [*ALL_DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(dtype, descending):
    for shape, dim in [((7, 100), 1), ((45, 6), 0), ((3, 5, 4), 1), ((1,), 0)]:
        x = random_tensor(*shape, dtype=dtype)
        if dtype.is_floating_point:
            x = x.round()  # ties
        assert_close_to_cpu(lambda t: torch.sort(t, dim=dim, descending=descending, stable=True), x, wide=False)


def test_sort_special_values():
    x = torch.tensor([3.0, NAN, -0.0, 0.0, float("inf"), -float("inf"), NAN, 1.0, -2.0, 0.0, -0.0])
    for dtype in [torch.float32, torch.float16, torch.bfloat16, torch.float64]:
        for descending in [False, True]:
            assert_close_to_cpu(lambda t: torch.sort(t, descending=descending, stable=True), x.to(dtype), wide=False)
    i = torch.tensor([2**63 - 1, -(2**63), 0, -1, 1])
    assert_close_to_cpu(lambda t: torch.sort(t), i)


@pytest.mark.parametrize("n", [31, 32, 33, 257, 5000, 70_001])
def test_sort_lengths(n):
    assert_close_to_cpu(
        lambda t: torch.sort(t, stable=True), torch.randint(0, max(2, n // 3), (2, n), dtype=torch.int32)
    )


def test_sort_of_more_rows_than_have_keys_at_once(device):
    at_once = 2**22 if torch.aule.get_device_properties().kind == "cpu" else 2**26
    rows = at_once // 31 + 5
    x = torch.randint(-128, 128, (rows, 31), dtype=torch.int8)
    values, order = x.to("aule").sort(dim=1, stable=True)
    expected, expected_order = x.sort(dim=1, stable=True)
    assert torch.equal(values.cpu(), expected)
    assert torch.equal(order.cpu(), expected_order)


def test_sort_layouts_and_out(device):
    for _, x in layouts(torch.randn(3, 4, 40)):
        assert_close_to_cpu(lambda t: torch.sort(t, 2), x)
        assert_close_to_cpu(lambda t: torch.argsort(t, dim=0, stable=True), x)
    x = torch.randn(6, 5)
    values, indices = torch.empty(0, device=device), torch.empty(0, dtype=torch.long, device=device)
    torch.sort(x.to(device), 0, out=(values, indices))
    assert_close((values, indices), tuple(torch.sort(x, 0)))
    assert_close_to_cpu(lambda t: torch.msort(t), x)
    for empty in [torch.empty(0), torch.empty(3, 0), torch.empty(0, 3)]:
        assert_close_to_cpu(lambda t: torch.sort(t, 0), empty)
    assert_close_to_cpu(lambda t: torch.sort(t, 0), torch.tensor(1.5))


def test_topk():
    x = torch.randperm(600).reshape(3, 200).float()
    for k in [1, 5, 200]:
        for largest in [True, False]:
            assert_close_to_cpu(lambda t: torch.topk(t, k, 1, largest), x)
    assert_close_to_cpu(lambda t: torch.topk(t, 2, 0), x)
    assert_close_to_cpu(lambda t: torch.topk(t, 0, 0), x)
    assert_close_to_cpu(lambda t: torch.topk(t, 3), torch.tensor([1.0, NAN, 2.0, 5.0]))
    assert_close_to_cpu(lambda t: torch.topk(t, 1), torch.tensor(3))
    with pytest.raises(RuntimeError):
        torch.topk(x.to("aule"), 201, 1)


def test_selection():
    x = torch.stack([torch.randperm(31) for _ in range(4)]).float()
    for dim in (0, 1):
        y = x if dim else x.t().contiguous()
        assert_close_to_cpu(lambda t: torch.kthvalue(t, 3, dim, True), y)
        assert_close_to_cpu(lambda t: torch.median(t, dim), y)
        assert_close_to_cpu(lambda t: torch.nanmedian(t, dim), y)
    y = x.clone()
    y[1, 4] = y[2] = NAN
    assert_close_to_cpu(lambda t: torch.median(t, 1), y)
    assert_close_to_cpu(lambda t: torch.nanmedian(t, 1).values, y)
    assert_close_to_cpu(lambda t: torch.median(t), y)
    assert_close_to_cpu(lambda t: torch.nanmedian(t), y)
    assert_close_to_cpu(lambda t: torch.median(t), torch.arange(10))
    assert_close_to_cpu(lambda t: torch.mode(t, 1).values, torch.randint(0, 5, (6, 40)))


def test_search():
    bounds = torch.sort(torch.randn(30)).values
    x = torch.randn(5, 7)
    x[0, 0] = NAN
    x[1, :3] = bounds[4]
    for right in [False, True]:
        assert_close_to_cpu(lambda b, t: torch.searchsorted(b, t, right=right), bounds, x)
        assert_close_to_cpu(lambda b, t: torch.bucketize(t, b, right=right, out_int32=True), bounds, x)
    rows = torch.sort(torch.randint(0, 20, (5, 9))).values
    assert_close_to_cpu(lambda b, t: torch.searchsorted(b, t, side="right"), rows, torch.randint(-1, 22, (5, 4)))
    assert_close_to_cpu(lambda b: torch.searchsorted(b, 0.25), bounds)
    shuffled = torch.randn(30)
    sorter = torch.argsort(shuffled)
    assert_close_to_cpu(lambda b, t, s: torch.searchsorted(b, t, sorter=s), shuffled, x, sorter)
    assert_close_to_cpu(lambda b, t: torch.searchsorted(b, t), torch.empty(0), x)


@pytest.mark.parametrize("wrong", [-1, 5, 2**40, -(2**63)])
def test_a_sorter_out_of_range(device, wrong):
    bounds, x = torch.randn(5, device=device), torch.randn(3, device=device)
    torch.searchsorted(bounds, x, sorter=torch.full((5,), wrong, device=device))
    with pytest.raises(IndexError, match=f"sorter: index {wrong} is out of bounds for dimension with size 5"):
        torch.aule.synchronize()


def test_sets():
    x = torch.randint(0, 12, (6, 9))
    assert_close_to_cpu(lambda t: torch.unique(t, return_inverse=True, return_counts=True), x)
    assert_close_to_cpu(lambda t: torch.unique(t), (x - 4).float())
    assert_close_to_cpu(lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True), x // 4)
    assert_close_to_cpu(lambda t: torch.unique(t, return_counts=True), torch.empty(0))
    tests = torch.tensor([3, 5, 11, 40])
    for invert in [False, True]:
        assert_close_to_cpu(lambda t, s: torch.isin(t, s, invert=invert), x, tests)
        assert_close_to_cpu(lambda t: torch.isin(t, 3, invert=invert), x)
        assert_close_to_cpu(lambda t, s: torch.isin(t, s, invert=invert), x.float(), torch.empty(0))
    assert_close_to_cpu(lambda s: torch.isin(5, s), tests)


@pytest.mark.vector_widths
def test_nonzero(device):
    for x in [
        torch.randn(4, 5, 6).relu(),
        torch.rand(300) < 0.3,
        torch.tensor(2),
        torch.zeros(3, 3),
        torch.empty(0, 4),
    ]:
        assert_close_to_cpu(lambda t: torch.nonzero(t), x)
        assert_close_to_cpu(lambda t: torch.nonzero(t, as_tuple=True), x)
    x = torch.randn(6, 7).relu()
    assert_close_to_cpu(lambda t: torch.nonzero(t), x.t())
    assert_close_to_cpu(lambda t: torch.masked_select(t, t > 0.5), x)
    assert_close_to_cpu(lambda t: t[t > 0.5], x)
    assert_close(
        torch.nonzero_static(x.to(device), size=50, fill_value=-7), torch.nonzero_static(x, size=50, fill_value=-7)
    )
    assert_close(torch.nonzero_static(x.to(device), size=3), torch.nonzero_static(x, size=3))


def test_histc():
    x = torch.randn(1000)
    assert_close_to_cpu(lambda t: torch.histc(t, 10), x)
    assert_close_to_cpu(lambda t: torch.histc(t, 7, -1, 2), x)


def test_gradients(device):
    x = torch.randn(4, 9)
    for f in [lambda t: t.sort(1).values, lambda t: t.topk(3, 0).values, lambda t: t.median(1).values]:
        a, b = x.to(device).requires_grad_(), x.clone().requires_grad_()
        f(a).square().sum().backward()
        f(b).square().sum().backward()
        assert_close(a.grad, b.grad)
