"""Indexing ops against the CPU: any strides, every dtype, in place, out=, duplicates, wrapped and bad indices."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, INTS, assert_close, assert_close_to_cpu, like_strided

pytestmark = pytest.mark.validated

EVERY = [*FLOATS, *INTS, torch.bool, torch.float64, torch.complex64, torch.complex128]
ADDABLE = [*FLOATS, *INTS, torch.bool, torch.float64, torch.complex64]


def make(shape, dtype, layout="plain"):
    """Random values; `layout`: plain, transposed, offset (a view into more memory) or strided (every other element)."""
    if layout == "transposed":
        return make(shape[::-1], dtype).permute(*reversed(range(len(shape))))
    if layout == "offset":
        return make([s + 2 for s in shape], dtype)[tuple(slice(1, 1 + s) for s in shape)]
    if layout == "strided":
        return make([2 * s for s in shape], dtype)[tuple(slice(None, None, 2) for _ in shape)]
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(-5 if dtype.is_signed else 0, 6, shape, dtype=dtype)
    # Small integers: sums do not depend on the order, in any dtype.
    return torch.randint(-4, 5, shape).to(dtype)


def both(fn, *tensors, **kwargs):
    """fn on the device (tensors moved with their strides) and on the CPU."""
    moved = [like_strided(t) if isinstance(t, torch.Tensor) else t for t in tensors]
    got = fn(*moved, **kwargs)
    want = fn(*tensors, **kwargs)
    assert_close(got, want, rtol=0, atol=0)
    return moved


LAYOUTS = ["plain", "transposed", "offset", "strided"]


@pytest.mark.parametrize("dtype", EVERY)
def test_gather_and_select_dtypes(dtype):
    x = make((5, 7, 3), dtype)
    both(lambda x, i: x.gather(1, i), x, torch.randint(0, 7, (4, 9, 3)))
    both(lambda x, i: x.index_select(2, i), x, torch.randint(0, 3, (8,)))
    both(lambda x, i: x[i], x, torch.randint(-5, 5, (2, 3)))
    both(lambda x, i: x.take(i), x, torch.randint(-105, 105, (4, 5)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
def test_reading_layouts(layout, index_dtype):
    x = make((6, 8, 4), torch.float32, layout)
    for dim in range(3):
        index = torch.randint(0, x.size(dim), (5, 4, 3)).to(index_dtype)
        both(lambda x, i: torch.gather(x, dim, i), x, index)
        both(lambda x, i: torch.gather(x, dim, i), x, index.transpose(0, 2).contiguous().transpose(0, 2))
        line = torch.randint(0, x.size(dim), (22,)).to(index_dtype)[::2]
        both(lambda x, i: torch.index_select(x, dim, i), x, line)
        both(lambda x, i: torch.index_select(x, dim - 3, i), x, line[:0])
    both(lambda x, i: torch.take(x, i), x, torch.randint(-192, 192, (7, 3)).t())
    both(lambda x, i: torch.take_along_dim(x, i, 1), x, torch.randint(0, 8, (6, 2, 4)))
    out = torch.empty(9, 6, 4, dtype=torch.float32).transpose(0, 1)
    line = torch.randint(0, 8, (9,))
    assert_close(
        torch.index_select(like_strided(x), 1, line.to("aule"), out=like_strided(out)),
        torch.index_select(x, 1, line),
        rtol=0,
        atol=0,
    )
    wide = torch.empty(0, device="aule")
    torch.gather(like_strided(x), 1, torch.zeros(2, 3, 4, dtype=torch.long, device="aule"), out=wide)
    assert_close(wide, x.gather(1, torch.zeros(2, 3, 4, dtype=torch.long)), rtol=0, atol=0)


def test_reading_0d_and_empty():
    both(lambda x, i: x.gather(0, i), torch.tensor(3.0), torch.tensor(0))
    both(lambda x, i: x.gather(0, i), torch.tensor([3.0, 4.0]), torch.tensor(1))
    both(lambda x, i: x.index_select(0, i), torch.tensor(3.0), torch.tensor([0]))
    both(lambda x, i: x.index_select(0, i), torch.tensor([3.0, 4.0]), torch.tensor(1))
    both(lambda x, i: x.take(i), torch.tensor(3.0), torch.tensor(0))
    both(lambda x, i: x[i], torch.randn(4), torch.tensor(2))
    both(lambda x, i: x[i], torch.randn(4, 0), torch.tensor([2, 3]))
    both(lambda x, i: x[i], torch.randn(0, 4), torch.tensor([], dtype=torch.long))
    both(lambda x, i: x.gather(0, i), torch.randn(3, 4), torch.zeros(0, 4, dtype=torch.long))
    with pytest.raises(IndexError):
        torch.randn(0, 4, device="aule")[torch.tensor([0], device="aule")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_advanced_indexing(layout):
    x = make((6, 5, 4, 3), torch.float32, layout)
    i, j, k = torch.randint(-6, 6, (7,)), torch.randint(-5, 5, (2, 7)), torch.randint(0, 3, (2, 1), dtype=torch.int32)
    mask = torch.rand(5, 4) < 0.5
    both(lambda x, i, j: x[i, j], x, i, j)
    both(lambda x, i, j: x[:, j, :, i.clamp(-3, 2)], x, i, j)
    both(lambda x, j, k: x[:, j, :, k], x, j, k)
    both(lambda x, j, k: x[1:, j, 2, k], x, j, k)
    both(lambda x, j: x[..., None, j.clamp(-3, 2)], x, j)
    both(lambda x, m: x[:, m], x, mask)
    both(
        lambda x, m, i: x[:, m, i],
        x,
        mask[:, :1].expand(5, 4) & (torch.arange(20).view(5, 4) % 20 == 0),
        torch.tensor([1]),
    )
    both(lambda x, m: x[m], x, torch.rand(6, 5, 4, 3) < 0.3)
    both(lambda x, m: x.masked_select(m), x, torch.rand(4, 3) < 0.5)
    both(lambda x: x[[0, -1]], x)
    both(lambda x: x[torch.tensor([True, False, True, True, False, True])], x)


@pytest.mark.parametrize("dtype", EVERY)
def test_writing_dtypes(dtype):
    x, src = make((5, 7, 3), dtype), make((5, 4, 3), dtype)
    index = torch.rand(5, 7, 3).argsort(1)[:, :4]  # no duplicates: the result is defined
    both(lambda x, i, s: x.scatter(1, i, s), x, index, src)
    both(lambda x, i: x.scatter(1, i, 1), x, index)
    line = torch.tensor([3, 0, 6, 2])
    both(lambda x, i, s: x.index_copy(1, i, s), x, line, src)
    both(lambda x, i: x.index_fill(1, i, 1), x, line - 7)

    def put(x, i, s):
        y = x.clone()
        y[:, i - 7] = s
        return y

    both(put, x, line, src)
    both(lambda x, i, s: x.clone().put_(i, s), x, torch.randperm(105)[:12].view(3, 4) - 105, make((4, 3), dtype))


@pytest.mark.parametrize("dtype", ADDABLE)
def test_adding_dtypes(dtype):
    x, src = make((5, 7, 3), dtype), make((5, 9, 3), dtype)
    index = torch.randint(0, 7, (5, 9, 3))
    both(lambda x, i, s: x.scatter_add(1, i, s), x, index, src)
    line = torch.randint(0, 7, (9,))
    if dtype != torch.bool:
        both(lambda x, i, s: x.index_add(1, i, s, alpha=2), x, line, src)
    both(lambda x, i, s: x.clone().index_put_((i,), s, accumulate=True), x.transpose(0, 1), line, src.transpose(0, 1))
    both(lambda x, i, s: x.clone().put_(i, s, accumulate=True), x, torch.randint(-105, 105, (9,)), make((9,), dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_writing_layouts(layout, deterministic):
    x, src = make((6, 8, 4), torch.float32, layout), make((5, 3, 4), torch.float32, layout)
    torch.use_deterministic_algorithms(deterministic)
    try:
        for dim in range(3):
            index = torch.randint(0, x.size(dim), (4, 3, 2))
            for add in ("scatter_add_", "scatter_add"):
                both(lambda x, i, s: getattr(x, add)(dim, i, s), x.clone() if add[-1] == "_" else x, index, src)
            moved = like_strided(x)
            moved.scatter_add_(dim, index.to("aule"), like_strided(src))
            assert_close(moved, x.scatter_add(dim, index, src), rtol=0, atol=0)
            line = torch.randint(0, x.size(dim), (7,))
            shape = list(x.shape)
            shape[dim] = 7
            both(lambda x, i, s: x.index_add(dim, i, s), x, line, make(shape, torch.float32, layout))
        i, j = torch.randint(-6, 6, (2, 5)), torch.randint(-4, 4, (5,))
        values = make((2, 5, 8), torch.float32)
        moved, want = like_strided(x), x.clone()
        moved.permute(0, 2, 1).index_put_((i.to("aule"), j.to("aule")), values.to("aule"), accumulate=True)
        want.permute(0, 2, 1).index_put_((i, j), values, accumulate=True)
        assert_close(moved, want, rtol=0, atol=0)
    finally:
        torch.use_deterministic_algorithms(False)


def test_deterministic_writes_keep_the_last():
    torch.use_deterministic_algorithms(True)
    try:
        index, src = torch.randint(0, 3, (500,)), torch.randn(500)
        got = torch.zeros(3, device="aule").scatter(0, index.to("aule"), src.to("aule"))
        assert_close(got, torch.zeros(3).scatter(0, index, src), rtol=0, atol=0)
        # float sums in one order: equal to the last bit
        many = torch.randn(5000, device="aule")
        where = torch.randint(0, 7, (5000,), device="aule")
        sums = [torch.zeros(7, device="aule").index_add_(0, where, many).cpu() for _ in range(3)]
        assert torch.equal(sums[0], sums[1]) and torch.equal(sums[1], sums[2])
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.float64])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce, include_self, dtype):
    x, src = make((5, 4), dtype), make((9, 4), dtype)
    if reduce == "prod":
        x, src = x.clamp(0, 2), src.clamp(0, 2)
    index = torch.randint(0, 4, (9, 4))
    exact = reduce != "mean" or not dtype.is_floating_point
    got = x.to("aule").scatter_reduce(0, index.to("aule"), src.to("aule"), reduce, include_self=include_self)
    want = x.scatter_reduce(0, index, src, reduce, include_self=include_self)
    if exact:
        assert_close(got, want, rtol=0, atol=0)
    else:
        assert_close(got, want)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(reduce):
    x, src, line = torch.rand(5, 4) + 0.5, torch.rand(9, 4) + 0.5, torch.randint(0, 4, (9,))
    for include_self in (True, False):
        got = x.to("aule").index_reduce(0, line.to("aule"), src.to("aule"), reduce, include_self=include_self)
        assert_close(got, x.index_reduce(0, line, src, reduce, include_self=include_self))
    nan = src.clone()
    nan[2, 1] = float("nan")
    got = x.to("aule").index_reduce(0, line.to("aule"), nan.to("aule"), reduce)
    assert_close(got, x.index_reduce(0, line, nan, reduce))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int8])
def test_contended_sums(dtype):
    """Thousands of writers of a few places; int64 sums carry from the low into the high word."""
    n = 20000
    src = torch.randint(-3, 4, (n,)).to(dtype) if dtype != torch.int64 else torch.randint(-(2**40), 2**40, (n,))
    if dtype == torch.float16:
        src = torch.randint(0, 2, (n,)).to(dtype) * torch.randint(-1, 2, (n,)).to(dtype)
    index = torch.randint(0, 5, (n,))
    got = torch.zeros(5, dtype=dtype, device="aule").scatter_add_(0, index.to("aule"), src.to("aule"))
    want = torch.zeros(5, dtype=torch.int64).scatter_add_(0, index, src.long()).to(dtype)
    assert_close(got, want, rtol=0, atol=0)


SUMS = {
    "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand(v.shape), v),
    "scatter_reduce": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(v.shape), v, "sum"),
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "index_put": lambda x, i, v: x.index_put((i,), v, accumulate=True),
    "put": lambda x, i, v: x.flatten().put(i[:, None] * 3 + torch.arange(3, device=i.device), v, accumulate=True),
    "gradient of indexing": lambda x, i, v: torch.autograd.grad(x.requires_grad_()[i], x, v)[0],
    "gradient of gather": lambda x, i, v: torch.autograd.grad(
        x.requires_grad_().gather(0, i[:, None].expand(v.shape)), x, v
    )[0],
    "gradient of embedding": lambda x, i, v: torch.autograd.grad(F.embedding(i, x.requires_grad_()), x, v)[0],
    "gradient of embedding_bag": lambda x, i, v: torch.autograd.grad(
        F.embedding_bag(i, x.requires_grad_(), torch.arange(i.numel(), device=i.device), mode="sum"), x, v
    )[0],
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SUMS)
def test_16_bit_sums_are_rounded_once(name, dtype):
    """Ones would stop adding up at 256 in bfloat16, at 2048 in float16, were every sum rounded to its dtype."""
    n = 9001
    x, values = torch.randn(5, 3, dtype=dtype), torch.rand(n, 3).to(dtype)
    index = torch.randint(0, 3, (n,))
    got = SUMS[name](x.to("aule"), index.to("aule"), values.to("aule"))
    want = SUMS[name](x.double(), index, values.double())
    torch.testing.assert_close(got.cpu().double(), want, rtol=torch.finfo(dtype).eps / 2 * 1.01, atol=0)


def test_16_bit_sums_into_views():
    x, values = torch.randn(8, 12, dtype=torch.bfloat16), torch.randn(700, 4, dtype=torch.bfloat16)
    index = torch.randint(0, 6, (700,))
    got, want = x.to("aule"), x.double()
    got[1:, 2::3].index_add_(0, index.to("aule"), values.to("aule"))
    want[1:, 2::3].index_add_(0, index, values.double())
    torch.testing.assert_close(got.cpu().double(), want, rtol=2**-8 * 1.01, atol=1e-4)


def test_masks():
    x, mask = torch.randn(6, 5), torch.rand(6, 5) < 0.5
    source = torch.randn(40)
    both(lambda x, m, s: x.masked_scatter(m, s), x, mask, source)
    both(lambda x, m, s: x.clone().t().masked_scatter_(m.t(), s), x, mask, source)
    both(lambda x, m, s: x.masked_scatter(m, s), x, mask[:1], source)

    def assign(x, m, v):
        y = x.clone()
        y[m] = v
        return y

    both(assign, x, mask, 2.5)
    both(assign, x, mask, torch.tensor(3.0))
    both(lambda x, m, s: assign(x, m, s[: int(m.sum())]), x, mask, source)
    both(lambda x, m: assign(x, m, 1.0), x, mask[:, 0])
    y = x.to("aule")
    y[mask.to("aule")] = 7.0
    y[y > 5] -= 1
    want = x.clone()
    want[mask] = 7.0
    want[want > 5] -= 1
    assert_close(y, want, rtol=0, atol=0)


def test_gradients():
    for f in (
        lambda x, i: x.gather(1, i),
        lambda x, i: x.index_select(0, i[0]),
        lambda x, i: x[i, i],
        lambda x, i: x.take(i),
        lambda x, i: x.scatter_add(1, i, x[:3, :4] * 2),
        lambda x, i: x.index_add(0, i[0], x[:4]),
        lambda x, i: x[x > 0],
        lambda x, i: x.index_fill(0, i[0], 2.0),
        lambda x, i: x.index_put((i[0],), x[:4], accumulate=True),
        lambda x, i: x.masked_scatter(x > 0, x.flip(0)),
    ):
        x, i = torch.randn(6, 6), torch.randint(0, 6, (3, 4))
        a, b = x.clone().requires_grad_(), x.to("aule").requires_grad_()
        ya, yb = f(a, i), f(b, i.to("aule"))
        assert_close(yb, ya)
        g = torch.randn_like(ya)
        ya.backward(g)
        yb.backward(g.to("aule"))
        assert_close(b.grad, a.grad)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.gather(0, i),
        lambda x, i: x.index_select(0, i[0]),
        lambda x, i: x.scatter(0, i, x[:2, :3].clone()),
        lambda x, i: x.scatter_add(0, i, x[:2, :3].clone()),
        lambda x, i: x[i],
        lambda x, i: x.take(i * 100),
        lambda x, i: x.clone().index_put_((i[0],), x[:3].clone(), accumulate=True),
        lambda x, i: x.index_fill(0, i[0], 1.0),
        lambda x, i: x.masked_scatter(x == x, x[0].clone()),
    ],
)
def test_bad_indices_are_reported(call):
    x = torch.randn(4, 5, device="aule")
    index = torch.tensor([[0, 4, 1], [2, 3, 0]], device="aule")
    with pytest.raises(IndexError):
        call(x, index)
        torch.accelerator.synchronize()
    # The device goes on.
    assert_close(x.gather(0, index.clamp(max=3)), x.cpu().gather(0, index.cpu().clamp(max=3)), rtol=0, atol=0)


def test_negative_indices_wrap_only_where_pytorch_says():
    x = torch.randn(4, 5, device="aule")
    minus = torch.tensor([-1], device="aule")
    assert_close(x[minus], x.cpu()[[-1]], rtol=0, atol=0)
    for call in (
        lambda: x.index_select(0, minus),
        lambda: x.gather(0, minus[None]),
        lambda: x.index_add(0, minus, x[:1]),
    ):
        with pytest.raises(IndexError):
            call()
            torch.accelerator.synchronize()


def test_user_errors():
    x, i = torch.randn(4, 5, device="aule"), torch.tensor([[0]], device="aule")
    with pytest.raises(RuntimeError, match="int32/int64"):
        x.gather(0, i.float())
    with pytest.raises(RuntimeError, match="dtype"):
        x.scatter(0, i, x[:1, :1].double())
    with pytest.raises(IndexError, match="too many indices"):
        x[i, i, i]
    with pytest.raises(IndexError, match="shape mismatch"):
        x[torch.zeros(2, dtype=torch.long, device="aule"), torch.zeros(3, dtype=torch.long, device="aule")]
    with pytest.raises(RuntimeError, match="share memory|single memory location"):
        x[:1].expand(4, 5).index_put_((i[0],), x[:1], accumulate=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int16, torch.float32])
def test_an_empty_index_may_have_any_dtype(dtype):
    x, index = torch.randn(3, 4), torch.empty(0, dtype=dtype)
    assert_close_to_cpu(lambda x, i: x.gather(0, i), x, index)
    assert_close_to_cpu(lambda x, i: x.scatter(0, i, 1.0), x, index)
    assert_close_to_cpu(lambda x, i: x.scatter(0, i, x), x, index)
    assert_close_to_cpu(lambda x, i: x.scatter(0, i, x, reduce="add"), x, index)
    assert_close_to_cpu(lambda x, i: x.scatter_add(0, i, x), x, index)
    assert_close_to_cpu(lambda x, i: x.scatter_reduce(0, i, x, "mean"), x, index)
    line, wide = x[0], torch.empty(2, 0, dtype=dtype)  # more dimensions than the tensor has
    assert_close_to_cpu(lambda x, i: x.gather(0, i), line, wide)
    assert_close_to_cpu(lambda x, i: x.scatter_add(0, i, torch.empty_like(i, dtype=x.dtype)), line, wide)
    with pytest.raises(RuntimeError, match="index"):
        x.to("aule").gather(0, torch.zeros(1, 1, dtype=dtype, device="aule"))


@pytest.mark.parametrize("value", [True, 3, -0.5, 1e-30, float("nan"), 2j])
def test_assertions_hold(device, value):
    x = torch.tensor([value, 0], device=device)
    for condition in (x[0], x[:1], x[:1].view(1, 1)):
        torch._assert_async(condition)
        torch._assert_async(condition, "no")
    token = torch.zeros(1, device=device)
    assert_close(torch.ops.aten._functional_assert_async.msg(x[0], "no", token), torch.zeros(1))
    torch.aule.synchronize()


@pytest.mark.parametrize("zero", [False, 0, 0.0, -0.0, 0j])
def test_assertions_are_reported_at_the_next_synchronization(device, zero):
    condition = torch.tensor([1, zero], device=device)[1]
    calls = {
        "_assert_async": lambda: torch._assert_async(condition),
        "too big": lambda: torch._assert_async(condition, "too big"),
        "as a function": lambda: torch.ops.aten._functional_assert_async.msg(condition, "as a function", condition),
    }
    for text, call in calls.items():
        call()
        with pytest.raises(RuntimeError, match=f"{text}: assertion failed on the device"):
            torch.aule.synchronize()
        torch.aule.synchronize()
    for wrong in (torch.ones(2, device=device), torch.ones(0, device=device)):
        with pytest.raises(RuntimeError, match="ambiguous"):
            torch._assert_async(wrong)


def test_texts_of_assertions_are_not_kept_without_end(device):
    zero = torch.zeros((), device=device)
    for i in range(300):
        torch._assert_async(zero + 1, f"step {i}")
    torch._assert_async(zero, "step 299")
    with pytest.raises(RuntimeError, match="_assert_async|step 299"):
        torch.aule.synchronize()
