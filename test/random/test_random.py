"""Random numbers: distributions, reproducibility, generators, dropout, sampling.

Statistical bounds are about six standard deviations wide: a correct generator fails once in 10^8 tests.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dropout_mask import philox
from helpers import FLOATS, assert_close

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

N = 1 << 17


def seeded(fn, seed=7):
    torch.aule.manual_seed(seed)
    return fn().cpu()


def close_to(value, expected, deviation, n=N):
    """A mean of n draws of standard deviation `deviation`."""
    assert abs(float(value) - expected) < 6 * deviation / math.sqrt(n), (float(value), expected)


def check_cdf(x, cdf, slack=0.0):
    """Kolmogorov-Smirnov distance of draws from a distribution function."""
    x = x.double().sort().values
    at = cdf(x)
    steps = torch.arange(1, x.numel() + 1, dtype=torch.float64) / x.numel()
    assert (at - steps).abs().max() < 3.0 / math.sqrt(x.numel()) + slack


DRAWS = {
    "uniform_": (lambda t: t.uniform_(-1, 3), lambda x: (x + 1) / 4),
    "normal_": (lambda t: t.normal_(2, 3), lambda x: 0.5 * (1 + torch.erf((x - 2) / 3 / math.sqrt(2)))),
    "exponential_": (lambda t: t.exponential_(0.5), lambda x: 1 - torch.exp(-0.5 * x)),
    "cauchy_": (lambda t: t.cauchy_(1, 2), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
    "log_normal_": (
        lambda t: t.log_normal_(0.5, 0.25),
        lambda x: 0.5 * (1 + torch.erf((x.log() - 0.5) / 0.25 / math.sqrt(2))),
    ),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
def test_distribution(name, dtype):
    draw, cdf = DRAWS[name]
    x = draw(torch.empty(N, dtype=dtype, device="aule")).cpu()
    # Rounding to few bits moves whole steps of the distribution function.
    check_cdf(x, cdf, {torch.bfloat16: 2e-2, torch.float16: 3e-3}.get(dtype, 0))
    if name == "uniform_":
        assert x.min() >= -1 and x.max() < 3
    if name in ("exponential_", "log_normal_"):
        assert x.min() > 0
    if name != "cauchy_":  # whose tails leave float16
        assert x.isfinite().all()


def test_moments_and_tails():
    z = torch.randn(N, device="aule").cpu().double()
    close_to(z.mean(), 0, 1)
    close_to((z**2).mean(), 1, math.sqrt(2))
    close_to((z**3).mean(), 0, math.sqrt(15))
    close_to((z**4).mean(), 3, math.sqrt(96))
    assert z.abs().max() > 3.5
    u = torch.rand(N, device="aule").cpu().double()
    close_to(u.mean(), 0.5, math.sqrt(1 / 12))
    close_to((u**2).mean(), 1 / 3, math.sqrt(4 / 45))
    assert 0 <= u.min() and u.max() < 1


def test_no_correlation():
    for draw in (torch.randn, torch.rand):
        x = draw(N, device="aule").cpu().double()
        x = (x - x.mean()) / x.std()
        # Between neighbours, between the four elements of one invocation, and between successive calls.
        for lag in (1, 2, 3, 4, 128, 256, 384, 512):
            close_to((x[lag:] * x[:-lag]).mean(), 0, 1, N - lag)
        y = draw(N, device="aule").cpu().double()
        close_to((x * (y - y.mean()) / y.std()).mean(), 0, 1)
    # Bits: every one of a 62-bit draw is fair.
    bits = torch.empty(N, dtype=torch.long, device="aule").random_().cpu()
    for b in range(63):
        close_to(((bits >> b) & 1).double().mean(), 0.5, 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool, torch.bfloat16, torch.float64])
def test_bernoulli(dtype):
    for p in (0.0, 0.2, 0.5, 1.0):
        x = torch.empty(N, dtype=dtype, device="aule").bernoulli_(p).cpu().double()
        assert set(x.unique().tolist()) <= {0.0, 1.0}
        close_to(x.mean(), p, math.sqrt(p * (1 - p)) + 1e-12)
    probabilities = torch.tensor([0.0, 0.1, 0.9, 1.0], device="aule")
    x = torch.empty(N // 4, 4, dtype=dtype, device="aule").bernoulli_(probabilities).cpu().double().mean(0)
    for value, p in zip(x, (0.0, 0.1, 0.9, 1.0)):
        close_to(value, p, math.sqrt(p * (1 - p)) + 1e-12, N // 4)
    y = torch.bernoulli(torch.full((1000,), 0.5, device="aule"))
    assert y.dtype == torch.float32 and set(y.cpu().unique().tolist()) == {0.0, 1.0}


def test_integers():
    x = torch.randint(-3, 9, (N,), device="aule").cpu()
    counts = torch.bincount(x + 3, minlength=12).double()
    assert counts.numel() == 12
    for c in counts:
        close_to(c / N, 1 / 12, math.sqrt(1 / 12 * 11 / 12))
    for dtype, low, high in (
        (torch.uint8, 0, 256),
        (torch.int8, -128, 128),
        (torch.int16, -500, 20000),
        (torch.int64, -(2**62), 2**62),
    ):
        y = torch.randint(low, high, (N,), dtype=dtype, device="aule").cpu()
        assert y.min().item() >= low and y.max().item() < high
        close_to(y.double().mean() / (high - low), (low + high - 1) / 2 / (high - low), math.sqrt(1 / 12))
    z = torch.empty(N, device="aule").random_().cpu()
    assert z.max() <= 2**24 and (z == z.floor()).all() and z.max() > 2**23
    assert set(torch.empty(99, dtype=torch.bool, device="aule").random_().cpu().tolist()) == {True, False}
    full = torch.empty(N, dtype=torch.int64, device="aule").random_(-(2**63), None).cpu()
    close_to((full < 0).double().mean(), 0.5, 0.5)
    with pytest.raises(RuntimeError, match="less than"):
        torch.empty(3, device="aule").random_(5, 5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.empty(3, dtype=torch.uint8, device="aule").random_(0, 300)


def test_geometric():
    x = torch.empty(N, dtype=torch.int64, device="aule").geometric_(0.3).cpu().double()
    assert x.min() == 1
    close_to(x.mean(), 1 / 0.3, math.sqrt(0.7) / 0.3)
    close_to((x == 1).double().mean(), 0.3, 0.5)


def test_normal_with_tensors():
    mean, std = torch.tensor([1.0, -2.0, 5.0], device="aule"), torch.tensor([0.5, 2.0, 1.0], device="aule")
    for x, m, s in (
        (torch.normal(mean.expand(N // 4, 3), std), mean, std),
        (torch.normal(mean.expand(N // 4, 3), 2.0), mean, [2.0] * 3),
        (torch.normal(3.0, std.expand(N // 4, 3)), [3.0] * 3, std),
    ):
        for column, a, b in zip(x.cpu().double().t(), m, s):
            close_to(column.mean(), float(a), float(b), N // 4)
            close_to(column.std(), float(b), float(b), N // 4)
    x = torch.normal(1.0, 2.0, (N,), device="aule").cpu()
    close_to(x.mean(), 1, 2)
    z = torch.randn(N, dtype=torch.complex64, device="aule").cpu()
    close_to(z.real.std(), math.sqrt(0.5), 0.5)
    close_to((z.real * z.imag).mean(), 0, 0.5)


def test_seeds_and_offsets():
    a, b = seeded(lambda: torch.randn(1000, device="aule")), seeded(lambda: torch.randn(1000, device="aule"))
    assert torch.equal(a, b)
    assert not torch.equal(a, seeded(lambda: torch.randn(1000, device="aule"), 8))
    torch.aule.manual_seed(7)
    first, second = torch.randn(1000, device="aule").cpu(), torch.randn(1000, device="aule").cpu()
    assert torch.equal(first, a) and not torch.equal(second, a)
    # A longer tensor starts with the same numbers: an element depends on its position only.
    assert torch.equal(seeded(lambda: torch.randn(70000, device="aule"))[:512], a[:512])
    # Strides do not change what is drawn.
    assert torch.equal(
        seeded(lambda: torch.empty(20, 50, device="aule").t().normal_().t().contiguous()).t().reshape(-1), a
    )
    # Nor does the stream.
    side = torch.Stream(device="aule")
    torch.aule.manual_seed(7)
    with torch.aule.stream(side):
        on_side = torch.randn(1000, device="aule")
    side.synchronize()
    assert torch.equal(on_side.cpu(), a)
    state = torch.aule.get_rng_state()
    x = torch.rand(10, device="aule").cpu()
    torch.aule.set_rng_state(state)
    assert torch.equal(x, torch.rand(10, device="aule").cpu())


def test_generator_argument():
    g, h = torch.Generator("aule"), torch.Generator("aule")
    g.manual_seed(3), h.manual_seed(3)
    torch.aule.manual_seed(1)
    before = torch.aule.get_rng_state()
    for fn in (
        lambda g: torch.randn(50, device="aule", generator=g),
        lambda g: torch.rand(50, device="aule", generator=g),
        lambda g: torch.randint(0, 99, (50,), device="aule", generator=g),
        lambda g: torch.randperm(50, device="aule", generator=g),
        lambda g: torch.empty(50, device="aule").bernoulli_(0.5, generator=g),
        lambda g: torch.multinomial(torch.ones(60, device="aule"), 50, generator=g),
        lambda g: torch.normal(torch.zeros(50, device="aule"), 1.0, generator=g),
    ):
        x, y = fn(g).cpu(), fn(h).cpu()
        assert torch.equal(x, y)
        assert not torch.equal(x, fn(g).cpu()) and not torch.equal(y, fn(g).cpu())
        h.set_state(g.get_state())
    assert torch.equal(before, torch.aule.get_rng_state()), "the default generator moved"
    with pytest.raises(RuntimeError):
        torch.randn(3, device="aule", generator=torch.Generator("cpu"))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000, 5000])
def test_randperm(n):
    x = torch.randperm(n, device="aule")
    assert x.dtype == torch.int64
    assert torch.equal(x.cpu().sort().values, torch.arange(n))
    if n >= 1000:
        assert not torch.equal(x.cpu(), torch.arange(n)) and not torch.equal(
            x.cpu(), torch.randperm(n, device="aule").cpu()
        )
        close_to((x.cpu().double() * torch.arange(n)).mean() / n**2, 0.25, 1 / 12, n)
    assert torch.randperm(n, dtype=torch.int32, device="aule").dtype == torch.int32


def test_randperm_is_fair():
    places = torch.stack([torch.randperm(4, device="aule") for _ in range(300)]).cpu()
    for row in places.t():
        for c in torch.bincount(row, minlength=4):
            close_to(c / 300, 0.25, math.sqrt(3 / 16), 300)


def test_multinomial():
    weights = torch.tensor([[1.0, 0.0, 3.0, 6.0], [0.0, 5.0, 0.0, 5.0]])
    n = 20000
    for dtype in (torch.float32, torch.float16, torch.float64):
        x = torch.multinomial(weights.to("aule", dtype), n, replacement=True).cpu()
        assert x.shape == (2, n) and x.dtype == torch.int64
        for row, w in zip(x, weights):
            counts = torch.bincount(row, minlength=4).double() / n
            for c, p in zip(counts, w / w.sum()):
                close_to(c, float(p), math.sqrt(float(p * (1 - p))) + 1e-12, n)
    # One draw per row, and draws without replacement
    x = torch.multinomial(weights[:1].expand(n, 4).to("aule"), 1).cpu()[:, 0]
    for c, p in zip(torch.bincount(x, minlength=4).double() / n, (0.1, 0, 0.3, 0.6)):
        close_to(c, p, math.sqrt(p * (1 - p)) + 1e-12, n)
    x = torch.multinomial(torch.tensor([1.0, 1.0, 2.0], device="aule").expand(n, 3), 3).cpu()
    assert (x.sort(1).values == torch.arange(3)).all()
    close_to((x[:, 0] == 2).double().mean(), 0.5, 0.5, n)
    # P(second is 2) = 2 * 1/4 * 2/3
    close_to((x[:, 1] == 2).double().mean(), 1 / 3, math.sqrt(2 / 9), n)
    out = torch.empty(0, dtype=torch.long, device="aule")
    assert torch.multinomial(torch.ones(5, device="aule"), 5, out=out).shape == (5,)
    assert torch.equal(out.cpu().sort().values, torch.arange(5))


@pytest.mark.parametrize("bad", [[0.1, -0.2, 1], [0.1, float("nan"), 1], [0.1, float("inf"), 1], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("replacement", [True, False])
def test_bad_probabilities(bad, replacement):
    with pytest.raises(RuntimeError, match="multinomial"):
        torch.multinomial(torch.tensor(bad, device="aule"), 2, replacement)
        torch.accelerator.synchronize()
    with pytest.raises(RuntimeError, match="bernoulli"):
        torch.bernoulli(torch.tensor([0.5, 1.5], device="aule"))
        torch.accelerator.synchronize()


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout(dtype, p):
    x = (torch.rand(N // 8 + 3, dtype=torch.float32) + 0.5).to(dtype)
    a = x.to("aule").requires_grad_()
    y = F.dropout(a, p)
    kept = y.detach().cpu() != 0
    close_to(kept.double().mean(), 1 - p, math.sqrt(p * (1 - p)), kept.numel())
    want = torch.where(kept, (x.double() / (1 - p)).to(dtype), torch.zeros((), dtype=dtype))
    assert_close(y, want)
    g = torch.randn(x.shape).to(dtype)
    y.backward(g.to("aule"))
    assert_close(a.grad, torch.where(kept, (g.double() / (1 - p)).to(dtype), torch.zeros((), dtype=dtype)))


def draws(seed, n, of_bernoulli):
    """The 32 bits that dropout and Bernoulli compare for elements 0 to `n`, as their shaders describe."""
    i = np.arange(n, dtype=np.uint64)
    sub, part = (i // 512 * 128 + i % 128, i % 512 // 128) if of_bernoulli else (i // 4, i % 4)
    zero = np.zeros_like(sub)
    words = np.stack(philox((zero, zero, sub, zero), seed, 10))
    return words[part.astype(np.int64), i.astype(np.int64)]


def test_all_32_bits_of_a_draw_decide():
    """Probabilities at a draw and one step of 2^-32 above it."""
    n, seed = 5000, 11
    x = torch.ones(n, device="aule")
    fair = draws(seed, n, False)
    for draw in np.sort(fair)[[0, 1, n // 3, n - 1]]:
        for p in (int(draw) / 2**32, (int(draw) + 1) / 2**32):
            mask = seeded(lambda p=p: torch.native_dropout(x, p, True)[1], seed)
            assert np.array_equal(mask.numpy(), fair >= p * 2**32)
    fair = draws(seed, n, True)
    for draw in np.sort(fair)[[0, 1, n // 3, n - 1]]:
        for p in (int(draw) / 2**32, (int(draw) + 1) / 2**32):
            hits = seeded(lambda p=p: torch.empty(n, dtype=torch.bool, device="aule").bernoulli_(p), seed)
            assert np.array_equal(hits.numpy(), fair < p * 2**32)
    small = fair < 2**24  # what float32 holds
    assert small.sum() > 5
    for more in (0, 1):
        probabilities = torch.from_numpy(np.where(small, (fair + np.uint64(more)) / 2.0**32, 0).astype(np.float32))
        hits = seeded(lambda q=probabilities: torch.bernoulli(q.to("aule")), seed)
        assert np.array_equal(hits.numpy() > 0, small & (more == 1))


def test_the_scale_of_float64_dropout():
    x = torch.rand(1000, dtype=torch.float64) + 0.5
    a = x.to("aule").requires_grad_()
    y = F.dropout(a, 0.1)
    y.backward(torch.ones_like(y))
    kept = y.detach().cpu() != 0
    assert_close(y, torch.where(kept, x / 0.9, 0.0), rtol=1e-15, atol=0)
    assert_close(a.grad, kept.double() / 0.9, rtol=1e-15, atol=0)


def test_dropout_edges():
    x = torch.randn(6, 7, 5, device="aule")
    out, mask = torch.native_dropout(x, 0.5, True)
    assert mask.dtype == torch.bool and mask.shape == x.shape
    t = x.transpose(0, 2)
    y, mask = torch.native_dropout(t, 0.5, True)
    assert y.stride() == t.stride()
    assert_close(y, torch.where(mask.cpu(), t.cpu() * 2, 0.0))
    y, mask = torch.native_dropout(x[:, ::2], 0.5, True)
    assert_close(y, torch.where(mask.cpu(), x[:, ::2].cpu() * 2, 0.0))
    grad = torch.ops.aten.native_dropout_backward(
        x.transpose(0, 1)[:, ::2], torch.ones(7, 3, 5, dtype=torch.bool, device="aule"), 2.0
    )
    assert_close(grad, x.cpu().transpose(0, 1)[:, ::2] * 2)
    assert_close(F.dropout(x, 0.0), x.cpu(), rtol=0, atol=0)
    assert_close(F.dropout(x, 1.0), torch.zeros(6, 7, 5), rtol=0, atol=0)
    assert_close(F.dropout(x, 0.7, training=False), x.cpu(), rtol=0, atol=0)
    assert F.dropout(x[:0], 0.5).shape == (0, 7, 5)
    first, second = F.dropout(x, 0.5).cpu(), F.dropout(x, 0.5).cpu()
    assert not torch.equal(first, second)
    assert torch.equal(seeded(lambda: F.dropout(x, 0.5)), seeded(lambda: F.dropout(x, 0.5)))


def test_user_errors():
    x = torch.empty(3, device="aule")
    with pytest.raises(RuntimeError, match="std"):
        x.normal_(0, -1)
    with pytest.raises(RuntimeError, match="from"):
        x.uniform_(2, 1)
    with pytest.raises(RuntimeError, match="floating"):
        x.long().exponential_()
    with pytest.raises(RuntimeError, match="replacement"):
        torch.multinomial(torch.ones(3, device="aule"), 4)


def test_poisson():
    for rate in (0.0, 0.3, 4.0, 9.9, 10.0, 30.0, 1000.0):
        x = torch.poisson(torch.full((N // 4,), rate, device="aule")).cpu().double()
        assert (x == x.floor()).all() and x.min() >= 0
        close_to(x.mean(), rate, math.sqrt(rate) + 1e-12, N // 4)
        close_to(((x - rate) ** 2).mean(), rate, math.sqrt(rate + 2 * rate**2) + 1e-12, N // 4)


def test_rrelu():
    x = torch.randn(N, device="aule", requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    slope = (y.detach().cpu() / x.detach().cpu()).double()
    assert (slope[x.detach().cpu() > 0] == 1).all()
    below = slope[x.detach().cpu() < 0]
    assert below.min() > 0.0999 and below.max() < 0.3001
    close_to(below.mean(), 0.2, 0.2 / math.sqrt(12), below.numel())
    y.backward(torch.ones_like(y))
    drawn = x.detach().cpu() != 0  # zero says nothing of its slope, and one draw in 10^7 is one
    assert_close(x.grad[drawn.to("aule")], slope.float()[drawn], rtol=1e-4)
    assert_close(F.rrelu(x, 0.1, 0.3), F.leaky_relu(x.detach().cpu(), 0.2))
