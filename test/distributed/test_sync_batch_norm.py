"""The operators of torch.nn.SyncBatchNorm, against float64: processes are parts of one batch here.

Several real processes are test_distributed.py's.
"""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, RELATIVE_TOLERANCES, assert_close, layouts, like_strided, relative_error

DTYPES = [*FLOATS, torch.float64]
SHAPES = [(4, 3, 5, 7), (6, 5), (9, 4, 11), (3, 8, 5), (2, 3, 3, 4, 5), (130, 12)]
EPS = 1e-5
# What is summed in float32 and rounded nowhere.
SUMS = {dtype: 1e-11 if dtype == torch.float64 else 1e-5 for dtype in DTYPES}


def stat_type(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def others(x):
    return [d for d in range(x.dim()) if d != 1]


def spread(t, x):
    """Of channels, along those of x."""
    return t.double().view(1, -1, *[1] * (x.dim() - 2))


def moments(x):
    """Mean and variance of a batch, in float64."""
    return x.double().mean(others(x)), x.double().var(others(x), correction=0)


def batch(*shape, dtype=torch.float32):
    """Channels of different means and deviations."""
    c = torch.arange(shape[1]) % 7
    scale = torch.ones(shape[1] if len(shape) > 1 else 1) * (1 + c)
    return (torch.randn(shape) * spread(scale, torch.empty(shape)) + spread(c - 3, torch.empty(shape))).to(dtype)


def every_layout(x):
    yield from layouts(x)
    if x.dim() == 5:
        yield "channels last", x.contiguous(memory_format=torch.channels_last_3d)
    yield "offset", torch.cat([x.new_zeros(3), x.flatten()])[3:].view(x.shape)


def check(actual, expected, dtype, tolerance=None, what=""):
    """Dtype, shape and values; `expected` is float64."""
    assert actual.dtype == dtype and actual.shape == expected.shape, f"{what}: {actual.dtype}, {actual.shape}"
    error = relative_error(actual, expected)
    assert error <= (tolerance or RELATIVE_TOLERANCES[dtype]), f"{what}: {error}"


@pytest.mark.validated
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_stats(dtype):
    for shape in SHAPES:
        for layout, x in every_layout(batch(*shape, dtype=dtype)):
            mean, var = moments(x)
            results = torch.batch_norm_stats(like_strided(x), EPS)
            for a, e in zip(results, (mean, (var + EPS).rsqrt()), strict=True):
                check(a, e, stat_type(dtype), SUMS[dtype], f"{shape}, {layout}")


def test_stats_far_from_zero():
    """A large mean costs the variance no digits."""
    x = torch.randn(16, 3, 40, 40) + 3000
    _, invstd = torch.batch_norm_stats(x.to("aule"), EPS)
    check(invstd, (moments(x)[1] + EPS).rsqrt(), torch.float32, 1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("running_dtype", [None, torch.float32, torch.float16], ids=str)
def test_update_stats(dtype, running_dtype):
    x = batch(4, 5, 3, 7, dtype=dtype)
    running = [t if running_dtype is None else t.to(running_dtype) for t in (torch.randn(5), torch.rand(5) + 0.5)]
    ours = [None if running_dtype is None else t.to("aule") for t in running]
    mean, var = moments(x)
    results = torch.batch_norm_update_stats(x.to("aule"), *ours, 0.3)
    check(results[0], mean, stat_type(dtype), SUMS[dtype])
    check(results[1], var, stat_type(dtype), SUMS[dtype])
    if running_dtype is not None:
        n = x.numel() // 5
        check(ours[0], running[0].double() * 0.7 + mean * 0.3, running_dtype)
        check(ours[1], running[1].double() * 0.7 + var * (n / (n - 1)) * 0.3, running_dtype)


def parts_of(counts, channels):
    """Statistics [parts, channels] as float32, and those of all parts: mean, variance."""
    rows = [torch.randn(n, channels, dtype=torch.float64) * (i + 1) + i for i, n in enumerate(counts)]
    each = [moments(r) if len(r) else (torch.zeros(channels), torch.zeros(channels)) for r in rows]
    mean = torch.stack([m for m, _ in each])
    invstd = torch.stack([(v + EPS).rsqrt() if n else v for n, (_, v) in zip(counts, each, strict=True)])
    return mean, invstd, *moments(torch.cat(rows))


@pytest.mark.validated
@pytest.mark.parametrize("counts", [[5], [4, 9, 2], [3, 0, 7], [0, 6, 1, 1], [2] * 70], ids=str)
@pytest.mark.parametrize("channels", [1, 67])
def test_gather_stats(counts, channels):
    """A part without elements is left out, wherever it stands."""
    *parts, mean, var = parts_of(counts, channels)
    n = sum(counts)
    for dtype, running_dtype, count_dtype in [
        (torch.float32, torch.float32, torch.float32),
        (torch.float64, torch.float64, torch.float64),
        (torch.float32, torch.float16, torch.float16),
        (torch.float32, torch.float64, torch.float64),
        (torch.float64, torch.float32, torch.int32),
    ]:
        ours = [t.to(dtype).to("aule") for t in parts]
        running = [torch.randn(channels), torch.rand(channels) + 0.5]
        updated = [t.to(running_dtype).to("aule") for t in running]
        results = torch.batch_norm_gather_stats_with_counts(
            torch.empty(0, device="aule"), *ours, *updated, 0.2, EPS, torch.tensor(counts, dtype=count_dtype).to("aule")
        )
        check(results[0], mean, dtype, SUMS[dtype])
        check(results[1], (var + EPS).rsqrt(), dtype, SUMS[dtype])
        wide = torch.float32 if dtype == torch.float32 and running_dtype == torch.float64 else running_dtype
        tolerance = RELATIVE_TOLERANCES[wide]
        old = [t.to(running_dtype).double() for t in running]
        check(updated[0], old[0] * 0.8 + mean * 0.2, running_dtype, tolerance)
        check(updated[1], old[1] * 0.8 + var * (n / (n - 1)) * 0.2, running_dtype, tolerance)


def test_gather_stats_of_equal_counts():
    *parts, mean, var = parts_of([6, 6, 6], 10)
    # Rows of a wider tensor, as SyncBatchNorm splits them off; running statistics with steps.
    rows = torch.cat([*parts, torch.zeros(3, 1)], 1).float().to("aule")
    strided = rows[:, :10], rows[:, 10:20]
    running = torch.zeros(10, 2, device="aule")
    results = torch.batch_norm_gather_stats(rows, *strided, running[:, 0], running[:, 1], 0.5, EPS, 6)
    check(results[0], mean, torch.float32, 1e-5)
    check(results[1], (var + EPS).rsqrt(), torch.float32, 1e-5)
    check(running, torch.stack([mean * 0.5, var * (18 / 17) * 0.5], 1), torch.float32, 1e-5)
    alone = torch.batch_norm_gather_stats(rows, *strided, None, None, 0.5, EPS, 6)
    assert_close(alone, tuple(t.cpu() for t in results), rtol=0, atol=0)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements(dtype):
    for shape in SHAPES:
        c = shape[1]
        w, b, mean, invstd = torch.randn(c), torch.randn(c), torch.randn(c), torch.rand(c) + 0.5
        statistics = [t.to(stat_type(dtype)).to("aule") for t in (mean, invstd)]
        for layout, x in every_layout(batch(*shape, dtype=dtype)):
            normal = (x.double() - spread(mean, x)) * spread(invstd, x)
            for param in {dtype, torch.float32}:
                v, u = w.to(param), b.to(param)
                ours = like_strided(x)
                y = torch.batch_norm_elemt(ours, v.to("aule"), u.to("aule"), *statistics, EPS)
                check(y, normal * spread(v, x) + spread(u, x), dtype, what=f"{shape}, {layout}, {param}")
                if layout == "channels last":
                    assert y.stride() == x.stride()
            check(torch.batch_norm_elemt(ours, None, None, *statistics, EPS), normal, dtype)
            out = torch.empty(c, *x.shape[2:], x.shape[0], dtype=dtype, device="aule").movedim(-1, 0)
            strides = out.stride()
            torch.batch_norm_elemt(ours, v.to("aule"), None, *statistics, EPS, out=out)
            check(out, normal * spread(v, x), dtype)
            assert out.stride() == strides


@pytest.mark.validated
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_backward_reduce(dtype):
    for shape in SHAPES:
        c = shape[1]
        mean, invstd = torch.randn(c), torch.rand(c) + 0.5
        statistics = [t.to(stat_type(dtype)).to("aule") for t in (mean, invstd)]
        g = torch.randn(shape).add(0.5).to(dtype)  # no sum comes near zero
        for layout, x in every_layout(batch(*shape, dtype=dtype)):
            sum_dy = g.double().sum(others(x))
            sum_xmu = (g.double() * (x.double() - spread(mean, x))).sum(others(x))
            for param in {dtype, torch.float32}:
                results = torch.batch_norm_backward_reduce(
                    g.to("aule"), like_strided(x), *statistics, torch.ones(c, dtype=param, device="aule"), *[True] * 3
                )
                sums = SUMS[dtype] * 10
                check(results[0], sum_dy, stat_type(dtype), sums, f"{shape}, {layout}")
                check(results[1], sum_xmu, stat_type(dtype), sums, f"{shape}, {layout}")
                rounding = sums if dtype == param else None
                check(results[2], sum_xmu * invstd.double(), param, rounding if dtype == torch.float64 else None)
                check(results[3], sum_dy, param, rounding if dtype == torch.float64 else None)


def test_backward_reduce_of_what_is_wanted():
    x, g, mean, invstd = torch.randn(5, 3, 4), torch.randn(5, 3, 4), torch.randn(3), torch.rand(3)
    tensors = [t.to("aule") for t in (g, x, mean, invstd)]
    whole = torch.batch_norm_backward_reduce(*tensors, None, True, True, True)
    assert {t.dtype for t in whole} == {torch.float32}
    for mask in [(True, False, False), (False, True, False), (False, False, True), (False, True, True), (False,) * 3]:
        some = torch.batch_norm_backward_reduce(*tensors, None, *mask)
        wanted = [mask[0], mask[0], mask[1], mask[2]]
        for a, e, is_wanted in zip(some, whole, wanted, strict=True):
            assert_close(a, e if is_wanted else None, rtol=1e-6, atol=1e-6)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("counts", [[7], [3, 0, 90], [5] * 100], ids=["one", "three", "many"])
def test_backward_elements(dtype, counts):
    n = sum(counts)
    counts = torch.tensor(counts, dtype=torch.int32, device="aule")
    for shape in SHAPES:
        c = shape[1]
        w, mean, invstd, sum_dy, sum_xmu = torch.randn(c), *torch.randn(2, c).abs() + 0.5, *torch.randn(2, c) * n
        stats = [t.to(stat_type(dtype)).to("aule") for t in (mean, invstd)]
        # Halves of one tensor, as SyncBatchNorm splits them off.
        sums = torch.cat([sum_dy, sum_xmu]).to(stat_type(dtype)).to("aule").split(c)
        g = torch.randn(shape, dtype=dtype)
        for layout, x in every_layout(batch(*shape, dtype=dtype)):
            inner = (x.double() - spread(mean, x)) * spread(invstd.double() ** 2 * sum_xmu / n, x)
            dx = (g.double() - spread(sum_dy.double() / n, x) - inner) * spread(invstd, x)
            ours = g.to("aule"), like_strided(x), *stats
            for weight, expected in [(w.to(stat_type(dtype)), dx * spread(w, x)), (None, dx)]:
                weight = None if weight is None else weight.to("aule")
                result = torch.batch_norm_backward_elemt(*ours, weight, *sums, counts)
                check(result, expected, dtype, what=f"{shape}, {layout}")
                if layout == "channels last":
                    assert result.stride() == x.stride()


def synchronized(parts, grads, w, b, running):
    """Results of each part, its gradients, and those of the parameters, added, by the steps of SyncBatchNorm."""
    stats = [torch.batch_norm_stats(x, EPS) for x in parts if x.numel()]
    counts = torch.tensor([x.numel() // x.shape[1] for x in parts if x.numel()]).to("aule")
    mean, invstd = (torch.stack(t) for t in zip(*stats, strict=True))
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], mean, invstd, *running, 0.1, EPS, counts.to(running[0].dtype)
    )
    ys = [torch.batch_norm_elemt(x, w, b, mean, invstd, EPS) for x in parts]
    each = [
        torch.batch_norm_backward_reduce(g, x, mean, invstd, w, True, True, True)
        for g, x in zip(grads, parts, strict=True)
    ]
    sum_dy, sum_xmu, dw, db = (torch.stack(t).sum(0) for t in zip(*each, strict=True))
    dxs = [
        torch.batch_norm_backward_elemt(g, x, mean, invstd, w.to(mean.dtype), sum_dy, sum_xmu, counts.int())
        for g, x in zip(grads, parts, strict=True)
    ]
    return torch.cat(ys), torch.cat(dxs), dw, db


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
def test_parts_are_a_batch(dtype, channels_last):
    """Parts of 5, 0, 1 and 3 samples have the results, running statistics and gradients of one batch of 9."""
    x, g = batch(9, 6, 5, 4, dtype=dtype), torch.randn(9, 6, 5, 4, dtype=dtype)
    w, b, mean, var = torch.randn(6, dtype=dtype), torch.randn(6, dtype=dtype), torch.randn(6), torch.rand(6) + 0.5
    kept = [t.double() for t in (mean, var)]
    wide = [t.double().requires_grad_() for t in (x, w, b)]
    expected = F.batch_norm(wide[0], *kept, *wide[1:], training=True, momentum=0.1, eps=EPS)
    expected.backward(g.double())
    form = torch.channels_last if channels_last else torch.contiguous_format
    parts, grads = ([p.to("aule").contiguous(memory_format=form) for p in t.split([5, 0, 1, 3])] for t in (x, g))
    running = [t.to(stat_type(dtype)).to("aule") for t in (mean, var)]
    y, dx, dw, db = synchronized(parts, grads, w.to("aule"), b.to("aule"), running)
    check(y, expected, dtype)
    for a, e in zip((dx, dw, db), wide, strict=True):
        check(a, e.grad, dtype)
    for a, e in zip(running, kept, strict=True):
        check(a, e, stat_type(dtype), SUMS[dtype])


@pytest.mark.parametrize("shape", [(61, 70_001), (1031, 4096, 1, 1), (3, 70_000, 3)], ids=str)
def test_more_than_65535(shape):
    """Channels, and workgroups of the kernel of elements: 64 elements, or with four for each invocation 256."""
    x, g = batch(*shape), torch.randn(shape)
    form = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    c, n = shape[1], x.numel() // shape[1]
    ours, grad = x.to("aule").contiguous(memory_format=form), g.to("aule").contiguous(memory_format=form)
    mean, var = moments(x)
    invstd = (var + EPS).rsqrt()
    stats = torch.batch_norm_stats(ours, EPS)
    check(stats[0], mean, torch.float32, 1e-5)
    check(stats[1], invstd, torch.float32, 1e-4)
    rows = [t.view(1, c).expand(2, c) for t in stats]
    both = torch.batch_norm_gather_stats(ours, *rows, None, None, 0.1, EPS, n)
    check(both[0], mean, torch.float32, 1e-5)
    check(both[1], invstd, torch.float32, 1e-4)
    normal = (x.double() - spread(mean, x)) * spread(invstd, x)
    check(torch.batch_norm_elemt(ours, None, None, *stats, EPS), normal, torch.float32, 1e-4)
    sums = torch.batch_norm_backward_reduce(grad, ours, *stats, None, True, True, True)
    sum_dy, sum_gh = g.double().sum(others(x)), (g.double() * normal).sum(others(x))
    for a, e in zip(sums, (sum_dy, sum_gh / invstd, sum_gh, sum_dy), strict=True):
        check(a, e, torch.float32, 1e-4)
    dx = (g.double() - spread(sum_dy / n, x) - normal * spread(sum_gh / n, x)) * spread(invstd, x)
    count = torch.tensor([n], dtype=torch.int32, device="aule")
    check(torch.batch_norm_backward_elemt(grad, ours, *stats, None, *sums[:2], count), dx, torch.float32, 1e-4)


def test_nothing():
    """No samples, no positions, no channels."""
    for shape in [(0, 3), (0, 3, 4, 5), (4, 3, 0)]:
        x = torch.empty(shape, device="aule")
        mean, invstd = torch.zeros(3, device="aule"), torch.ones(3, device="aule")
        assert [t.shape for t in torch.batch_norm_stats(x, EPS)] == [(3,), (3,)]
        assert torch.batch_norm_elemt(x, None, None, mean, invstd, EPS).shape == shape
        for t in torch.batch_norm_backward_reduce(x, x, mean, invstd, None, True, True, True):
            assert_close(t, torch.zeros(3))
        count = torch.ones(1, dtype=torch.int32, device="aule")
        assert torch.batch_norm_backward_elemt(x, x, mean, invstd, None, mean, mean, count).shape == shape
    x, c = torch.empty(4, 0, 5, device="aule"), torch.empty(0, device="aule")
    assert [t.shape for t in torch.batch_norm_stats(x, EPS)] == [(0,), (0,)]
    assert torch.batch_norm_elemt(x, c, c, c, c, EPS).shape == (4, 0, 5)
    rows = torch.empty(2, 0, device="aule")
    results = torch.batch_norm_gather_stats(x, rows, rows, c, c, 0.1, EPS, 3)
    assert [t.shape for t in results] == [(0,), (0,)]


def test_refused():
    x, three, four = torch.randn(2, 3, 5).to("aule"), torch.ones(3).to("aule"), torch.ones(4).to("aule")
    count = torch.ones(1, dtype=torch.int32).to("aule")
    calls = {
        "at least 2 dimensions": lambda: torch.batch_norm_stats(three, EPS),
        "a weight of 3 elements": lambda: torch.batch_norm_elemt(x, four, None, three, three, EPS),
        "a bias of 3 elements": lambda: torch.batch_norm_elemt(x, None, four, three, three, EPS),
        "a mean of 3 elements": lambda: torch.batch_norm_elemt(x, None, None, four, three, EPS),
        "an invstd of 3 elements": lambda: torch.batch_norm_elemt(x, None, None, three, four, EPS),
        "a sum_dy of 3": lambda: torch.batch_norm_backward_elemt(x, x, three, three, None, four, three, count),
        "a sum_dy_xmu of 3": lambda: torch.batch_norm_backward_elemt(x, x, three, three, None, three, four, count),
        "a running_mean of 3": lambda: torch.batch_norm_update_stats(x, four, three, 0.1),
        "running_mean and running_var, or": lambda: torch.batch_norm_update_stats(x, three, None, 0.1),
        "[processes, channels]": lambda: torch.batch_norm_gather_stats(x, three, three, None, None, 0.1, EPS, 5),
        "counts of 1 elements": lambda: torch.batch_norm_gather_stats_with_counts(
            x, three[None], three[None], None, None, 0.1, EPS, four
        ),
        "the input's sizes": lambda: torch.batch_norm_backward_reduce(x[:1], x, three, three, None, True, True, True),
        "of the input's sizes": lambda: torch.batch_norm_backward_elemt(
            x[:1], x, three, three, None, three, three, count
        ),
    }
    for words, call in calls.items():
        with pytest.raises(RuntimeError) as caught:
            call()
        assert words in str(caught.value)
