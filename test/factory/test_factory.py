"""Sequences, concatenation, triangles and rearrangements against the CPU."""

import pytest
import torch

from helpers import FLOATS, INTS, assert_close, assert_close_to_cpu, layouts, like_strided

pytestmark = pytest.mark.validated

RAW = [
    torch.float32,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.float64,
    torch.complex64,
    torch.complex128,
]


def exact(fn, *tensors, **kwargs):
    return assert_close_to_cpu(fn, *tensors, rtol=0, atol=0, wide=False, **kwargs)


def same(fn, tolerance=0):
    """fn(device) on both; equal up to float rounding when `tolerance`."""
    got, want = fn("aule"), fn("cpu")
    if tolerance:
        assert_close(got, want)
    else:
        assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.float64])
def test_arange(dtype):
    same(lambda d: torch.arange(100, dtype=dtype, device=d))
    same(lambda d: torch.arange(3, 90, 7, dtype=dtype, device=d))
    same(lambda d: torch.arange(90, 3, -7, dtype=dtype, device=d))
    same(lambda d: torch.arange(0, dtype=dtype, device=d))
    if dtype.is_floating_point:
        same(lambda d: torch.arange(-1.0, 1.0, 0.013, dtype=dtype, device=d), tolerance=1)


def test_arange_precision_and_size():
    # 0.1 is rounded once, not a hundred thousand times: at most one unit in the last place off
    got = torch.arange(0, 10000, 0.1, device="aule").cpu()
    want = torch.arange(0, 10000, 0.1, dtype=torch.float64)
    assert ((got.double() - want).abs() <= want * 2**-23).all()
    same(lambda d: torch.arange(2**53 + 1, 2**53 + 5, device=d))
    same(lambda d: torch.arange(2**40, 2**40 + 2**33, 2**31, device=d))
    out = torch.empty(20, device="aule")[::2]
    torch.arange(10, out=out)
    assert_close(out, torch.arange(10.0), rtol=0, atol=0)
    same(lambda d: torch.range(1, 4, 0.5, device=d), tolerance=1)
    with pytest.raises(RuntimeError, match="step"):
        torch.arange(0, 5, -1, device="aule")


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64, torch.int64, torch.int32])
def test_linspace_logspace_eye(dtype):
    # The CPU counts in the dtype itself; the true values, rounded once, are the better reference for 16 bits.
    narrow = dtype in (torch.float16, torch.bfloat16)
    for start, end, steps in ((-3, 10, 0), (-3, 10, 1), (-3, 10, 2), (-3, 10, 17), (-3, 10, 100), (0, 1, 1001)):
        want = torch.linspace(start, end, steps, dtype=torch.float64 if narrow else dtype).to(dtype)
        got = torch.linspace(start, end, steps, dtype=dtype, device="aule")
        assert_close(got, want, **({} if dtype.is_floating_point else {"rtol": 0, "atol": 0}))
    if dtype in (torch.float32, torch.float16, torch.bfloat16):
        got, want = (
            torch.logspace(-1, 2, 23, dtype=dtype, device="aule"),
            torch.logspace(-1, 2, 23, dtype=torch.float64),
        )
        assert_close(got, want.to(dtype))
        assert_close(torch.logspace(0, 5, 6, base=2.0, device="aule"), torch.logspace(0, 5, 6, base=2.0))
    same(lambda d: torch.eye(5, 7, dtype=dtype, device=d))
    same(lambda d: torch.eye(4, dtype=dtype, device=d))


def test_filled():
    same(lambda d: torch.full((3, 2), 2.5, device=d))
    same(lambda d: torch.zeros(3, 0, dtype=torch.int8, device=d))
    same(lambda d: torch.ones(3, 2, dtype=torch.bool, device=d))
    same(lambda d: torch.full((2,), 1 + 2j, device=d))
    same(lambda d: torch.tensor([1, 2], device=d).new_full((3,), 7))


def test_triangle_indices():
    for rows, columns in ((5, 5), (3, 7), (7, 3), (1, 4), (0, 3)):
        for offset in range(-8, 9, 2):
            same(lambda d: torch.tril_indices(rows, columns, offset, device=d))
            same(lambda d: torch.triu_indices(rows, columns, offset, dtype=torch.int32, device=d))


@pytest.mark.parametrize("dtype", RAW)
def test_rearrangements_dtypes(dtype):
    x = torch.randn(4, 5, 6).mul(3).to(dtype)
    exact(lambda x: x.tril(-1), x)
    exact(lambda x: x.triu(1), x)
    exact(lambda x: x.flip(0, 2), x)
    exact(lambda x: x.roll((2, -3), (0, 2)), x)
    exact(lambda x: torch.cat([x, x[:2], x.flip(1)]), x)


def test_rearrangements_layouts():
    for _, x in layouts(torch.randn(3, 4, 5, 6)):
        for k in (-9, -2, 0, 3):
            exact(lambda x: x.tril(k), x)
            exact(lambda x: x.triu(k), x)
        exact(lambda x: x.clone().tril_(1), x)
        exact(lambda x: x.flip(1), x)
        exact(lambda x: x.flip(()), x)
        exact(lambda x: x.roll(7), x)
        exact(lambda x: x.roll((1, 1, -9), (0, 0, 3)), x)
        for dim in range(4):
            exact(lambda x: torch.cat([x, x], dim), x)
            exact(lambda x: torch.stack([x, x], dim), x)
    exact(lambda x: x.flip(0), torch.randn(0, 3))
    exact(lambda x: x.roll(1), torch.randn(0, 3))
    exact(lambda x: x.flip(()), torch.tensor(2.0))
    got = torch.empty(0, device="aule")
    torch.tril(torch.ones(3, 3, device="aule"), out=got)
    assert_close(got, torch.ones(3, 3).tril(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", RAW)
def test_channel_shuffle(device, dtype):
    x = torch.randn(2, 12, 5, 3).mul(3).to(dtype)
    for _, t in layouts(x):
        for groups in (1, 3, 4, 12):
            exact(lambda t: torch.channel_shuffle(t, groups), t)
    for t in (x, x.to(memory_format=torch.channels_last), x[:, :, ::2], x[:, 1:9], x[:0], x[0].transpose(0, 1)[:, :4]):
        exact(lambda t: torch.channel_shuffle(t, 2), t)
        assert torch.channel_shuffle(like_strided(t), 2).stride() == torch.channel_shuffle(t, 2).stride()
    for t, groups in ((x, 5), (x, 0), (x, -3), (x[0, 0], 1)):
        with pytest.raises(RuntimeError) as expected:
            torch.channel_shuffle(t, groups)
        with pytest.raises(RuntimeError) as actual:
            torch.channel_shuffle(t.to(device), groups)
        assert str(actual.value) == str(expected.value)


def test_gradient_of_channel_shuffle(device):
    x, weight = torch.randn(2, 6, 4), torch.randn(2, 6, 4)
    grads = []
    for on in ("cpu", device):
        leaf = x.detach().to(on).requires_grad_()
        (torch.channel_shuffle(leaf, 2) * weight.to(on)).sum().backward()
        grads.append(leaf.grad.cpu())
    assert torch.equal(*grads)


def test_roll_of_a_view_is_contiguous(device):
    for shifts, dims in ((2, 0), ((1, 2), (0, 1))):
        x = torch.randn(4, 5).t()
        assert x.to(device).t().contiguous().t().roll(shifts, dims).stride() == x.roll(shifts, dims).stride() == (4, 1)


def test_cat():
    a, b, c = torch.randn(3, 4), torch.randn(3, 2).half(), torch.randint(0, 5, (3, 5))
    exact(lambda a, b, c: torch.cat([a, b, c], 1), a, b, c)
    exact(lambda a, b: torch.cat([a, torch.empty(0, device=a.device), a[:0], a], 0), a, b)
    exact(lambda a: torch.cat([a[:, :0], a[:, 1:3].t().contiguous().t()], -1), a)
    out = torch.empty(8, 3, device="aule").t()
    torch.cat([a.to("aule"), a.to("aule")], 1, out=out)
    assert_close(out, torch.cat([a, a], 1), rtol=0, atol=0)
    big = [torch.randn(2, i + 1) for i in range(40)]
    exact(lambda *t: torch.cat(t, 1), *big)
    x = torch.randn(2, 3, device="aule", requires_grad=True)
    torch.cat([x, 2 * x]).sum().backward()
    assert_close(x.grad, torch.full((2, 3), 3.0))
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([a.to("aule"), torch.randn(2, 5, device="aule")], 0)


def test_repeats_and_windows():
    x = torch.randn(4, 3)
    exact(lambda x: x.repeat(2, 3), x)
    exact(lambda x: x.tile((2, 1, 2)), x)
    exact(lambda x: x.repeat_interleave(3, 0), x)
    exact(lambda x, r: x.repeat_interleave(r, 0), x, torch.tensor([0, 2, 1, 3]))
    exact(lambda x, r: x.repeat_interleave(r, 0, output_size=6), x, torch.tensor([0, 2, 1, 3]))
    exact(lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=2.0), x)
    exact(lambda x: torch.stack(torch.meshgrid(x[0], x[1], indexing="ij")), x)
    exact(lambda x: torch.diag_embed(x), x)
    exact(lambda x: torch.rot90(x), x)
    for size, step, dtype in ((2, 1, torch.float32), (3, 2, torch.complex64), (1, 3, None), (4, 4, torch.complex64)):
        a, b = torch.randn(3, 8, 2, dtype=dtype, requires_grad=True), None
        b = a.detach().to("aule").requires_grad_()
        g = torch.randn_like(a.unfold(1, size, step))
        a.unfold(1, size, step).backward(g)
        b.unfold(1, size, step).backward(g.to("aule"))
        assert_close(b.grad, a.grad, rtol=1e-5, atol=1e-5)


def test_counts():
    x = torch.randint(0, 9, (50,))
    exact(torch.bincount, x)
    exact(lambda x: torch.bincount(x, minlength=20), x.int())
    assert_close_to_cpu(lambda x, w: torch.bincount(x, w), x, torch.rand(50))
    exact(torch.bincount, x[:0])
    exact(lambda x: torch.nn.functional.one_hot(x, 12), x.view(5, 10))
    exact(lambda x: torch.nn.functional.one_hot(x), x)


def test_histc():
    x = torch.randn(300)
    exact(lambda x: torch.histc(x, 10, -2, 2), x)
    exact(lambda x: torch.histc(x, 7), x)
    exact(lambda x: torch.histc(x, 4), x[:0])
