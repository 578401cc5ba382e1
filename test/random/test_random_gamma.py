"""Gamma, Dirichlet and binomial draws and their gradients. Kernels: gamma, gamma_grad, binomial.

Statistical bounds are about six standard deviations wide.
"""

import math

import pytest
import torch
from torch.distributions import Beta, Dirichlet, Gamma

from helpers import FLOATS, assert_close, check_program, layouts, like_strided, relative_error, without

pytestmark = pytest.mark.validated

N = 1 << 15
DTYPES = [*FLOATS, torch.float64]
gamma, gamma_grad = torch._standard_gamma, torch.ops.aten._standard_gamma_grad
dirichlet, dirichlet_grad = torch._sample_dirichlet, torch._dirichlet_grad


def seeded(draw, seed=5):
    torch.aule.manual_seed(seed)
    return draw().cpu()


def distance(x, cdf):
    """Kolmogorov and Smirnov's."""
    x = x.double().sort().values
    steps = torch.arange(0, x.numel() + 1, dtype=torch.float64) / x.numel()
    at = cdf(x)
    return torch.maximum((at - steps[1:]).abs().max(), (at - steps[:-1]).abs().max()).item()


# Gamma ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.3, 60.0])
def test_gamma(shape, dtype):
    a = torch.full((N,), shape, dtype=dtype, device="aule")
    x = gamma(a).cpu()
    assert x.dtype == dtype and (x > 0).all() and x.isfinite().all()
    a = a[0].cpu().double()
    # 16-bit storage rounds the shape, the draws, and the smallest ones up.
    slack = {torch.float16: 5e-3, torch.bfloat16: 2e-2}.get(dtype, 0)
    if dtype == torch.float16 and shape < 0.1:
        x, slack = x[x > 1e-3], None
    if slack is not None:
        assert distance(x, lambda t: torch.special.gammainc(a, t)) < 3 / math.sqrt(N) + slack
        mean, deviation = x.double().mean(), math.sqrt(a)
        assert abs(mean - a) < 6 * deviation / math.sqrt(N) + slack * a
        assert abs(x.double().var() - a) < 6 * math.sqrt((2 * a * a + 6 * a) / N) + 2 * slack * a


def test_gamma_of_large_and_tiny_shapes():
    x = gamma(torch.full((N,), 1e6, device="aule")).cpu().double()
    z = (x - 1e6) / 1e3
    assert abs(z.mean()) < 6 / math.sqrt(N) and abs(z.var() - 1) < 6 * math.sqrt(2 / N)
    x = gamma(torch.full((N,), 1e-3, dtype=torch.float64, device="aule")).cpu()
    a = torch.tensor(1e-3, dtype=torch.float64)
    kept = x[x > 1e-300]
    assert abs(kept.numel() / N - (1 - torch.special.gammainc(a, a * 0 + 1e-300))) < 6 * 0.5 / math.sqrt(N)
    edge = gamma(torch.tensor([0.0, -1.0, torch.nan], device="aule")).cpu()
    assert 0 < edge[0] < 1e-30 and edge[1:].isnan().all()


@pytest.mark.parametrize("draw", [
    lambda: gamma(torch.full((70, 9), 0.8, device="aule")),
    lambda: dirichlet(torch.full((70, 9), 0.8, device="aule")),
    lambda: torch.binomial(torch.full((70, 9), 40.0, device="aule"), torch.full((70, 9), 0.4, device="aule")),
])  # fmt: skip
def test_reproducible(draw):
    """By the seed; new numbers with each call."""
    assert torch.equal(seeded(draw), seeded(draw))
    assert not torch.equal(seeded(draw, 5), seeded(draw, 6))
    first, second = draw(), draw()
    assert not torch.equal(first.cpu(), second.cpu())
    state = torch.aule.get_rng_state()
    first = draw().cpu()
    torch.aule.set_rng_state(state)
    assert torch.equal(first, draw().cpu())


def test_own_generator():
    own = torch.Generator("aule").manual_seed(11)
    a = torch.full((500,), 2.5, device="aule")
    first = gamma(a, own).cpu()
    assert torch.equal(first, gamma(a, own.manual_seed(11)).cpu()) and not torch.equal(first, gamma(a, own).cpu())


def test_no_correlation():
    x = gamma(torch.full((N,), 4.0, device="aule")).cpu().double()
    x = (x - x.mean()) / x.std()
    for lag in (1, 2, 4, 128):
        assert abs((x[lag:] * x[:-lag]).mean()) < 6 / math.sqrt(N)


# Gradients -----------------------------------------------------------------------------------------------------


def assert_gradient(actual, expected, dtype):
    """Element by element: a gradient spans many magnitudes."""
    tolerance = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2}[dtype]
    torch.testing.assert_close(actual.cpu().double(), expected.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gamma_grad(dtype):
    """All regions: near 0, near the mean of large shapes, and between."""
    a = torch.cat([torch.rand(400) * 2 + 0.05, torch.rand(400) * 10, torch.rand(400) * 200 + 8]).to(dtype)
    x = torch._standard_gamma(a.double()).clamp_min(1e-3).to(dtype)
    assert_gradient(gamma_grad(a.to("aule"), x.to("aule")), gamma_grad(a.double(), x.double()), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dirichlet_grad(dtype):
    a = torch.cat([torch.rand(400, 3) * 2 + 0.1, torch.rand(400, 3) * 20 + 0.3, torch.rand(400, 3) * 90 + 7]).to(dtype)
    x = torch._sample_dirichlet(a.double()).clamp(1e-2, 0.99).to(dtype)
    total = a.double().sum(-1, True).expand_as(a).contiguous().to(dtype)
    expected = dirichlet_grad(x.double(), a.double(), total.double())
    actual = dirichlet_grad(x.to("aule"), a.to("aule"), total.to("aule"))
    if dtype.itemsize >= 4:
        assert_gradient(actual, expected, dtype)
    else:
        assert relative_error(actual, expected) < 2e-2


def test_gradient_is_that_of_the_quantile():
    """Against differences of the distribution function, which no approximation is in."""
    a = (torch.rand(300, dtype=torch.float64) * 30 + 0.3).requires_grad_()
    x = torch._standard_gamma(a.detach()).clamp_min(1e-2)
    step = 1e-5
    up, down = torch.special.gammainc(a.detach() + step, x), torch.special.gammainc(a.detach() - step, x)
    density = torch.exp((a.detach() - 1) * x.log() - x - torch.lgamma(a.detach()))
    expected = -(up - down) / (2 * step) / density
    actual = gamma_grad(a.detach().to("aule"), x.to("aule")).cpu()
    kept = density > 1e-3
    assert ((actual - expected).abs() / expected.abs().clamp_min(0.1))[kept].max() < 5e-3


def test_distributions_are_differentiable():
    for make, sizes in (
        (lambda p: Gamma(p, torch.ones_like(p)), (50,)),
        (lambda p: Dirichlet(p), (20, 4)),
        (lambda p: Beta(p, 2 * p), (50,)),
    ):
        p = (torch.rand(sizes) * 5 + 0.3).to("aule").requires_grad_()
        x = make(p).rsample()
        (g,) = torch.autograd.grad(x.square().sum(), p)
        assert g.cpu().isfinite().all() and x.shape[: len(sizes)] == p.shape
        assert (g.cpu() != 0).double().mean() > 0.9


def test_gradient_without_float64():
    check_program("random_gamma_grad", **without("float64"))


def test_strides_of_gradients():
    a, x = torch.rand(6, 7) * 5 + 0.5, torch.rand(6, 7) * 4 + 0.1
    expected = gamma_grad(a, x)
    for _, view in layouts(a):
        for _, other in layouts(x):
            assert_close(gamma_grad(like_strided(view), like_strided(other)), expected, rtol=1e-4)


# Dirichlet -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shapes", [(0.4, 0.9, 2.0), (5.0, 1.0), (0.01, 0.01, 0.01, 0.01)])
def test_dirichlet(shapes, dtype):
    a = torch.tensor(shapes, dtype=dtype)
    x = dirichlet(a.expand(N, -1).to("aule")).cpu()
    assert x.dtype == dtype and (x > 0).all() and (x < 1).all()
    a, x = a.double(), x.double()
    slack = {torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 1e-6)
    assert (x.sum(-1) - 1).abs().max() < 4 * slack + 1e-6
    mean = a / a.sum()
    variance = mean * (1 - mean) / (a.sum() + 1)
    assert ((x.mean(0) - mean).abs() < 6 * (variance / N).sqrt() + slack).all()
    assert ((x.var(0) - variance).abs() < 6 * (variance / N).sqrt() + slack).all()


def test_dirichlet_without_elements():
    assert dirichlet(torch.ones(0, 3, device="aule")).shape == (0, 3)
    assert gamma(torch.ones(2, 0, device="aule")).shape == (2, 0)
    assert gamma_grad(torch.ones(2, 0, device="aule"), torch.ones(2, 0, device="aule")).shape == (2, 0)
    assert torch.binomial(torch.ones(0, device="aule"), torch.ones(0, device="aule")).shape == (0,)


# Binomial ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n, q", [
    (1, 0.3), (12, 0.5), (15, 0.9), (40, 0.25), (40, 0.75), (1000, 0.004), (1000, 0.3), (3000, 0.97), (1 << 20, 0.37),
])  # fmt: skip
def test_binomial(n, q, dtype):
    counts, chances = torch.full((N,), float(n), dtype=dtype), torch.full((N,), q, dtype=dtype)
    x = torch.binomial(counts.to("aule"), chances.to("aule")).cpu()
    assert x.dtype == dtype and x.min() >= 0 and x.max() <= n and torch.equal(x, x.floor())
    x, q = x.double(), chances[0].double()
    deviation = (n * q * (1 - q)).sqrt()
    assert abs(x.mean() - n * q) < 6 * deviation / math.sqrt(N)
    assert abs(x.var() / deviation**2 - 1) < 6 * math.sqrt((2 + 1 / deviation**2) / N)
    k = torch.arange(n + 1, dtype=torch.float64)
    log = torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    cdf = torch.exp(log + k * q.log() + (n - k) * torch.log1p(-q)).cumsum(0)
    seen = torch.bincount(x.long(), minlength=n + 1).double().cumsum(0) / N
    assert (seen - cdf).abs().max() < 3 / math.sqrt(N)


def test_binomial_edges():
    n = torch.tensor([0.0, 5.0, 5.0, 5.0, -1.0, 7.0])
    q = torch.tensor([0.5, 0.0, 1.0, torch.nan, 0.5, 2.0])
    assert_close(torch.binomial(n.to("aule"), q.to("aule")), torch.tensor([0.0, 0.0, 5.0, torch.nan, 0.0, 7.0]))
    x = torch.binomial(torch.full((6, 1), 9.0, device="aule").expand(6, 4), torch.full((6, 4), 0.5, device="aule").T.mT)
    assert x.shape == (6, 4)
    with pytest.raises(RuntimeError, match="dtype"):
        torch.binomial(n.to("aule"), q.to("aule").half())


def test_draws_anew_in_a_graph():
    a = torch.full((200,), 1.7, device="aule")
    graph = torch.aule.Graph()
    with torch.Stream(device="aule"), graph:
        out = gamma(a)
    drawn = []
    for _ in range(2):
        graph.replay()
        torch.aule.synchronize()
        drawn.append(out.cpu())
    assert (drawn[0] > 0).all() and not torch.equal(*drawn)
