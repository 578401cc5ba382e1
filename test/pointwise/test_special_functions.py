"""Special functions against mpmath: the CPU's own float64 forms are wrong in the seventh digit for some of them."""

import math

import mpmath
import pytest
import torch

from helpers import assert_close, assert_close_to_cpu, random_tensor

special = torch.special
FLOAT64 = pytest.param(torch.float64, id="float64")


def uniform(low, high, count=60):
    return torch.rand(count, dtype=torch.float64) * (high - low) + low


def near_zero(low, high):
    """Logarithmically spread."""
    return 10 ** uniform(low, high, 20)


def mixed(*ranges):
    return torch.cat([uniform(low, high) for low, high in ranges])


def wide_domain():
    return torch.cat([mixed((-20, 20), (-300, 300)), near_zero(-8, 0), torch.tensor([1.0, 2.0, 5.0, 8.0, -5.0])])


def symmetric():
    return mixed((-88, 88))


def positive():
    return torch.cat([mixed((0, 6), (0, 80)), near_zero(-8, 0), torch.tensor([1.0, 2.0, 5.0, 8.0])])


def amplitude(x, value):
    """Of an oscillation that falls with the root of x."""
    return max(abs(value), min(1.0, 0.8 / math.sqrt(abs(x) + 1e-30)))


def own(*arguments):
    return abs(arguments[-1])


def at_least(least):
    return lambda *arguments: max(least, abs(arguments[-1]))


def of_series(x, value):
    """Ai is a difference of two series up to 2.1, whose sum is Bi / sqrt(3)."""
    return max(0.1, abs(value), mpmath.airybi(x) / math.sqrt(3) if 0 < x < 2.1 else 0)


def polygamma(n):
    return lambda x: torch.polygamma(n, x), lambda x: mpmath.polygamma(n, x)


# name: function, reference, inputs, the scale that errors are relative to, and their bound in roundings of the dtype.
UNARY = {
    "bessel_j0": (special.bessel_j0, mpmath.j0, wide_domain, amplitude, 40),
    "bessel_j1": (special.bessel_j1, mpmath.j1, wide_domain, amplitude, 40),
    "bessel_y0": (special.bessel_y0, lambda x: mpmath.bessely(0, x), positive, amplitude, 40),
    "bessel_y1": (special.bessel_y1, lambda x: mpmath.bessely(1, x), positive, amplitude, 60),
    "spherical_bessel_j0": (special.spherical_bessel_j0, mpmath.sinc, wide_domain, amplitude, 8),
    "modified_bessel_i0": (special.modified_bessel_i0, lambda x: mpmath.besseli(0, x), symmetric, own, 24),
    "modified_bessel_i1": (special.modified_bessel_i1, lambda x: mpmath.besseli(1, x), symmetric, own, 48),
    "modified_bessel_k0": (special.modified_bessel_k0, lambda x: mpmath.besselk(0, x), positive, own, 32),
    "modified_bessel_k1": (special.modified_bessel_k1, lambda x: mpmath.besselk(1, x), positive, own, 32),
    "scaled_modified_bessel_k0": (
        special.scaled_modified_bessel_k0, lambda x: mpmath.exp(x) * mpmath.besselk(0, x), positive, own, 32
    ),
    "scaled_modified_bessel_k1": (
        special.scaled_modified_bessel_k1, lambda x: mpmath.exp(x) * mpmath.besselk(1, x), positive, own, 32
    ),
    "i0e": (special.i0e, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), wide_domain, own, 24),
    "i1e": (special.i1e, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), wide_domain, own, 48),
    "airy_ai": (special.airy_ai, mpmath.airyai, lambda: mixed((-9, 9), (-200, 2)), of_series, 12),
    "airy_ai_tail": (special.airy_ai, mpmath.airyai, lambda: mixed((2.1, 18)), own, 24),
    "ndtri": (
        special.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1),
        lambda: torch.cat([uniform(0.001, 1), near_zero(-25, -1)]), at_least(0.1), 16,
    ),
    "erfinv": (torch.erfinv, mpmath.erfinv, lambda: mixed((-1, 1)), own, 16),
    "erfcx": (special.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), lambda: mixed((-5, 25)), own, 48),
    "lgamma": (
        torch.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x))), lambda: mixed((-9, 9), (1, 300)), at_least(3), 48
    ),
    "digamma": (torch.digamma, mpmath.digamma, lambda: mixed((0.1, 99)), at_least(0.1), 64),
    "sinc": (torch.sinc, lambda x: mpmath.sincpi(x), lambda: mixed((-9, 9)), at_least(0.1), 16),
    "polygamma_1": (*polygamma(1), lambda: mixed((0.1, 99)), own, 64),
    "polygamma_2": (*polygamma(2), lambda: mixed((0.1, 99)), own, 48),
    "polygamma_5": (*polygamma(5), lambda: mixed((0.2, 30)), own, 64),
}  # fmt: skip


def worst(function, reference, scale, dtype, *inputs):
    """The largest error in roundings of the dtype."""
    inputs = [x.to(dtype) for x in inputs]
    result = function(*[x.to("aule") for x in inputs])
    assert result.dtype == dtype
    most = 0.0
    for value, *arguments in zip(result.tolist(), *[x.tolist() for x in inputs]):
        with mpmath.workdps(40):
            expected = reference(*[mpmath.mpf(a) for a in arguments]).real
        size = scale(*arguments, expected)
        if size < 1e-36:  # below, float32 has no digits
            assert abs(value) < 2e-36, (arguments, value)
            continue
        error = float(abs(value - expected) / size) / torch.finfo(dtype).eps
        assert not math.isnan(error), (arguments, value, expected)
        most = max(most, error)
    return most


@pytest.mark.sampled(22)
@pytest.mark.validated
@pytest.mark.parametrize("dtype", [torch.float32, FLOAT64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(device, name, dtype):
    function, reference, inputs, scale, bound = UNARY[name]
    assert worst(function, reference, scale, dtype, inputs()) < bound


def regular_gamma(upper):
    a, x = mixed((0, 2), (0, 30), (0, 900), (900, 9000)), mixed((0, 2), (0, 30), (0, 900), (900, 9000))
    a[::3] = x[::3] * (1 + torch.randn(80, dtype=torch.float64) / x[::3].sqrt()).abs()  # near each other

    def reference(a, x):
        with mpmath.workdps(60):
            return mpmath.gammainc(a, x, mpmath.inf, regularized=True) if upper else mpmath.gammainc(
                a, 0, x, regularized=True)  # fmt: skip

    return a, x, reference


@pytest.mark.validated
@pytest.mark.parametrize("dtype", [torch.float32, FLOAT64], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_incomplete_gamma(device, upper, dtype):
    a, x, reference = regular_gamma(upper)
    function = torch.igammac if upper else torch.igamma
    assert worst(function, reference, at_least(1e-2), dtype, a, x) < 200


@pytest.mark.parametrize("dtype", [torch.float32, FLOAT64], ids=str)
def test_zeta(device, dtype):
    s, q = torch.cat([uniform(1.05, 20), uniform(1.05, 6)]), mixed((0.1, 20), (0.01, 1000))
    assert worst(special.zeta, lambda s, q: mpmath.zeta(s, q), own, dtype, s, q) < 100
    s, q = torch.randint(2, 7, (60,)).double(), uniform(-40, 0)

    def largest_term(s, q, value):
        return max(abs(value), abs(q - round(q)) ** -s)

    assert worst(special.zeta, lambda s, q: mpmath.zeta(s, q), largest_term, dtype, s, q) < 200
    assert special.zeta(torch.tensor([2.0], device=device), -10000.5).isfinite().all()


POLYNOMIALS = {
    "chebyshev_polynomial_t": mpmath.chebyt,
    "chebyshev_polynomial_u": mpmath.chebyu,
    "hermite_polynomial_h": lambda n, x: mpmath.hermite(n, x),
    "hermite_polynomial_he": lambda n, x: mpmath.hermite(n, x / mpmath.sqrt(2)) / mpmath.sqrt(2) ** n,
    "laguerre_polynomial_l": lambda n, x: mpmath.laguerre(n, 0, x),
    "legendre_polynomial_p": mpmath.legendre,
}


@pytest.mark.validated
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(device, name):
    function, reference = getattr(special, name), POLYNOMIALS[name]
    x, n = mixed((-1, 1), (0, 3)), torch.randint(0, 14, (120,)).double()

    # The same polynomial with the magnitudes of its terms, which is what a recurrence rounds: signs alternate with the
    # degree, so they all agree on the imaginary axis, and those of Laguerre's below 0.
    away = -1 if name == "laguerre_polynomial_l" else 1j

    def of_terms(x, n, value):
        return max(float(abs(reference(int(n), away * abs(x)))), n + 1)  # Chebyshev's are cosines within [-1, 1]

    for dtype in (torch.float32, torch.float64):
        assert worst(function, lambda x, n: reference(int(n), x), of_terms, dtype, x, n) < 50


KINDS = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [*KINDS, *(n for n in POLYNOMIALS if n not in KINDS)])
def test_polynomials_like_the_cpu(device, name):
    function = getattr(special, name)
    x, n = random_tensor(13, 31, low=-2, high=2).double(), torch.randint(-2, 12, (31,))
    assert_close(function(x.to(device), n.to(device)), function(x, n), rtol=1e-9, atol=1e-9)
    assert_close(function(x.t().to(device), n[:, None].to(device)), function(x.t(), n[:, None]), rtol=1e-9, atol=1e-9)
    assert_close(function(x.to(device), 3), function(x, 3), rtol=1e-9, atol=1e-9)
    assert_close(function(0.25, n.to(device)), function(0.25, n))
    edges = torch.tensor([1.0, -1.0, 0.0, 0.5, math.inf, -math.inf])
    degrees = torch.tensor([0.0, 1.0, 2.0, 7.0, 40.0, -1.0, -0.5, 2.5, math.nan, math.inf, -math.inf])[:, None]
    if (
        name not in ("chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w")
        and "shift" not in name
    ):
        assert_close(function(edges.to(device), degrees.to(device)), function(edges, degrees), rtol=1e-4, atol=1e-3)
    whole = torch.arange(-3, 4)
    assert_close(function(whole.to(device), whole[:, None].to(device)), function(whole, whole[:, None]), rtol=1e-4)


def test_long_recurrences(device):
    n = torch.tensor([5000.0, 8192.0, 20000.0], device=device)
    x = torch.tensor([[-0.3], [0.999], [1.0]], device=device)
    t = special.chebyshev_polynomial_t(x, n).cpu()
    assert (t.abs() <= 1.0001).all() and (t[2] == 1).all()
    grown = special.chebyshev_polynomial_t(torch.tensor([1 + 2.0**-20], device=device), n[2:])
    assert_close(grown.double(), torch.cosh(20000 * torch.acosh(torch.tensor([1 + 2.0**-20]).double())), rtol=1e-4)
    p = special.legendre_polynomial_p(x, n).cpu()
    assert (p[:, :2].abs() <= 1.0001).all() and p[:2, 2].isnan().all() and p[2, 2] == 1


EDGES = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, -3.0, 1e-30, -2.5])


@pytest.mark.parametrize("name", [n for n in UNARY if "gamma" not in n and n != "airy_ai_tail"])
def test_edges(device, name):
    function = UNARY[name][0]
    for dtype in (torch.float32, torch.float64):
        x = EDGES.to(dtype)
        assert_close(function(x.to(device)), function(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_edges(device, name):
    function = getattr(torch, name)
    for dtype in (torch.float32, torch.float64):
        x = EDGES.to(dtype)
        assert_close(function(x.to(device), x[:, None].to(device)), function(x, x[:, None]), rtol=1e-5, atol=1e-5)
    x = random_tensor(7, 5, low=0.1, high=5)
    y = x.to(device)
    assert_close(getattr(y, name + "_")(x.t().contiguous().t().to(device)), getattr(x, name + "_")(x.clone()))


def test_zeta_edges(device):
    x = torch.cat([EDGES, torch.tensor([2.0, 3.0, 0.5])])
    assert_close_to_cpu(special.zeta, x[~x.isinf()], x[:, None], rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool], ids=str)
def test_dtypes(device, dtype):
    x = random_tensor(5, 33, low=1, high=9, dtype=dtype)
    for function in [UNARY[n][0] for n in ("modified_bessel_k0", "bessel_y1", "spherical_bessel_j0", "polygamma_2")]:
        assert_close_to_cpu(function, x)
        assert_close_to_cpu(function, x.t()[3:])
    if not dtype.is_floating_point:
        assert_close_to_cpu(special.zeta, x + 2, x)
        assert_close_to_cpu(special.hermite_polynomial_he, x, x)
    else:
        assert_close_to_cpu(torch.igamma, x, x)
    empty = special.bessel_j0(torch.empty(0, 3, dtype=dtype, device=device))
    assert empty.shape == (0, 3)
    out = torch.full((5, 33), math.nan, device=device)
    special.airy_ai(x.to(device), out=out)
    assert_close(out, special.airy_ai(x.float()))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: special.zeta(torch.tensor([2.0, 3.5, 5.0], device=x.device, dtype=x.dtype), x[:, None]),
        lambda x: torch.polygamma(2, x),
        lambda x: special.ndtri(x / 10),
        lambda x: torch.igamma(torch.full_like(x, 2.5), x),
        lambda x: torch.igammac(torch.full_like(x, 0.5), x),
        lambda x: special.i0(x) + special.i1(x) + special.i0e(x) + special.i1e(x),
    ],
    ids=["zeta", "polygamma", "ndtri", "igamma", "igammac", "bessel"],
)
def test_gradients(device, function):
    x = random_tensor(37, low=0.3, high=5)
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        ours, theirs = x.to(device, dtype).requires_grad_(), x.double().requires_grad_()
        function(ours).sum().backward()
        function(theirs).sum().backward()
        if dtype == torch.float64 and function(theirs).shape == (37,):
            tolerance = 1e-6  # the CPU's i1e, trigamma and igammac have fewer digits
        assert_close(ours.grad.double(), theirs.grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_compiled(device, dtype):
    """Generated kernels leave these functions to the eager ones."""

    def function(x, n):
        y = x.abs() + 1
        total = special.bessel_j0(x) + special.zeta(y + 1, 3.0) + torch.igamma(y, y) + torch.polygamma(3, y)
        total += special.chebyshev_polynomial_t(x / 4, n) + special.i0(x) + special.ndtri(torch.sigmoid(x))
        return total * torch.frexp(x)[0], torch.frexp(y * 2)[1]

    x, n = random_tensor(41, dtype=dtype), torch.randint(0, 9, (41,))
    compiled = torch.compile(function)(x.to(device), n.to(device))
    assert_close(
        compiled,
        function(x.to(device), n.to(device)),
        **({"rtol": 0.1, "atol": 0.1} if dtype == torch.bfloat16 else {}),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_frexp(device, dtype):
    limits = torch.finfo(dtype)
    ends = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -0.5, limits.max, limits.smallest_normal])
    x = torch.cat([random_tensor(5, 37, dtype=dtype).flatten(), ends.to(dtype), (10 ** uniform(-4, 4)).to(dtype)])
    subnormal = torch.tensor([limits.smallest_normal / 8, -limits.smallest_normal / 2], dtype=torch.float64).to(dtype)
    x = torch.cat([x, subnormal])
    for t in (x, x[3:].view(-1, 2).t() if len(x[3:]) % 2 == 0 else x[2:].view(-1, 2).t()):
        mantissa, exponent = torch.frexp(t.to(device))
        expected = torch.frexp(t.float() if dtype == torch.bfloat16 else t)
        assert_close((mantissa, exponent), (expected[0].to(dtype), expected[1]), rtol=0, atol=0)
    out = torch.empty(0, dtype=dtype, device=device), torch.empty(0, dtype=torch.int32, device=device)
    torch.frexp(x.to(device), out=out)
    assert_close(torch.ldexp(out[0].cpu().float(), out[1].cpu())[:185], x.float()[:185], rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="floating-point"):
        torch.frexp(torch.ones(3, dtype=torch.int32, device=device))
