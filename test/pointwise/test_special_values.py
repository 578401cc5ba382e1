"""Numbers at the ends of their range, zeros with a sign, infinities and NaN: the CPU's results, eager and compiled."""

import math

import pytest
import torch
import torch.nn.functional as F
from test_pointwise import UNARY, op

from helpers import assert_close, like_strided, to_device

BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
in_both_forms = pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])


def any_bits(dtype, n):
    """Numbers of all exponents, some infinite or NaN."""
    limits = torch.iinfo(BITS[dtype])
    return torch.randint(limits.min, limits.max, (n,), dtype=BITS[dtype]).view(dtype)


def formed(function, is_compiled):
    if not is_compiled:
        return function
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def assert_bits_equal(actual, expected):
    actual = actual.cpu()
    kind = BITS[expected.dtype]
    same = (actual.view(kind) == expected.view(kind)) | (actual.isnan() & expected.isnan())
    assert same.all(), (actual[~same][:5], expected[~same][:5])


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_halves_round_to_even(device, dtype, is_compiled):
    """Python's round is the reference. Beside halves, their neighbours, and numbers without a fraction."""
    halves = torch.cat([torch.arange(-40, 40), torch.randint(-(2**22), 2**22, (1000,))]).to(dtype) + 0.5
    up, down = (torch.nextafter(halves, torch.tensor(end, dtype=dtype)) for end in (math.inf, -math.inf))
    digits = 53 if dtype == torch.float64 else 24
    whole = torch.randint(2 ** (digits - 1), 2**digits, (100,)).to(dtype)  # the next numbers are 1 apart, or 2
    x = torch.cat([halves, up, down, whole, -whole, whole * 2.0**60, torch.tensor([0.0, -0.0, -0.2], dtype=dtype)])
    expected = torch.tensor([round(value) for value in x.tolist()], dtype=dtype).copysign(x)
    assert_bits_equal(formed(torch.round, is_compiled)(x.to(device)), expected)
    ends = torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype)
    assert_bits_equal(formed(torch.round, is_compiled)(ends.to(device)), ends)


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_remainders_are_exact(device, dtype, is_compiled):
    """math.fmod is the reference: the CPU's operator is NaN for large quotients."""
    near = torch.randn(2, 500, dtype=dtype)
    ends = torch.tensor([torch.finfo(dtype).max, -torch.finfo(dtype).max, 5.0, 0.0, -0.0, math.inf], dtype=dtype)
    x = torch.cat([any_bits(dtype, 3000), near[0] * 100, ends, ends, near[0]])
    y = torch.cat([any_bits(dtype, 3000), near[1], torch.ones_like(ends), 0.1 * torch.ones_like(ends), near[1] * 0])

    def exact(a, b):
        return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) and b != 0 else math.nan

    expected = torch.tensor([exact(a, b) for a, b in zip(x.tolist(), y.tolist())], dtype=dtype)
    remainder, python_remainder = formed(lambda a, b: (torch.fmod(a, b), torch.remainder(a, b)), is_compiled)(
        x.to(device), y.to(device)
    )
    other_sign = (expected != 0) & ((expected < 0) != (y < 0))
    as_python = torch.where(other_sign, expected + y, expected)
    kept = torch.full_like(x, True, dtype=torch.bool)
    if flushes_subnormals(device, dtype):
        parts = (x, y, expected, as_python)
        kept = torch.stack([(t == 0) | ~(t.abs() < torch.finfo(dtype).smallest_normal) for t in parts]).all(0)
    assert_bits_equal(remainder.cpu()[kept], expected[kept])
    assert_bits_equal(python_remainder.cpu()[kept], as_python[kept])


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_quotients_are_floored_below_a_rounded_one(device, dtype, is_compiled):
    def function(a, b):
        return a % b, a // b, torch.fmod(a, b)

    if dtype == torch.float64:
        x = torch.tensor([5.0, 1, -1, 1, 7, -7, 3e300, 1e16], dtype=dtype)
        y = torch.tensor([0.1, 0.1, 0.1, -0.1, 2, 2, 1e300, 3], dtype=dtype)
        assert_close(formed(function, is_compiled)(*to_device((x, y))), function(x, y), rtol=0, atol=0)
        return
    x, y = torch.tensor([3.4028234663852886e38, -3.4028234663852886e38]), torch.tensor([1.0, 2.5])
    expected = tuple(t.float() for t in function(x.double(), y.double()))
    assert_close(formed(function, is_compiled)(*to_device((x, y))), expected, rtol=1e-7, atol=0)


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_angles_of_any_size(device, dtype, is_compiled):
    """Among them the float64 that is nearest to a multiple of pi / 2, and zeros with their signs."""
    x = any_bits(dtype, 5000)
    x = torch.cat([x[x.isfinite()], torch.randn(2000, dtype=dtype) * 1e6])
    known = torch.tensor([1e16, 1e300, 6381956970095103.0 * 2.0**797, 1e6, 999999.5, 2.0**20, 1.0, 0.0], dtype=dtype)
    x = torch.cat([x, known[known.isfinite()], -known[known.isfinite()]])
    functions = (torch.sin, torch.cos) if dtype == torch.float64 else (torch.sin, torch.cos, torch.tan)
    results = formed(lambda t: [f(t) for f in functions], is_compiled)(x.to(device))
    for f, actual in zip(functions, results):
        expected = f(x.double()).to(dtype)
        eps = torch.finfo(dtype).eps
        assert_close(actual, expected, rtol=16 * eps, atol=0 if dtype == torch.float64 else eps / 8, msg=str(f))
        assert torch.equal(actual.cpu().signbit(), expected.signbit()), f


FUNCTIONS = {name: op(name) for kind, name, _ in UNARY if kind != "INT"} | {
    "round, decimals": lambda x: torch.round(x, decimals=1), "round, tens": lambda x: torch.round(x, decimals=-1),
    "nan_to_num": torch.nan_to_num, "angle": torch.angle, "logical_not": torch.logical_not, "logit": torch.logit,
    "clamp": lambda x: x.clamp(-1, 1), "clamp_min": lambda x: x.clamp_min(0), "clamp_max": lambda x: x.clamp_max(0),
    "square": torch.square, "cube": lambda x: x**3, "inverse square": lambda x: x**-2, "sqrt, power": lambda x: x**0.5,
    "rsqrt, power": lambda x: x**-0.5, "power": lambda x: x**2.5, "odd power": lambda x: x**5, "base": lambda x: 2**x,
    "gelu": F.gelu, "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"), "leaky_relu": F.leaky_relu, "elu": F.elu,
    "celu": lambda x: F.celu(x, 0.7), "selu": F.selu, "softplus": F.softplus, "hardshrink": F.hardshrink,
    "softshrink": F.softshrink, "threshold": lambda x: F.threshold(x, 0.1, 20), "logsigmoid": F.logsigmoid,
    "softsign": F.softsign, "hardtanh": F.hardtanh, "relu6": F.relu6, "tanhshrink": F.tanhshrink,
}  # fmt: skip
BESSEL = [f"special_bessel_{kind}{order}" for kind in "jy" for order in (0, 1)]
BESSEL_K = [f"special_{scaled}modified_bessel_k{order}" for scaled in ("", "scaled_") for order in (0, 1)]
NO_REFERENCE = {  # arguments at which the CPU's own result is no reference
    "trigamma": lambda x: (x < 0) & (x == x.floor()),  # a pole, where its sine is that of a rounded multiple of pi
    "sinc": lambda x: x == x.trunc(),  # the same; ours is 0
    "log1p": lambda x: (x != 0) & (x.abs() < torch.finfo(x.dtype).tiny),  # 0 without a sign; ours is x
    **dict.fromkeys(BESSEL, lambda x: x.abs() > 1e4),  # of a rounded phase
    **dict.fromkeys(BESSEL_K, lambda x: x < torch.finfo(x.dtype).tiny),  # half of the smallest number is 0
    "special_airy_ai": lambda x: x < (-2 if x.dtype == torch.float64 else -1e4),  # of fits without their highest term
}
# A maximum of 0 and -0 is either, as drivers like; x - trunc(x) of -0 is 0, which a driver's frac() is not.
EITHER_ZERO = {"relu", "relu6", "clamp", "clamp_min", "clamp_max", "hardtanh", "frac"}
# PyTorch compiles these otherwise than its operators are: softshrink's decomposition has 0 for NaN, x**-0.5 is pow.
COMPILED_OTHERWISE = {"softshrink", "rsqrt, power"}


def flushes_subnormals(device, dtype):
    """docs/use/limits.md, "Subnormal numbers"."""
    smallest = torch.tensor([torch.finfo(dtype).smallest_normal / 4], dtype=dtype)
    return not (smallest.to(device) * 2).cpu().any()


def ends_of(dtype):
    limits = torch.finfo(dtype)
    subnormal = torch.tensor([1], dtype=BITS[dtype]).view(dtype).double().item()
    ends = [0.0, math.inf, subnormal, limits.smallest_normal, limits.max, limits.eps, 1, 0.5, 2.5, 1e-3, 100]
    return torch.tensor([math.nan, *ends, *(-x for x in ends)], dtype=torch.float64).to(dtype)


def references(function, x):
    """The CPU's results, which differ with the place in a vector: for all numbers, for each alone, in wider dtypes."""
    forms = [
        lambda: function(x),
        lambda: torch.cat([function(part) for part in x.split(1)]),
        lambda: function(x.double()),
        lambda: function(x.float()) if x.dtype.itemsize == 2 else function(x),
    ]
    found = []
    for form in forms:
        try:
            found.append(form())
        except RuntimeError as error:  # no kernel for this dtype
            assert "not implemented for" in str(error), error
    return [r if r.dtype == torch.bool else r.to(x.dtype) for r in found]


@in_both_forms
@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_unary_rows_at_the_ends(device, dtype, is_compiled):
    """Zeros have the CPU's sign, and infinities, subnormals and the largest numbers its results."""
    x = ends_of(dtype)
    if flushes_subnormals(device, dtype):
        x = x[(x == 0) | ~(x.abs() <= torch.finfo(dtype).smallest_normal)]
    names = list(FUNCTIONS)
    if is_compiled:
        names = [n for n in names if n not in COMPILED_OTHERWISE]
    results = []
    for first in range(0, len(names), 12):
        part = names[first : first + 12]
        results += formed(lambda t: [FUNCTIONS[n](t) for n in part], is_compiled)(x.to(device))
    rtol = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    flushed = flushes_subnormals(device, torch.float32)  # 16-bit functions compute in it
    step = x[x > 0].min().double().item()
    wrong = []
    for name, actual in zip(names, results):
        actual, found = actual.cpu(), references(FUNCTIONS[name], x)
        good = NO_REFERENCE.get(name, torch.zeros_like)(x).bool()
        tolerance = 1e-9 if name == "tanhshrink" else rtol  # a difference of two numbers that are nearly the same
        for expected in found:
            near = torch.isclose(actual.double(), expected.double(), rtol=tolerance, atol=2 * step)
            same_sign = actual.signbit() == expected.signbit()
            if name in EITHER_ZERO:
                same_sign |= (actual == 0) & (x == 0)
            if flushed:  # a result that is below float32's normal numbers
                same_sign |= (actual == 0) & (x != 0) & (found[-1].double().abs() < torch.finfo(torch.float32).tiny)
            good |= (near & same_sign) | (actual.isnan() & expected.isnan())
        wrong += [(name, *(t[i].item() for t in (x, actual, *found))) for i in (~good).nonzero().flatten().tolist()]
    assert not wrong, "\n".join(map(str, wrong))


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_binary_functions_at_the_ends(device, dtype, is_compiled):
    def function(x, y):
        return torch.heaviside(x, y), torch.special.xlog1py(y, x.clamp(-0.5)), torch.div(x, y, rounding_mode="trunc")

    x = torch.tensor([math.nan, 0.0, -0.0, math.inf, -math.inf, 0.25, -0.25])
    a, b = torch.meshgrid(x.to(dtype), torch.tensor([0.5, -2.0, 3.0], dtype=dtype), indexing="ij")
    for actual, expected in zip(formed(function, is_compiled)(*to_device((a, b))), function(a, b)):
        assert_close(actual, expected)
        number = ~expected.isnan()
        assert torch.equal(actual.cpu().signbit()[number], expected.signbit()[number])


@pytest.mark.parametrize("columns", [7, 64, 3000, 9000])
def test_norms_of_rows_whose_squares_overflow(device, columns):
    """The scale of such a row is 0 on the CPU. Where the CPU has no number, ours need not be one."""
    x = torch.randn(5, columns)
    x[0] *= 3e19
    x[1] *= 1e25
    x[2] = 1e30
    x[3] = torch.finfo(torch.float32).max * (1 - 2 * (torch.arange(columns) % 2))
    for function in (
        lambda t: F.rms_norm(t, (columns,)),
        lambda t: F.layer_norm(t, (columns,)),
        lambda t: F.group_norm(t.view(5, columns, 1), 1),
    ):
        actual, expected = function(x.to(device)).cpu(), function(x)
        number = ~expected.isnan()
        assert number[4].all()
        assert_close(torch.where(number, actual, 0), torch.where(number, expected, 0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_deviation_of_large_numbers(device, dtype):
    """Squares that overflow give an infinite deviation, and the mean is a number; NaN is for what holds no numbers."""
    scale = torch.finfo(dtype).max
    for shape, dim in (((3, 40), 1), ((3000, 5), 0), ((2, 30, 700), (0, 2)), ((40000,), 0), ((70000, 3), 0)):
        x = torch.rand(shape, dtype=dtype) * 2 - 1
        y = (x * scale).to(device)
        deviation, mean = torch.std_mean(y, dim)
        assert deviation.cpu().isinf().all()
        assert_close(mean.cpu() / scale, x.mean(dim), atol=1e-5)
        assert torch.var(y, dim).cpu().isinf().all()
        # Compiled, a kernel that holds its whole row first sums it, as on CUDA: sums that overflow may give NaN there.
        assert formed(torch.var, True)(y / y.numel(), dim).cpu().isinf().all()
        for value in (math.nan, math.inf, -math.inf):
            z = y.clone()
            z.view(-1)[7] = value
            assert z.var().cpu().isnan()
    small = torch.randn(9000, dtype=dtype) * torch.finfo(dtype).max ** 0.4
    assert_close(small.to(device).std().cpu(), small.std(), rtol=2e-5)


@pytest.mark.float64
def test_pairs_of_float64(device):
    """atan2, hypot and nextafter over all pairs of special and random numbers."""
    some = [0.0, -0.0, 1.0, -1.0, 5e-324, 2.3e-308, 1e-200, 1e200, 1.7e308, math.inf, math.nan, 0.3, -0.999999]
    x = torch.tensor([*some, *(-s for s in some), *torch.randn(40, dtype=torch.float64).tolist()], dtype=torch.float64)
    x, y = x[:, None].expand(-1, x.numel()), x[None].expand(x.numel(), -1)
    for function in (torch.atan2, torch.hypot, torch.nextafter):
        expected, actual = function(x, y), function(like_strided(x), like_strided(y)).cpu()
        if function is torch.nextafter:
            assert_bits_equal(actual, expected)
        torch.testing.assert_close(actual, expected, rtol=4e-15, atol=1e-323, equal_nan=True)
        assert torch.equal(actual.signbit() | actual.isnan(), expected.signbit() | expected.isnan())
        one = torch.tensor(0.7)  # a float32 that promotes
        torch.testing.assert_close(function(x.to(device), one).cpu(), function(x, one), rtol=4e-15, atol=1e-323,
                                   equal_nan=True)  # fmt: skip
    for function in (torch.atan2, torch.hypot):
        leaves = [torch.randn(7, 5, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        ours = [t.detach().to(device).requires_grad_() for t in leaves]
        for a, e in zip(torch.autograd.grad(function(*ours).sum(), ours), torch.autograd.grad(function(*leaves).sum(),
                                                                                             leaves)):  # fmt: skip
            torch.testing.assert_close(a.cpu(), e, rtol=1e-13, atol=1e-13)


@in_both_forms
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_next_number_is_one_of_the_dtype(device, dtype, is_compiled):
    x = torch.cat([any_bits(dtype, 1000), ends_of(dtype), torch.randn(100).to(dtype)])
    for y in (any_bits(dtype, x.numel()), x.flip(0), torch.zeros_like(x), -x, torch.full_like(x, math.inf)):
        expected = torch.nextafter(x, y)
        actual = formed(torch.nextafter, is_compiled)(x.to(device), y.to(device))
        assert_bits_equal(actual, expected)
    in_place, out = x.to(device), torch.empty(0, dtype=dtype, device=device)
    assert_bits_equal(in_place.nextafter_(y.to(device)), expected)
    assert_bits_equal(torch.nextafter(x.to(device), y.to(device), out=out), expected)
    one = torch.ones(3, dtype=dtype)
    assert_bits_equal(torch.nextafter(one.to(device), torch.tensor(2.0)), torch.nextafter(one, torch.tensor(2.0)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_rows_whose_norm_is_larger_than_their_dtype_has(device, dtype):
    x = torch.tensor([[100.0, -100], [3e4, 2e4], [6e4, -6e4], [1e-3, 1e-3]]).repeat(1, 200).to(dtype)
    for p in (1, 2, 3, math.inf):
        expected = torch.renorm(x.double(), p, 0, 5).to(dtype)
        assert_close(torch.renorm(x.to(device), p, 0, 5), expected)
        assert_close(x.to(device).renorm_(p, 0, 5), expected)
        if p == 2:
            looked_up = torch.nn.functional.embedding(torch.arange(4, device=device), x.to(device), max_norm=5.0)
            assert_close(looked_up, expected)
