"""Every row of shaders/pointwise/complex_ops.def, and what pointwise operators do with complex numbers."""

import itertools
import math
import re

import pytest
import torch

from helpers import ROOT, assert_close, assert_close_to_cpu, layouts, like_strided, to_device

pytestmark = pytest.mark.validated

ROW = re.compile(r"^COMPLEX_(UNARY|BINARY|TERNARY)(?:_SPECIAL)?\((\d+), (\w+),", re.MULTILINE)
ROWS = ROW.findall((ROOT / "shaders" / "pointwise" / "complex_ops.def").read_text())
DTYPES = [torch.complex64, torch.complex128]
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}
INF, NAN = math.inf, math.nan

# Of rows that an operator of another name or with arguments reaches.
UNARY = {
    "conj_physical": lambda z: torch.conj_physical(z),
    "square": lambda z: z**2,
    "cube": lambda z: z**3,
    "inverse_square": lambda z: z**-2,
    "sinc": lambda z: torch.sinc(z / 4),  # of larger numbers it is no float32
    "silu": torch.nn.functional.silu,
}
BINARY = {
    "add": lambda x, y: torch.add(x, y, alpha=2 - 1j),
    "sub": lambda x, y: torch.sub(x, y, alpha=0.5),
    "lerp_scalar": lambda x, y: torch.lerp(x, y, 0.25 + 0.5j),
    "sigmoid_backward": torch.ops.aten.sigmoid_backward,
    "tanh_backward": torch.ops.aten.tanh_backward,
    "pow_float": lambda x, y: torch.pow(x, y / 8),
}
TERNARY = {
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=1 - 2j),
    "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=0.5j),
    "where": lambda x, y, z: torch.where(x.real > 0, y, z),
}


SUMS = ("add", "sub", "lerp_scalar", "logaddexp", "sigmoid_backward", "tanh_backward", "addcmul", "addcdiv", "lerp")


def rows(arity):
    named = {"UNARY": UNARY, "BINARY": BINARY, "TERNARY": TERNARY}[arity]
    return {name: named.get(name) or getattr(torch, name) for kind, _, name in ROWS if kind == arity}


def made(*size, dtype):
    """Numbers of all arguments, and of sizes from about 0.05 to 20."""
    real = torch.float64 if dtype == torch.complex128 else torch.float32
    z = torch.polar(torch.exp(torch.randn(size, dtype=real).clamp(-3, 3)), torch.rand(size, dtype=real) * 2 * math.pi)
    return z.to(dtype)


def error(actual, expected, floor=1e-30):
    """The largest error relative to the number, or to `floor` where that is larger, in roundings of its dtype."""
    actual = actual.cpu().resolve_conj().resolve_neg()
    if actual.dtype in (torch.bool, torch.int64):
        assert torch.equal(actual, expected)
        return 0
    wide = torch.complex128 if actual.is_complex() else torch.float64
    assert actual.shape == expected.shape
    assert actual.is_complex() == expected.is_complex()
    if not actual.numel():
        return 0
    unit = torch.finfo(actual.dtype).eps
    return ((actual.to(wide) - expected.to(wide)).abs() / expected.to(wide).abs().clamp(min=floor)).max() / unit


def check(function, *inputs, limit=16, sums=False, device="aule"):
    """`sums`: of numbers that may cancel, so that errors count beside the largest input."""
    dtype = next(x.dtype for x in inputs if x.is_complex())
    wide = [x.to(torch.complex128) if x.is_complex() else x for x in inputs]
    actual = function(*(like_strided(x, device) for x in inputs))
    expected = function(*wide)
    assert actual.dtype == function(*(x[..., :0] if x.dim() else x for x in inputs)).dtype
    largest = max((x.abs().max().item() for x in wide if x.numel()), default=0.0)
    assert error(actual, expected, largest if sums else 1e-30) < limit, dtype


def test_every_row_is_here():
    assert len(ROWS) >= 50
    assert len({(kind, number) for kind, number, _ in ROWS}) == len(ROWS)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", rows("UNARY"))
def test_unary_row(device, name, dtype):
    function = rows("UNARY")[name]
    limit = 400 if name in ("sinc", "sigmoid", "silu") else 16  # pi z and -z are rounded; near a pole that counts
    for _, z in layouts(made(3, 37, dtype=dtype)):
        check(function, z, limit=limit)
    check(function, made(2, 517, dtype=dtype)[:, 1:].t(), limit=limit)
    check(function, made(1037, dtype=dtype).conj(), limit=limit)
    check(function, made(0, 3, dtype=dtype))
    check(function, made(dtype=dtype))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", rows("BINARY"))
def test_binary_row(device, name, dtype):
    function = rows("BINARY")[name]
    options = {"limit": 400 if name == "pow_float" else 64, "sums": name in SUMS}
    for (_, x), (_, y) in zip(layouts(made(5, 19, dtype=dtype)), layouts(made(5, 19, dtype=dtype))):
        check(function, x, y, **options)
    check(function, made(1031, dtype=dtype), made(1031, dtype=dtype), **options)
    if "backward" in name:
        return
    check(function, made(7, 1, dtype=dtype), made(33, dtype=dtype).conj(), **options)
    check(function, made(0, 3, dtype=dtype), made(3, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", rows("TERNARY"))
def test_ternary_row(device, name, dtype):
    function = rows("TERNARY")[name]
    for size in ((5, 19), (1031,), (0, 2)):
        check(function, *(made(*size, dtype=dtype) for _ in range(3)), limit=64, sums=name in SUMS)
    x, y, z = (made(9, 21, dtype=dtype) for _ in range(3))
    check(function, x.t(), y.conj().t(), z[:, 4:5].t(), limit=64, sums=name in SUMS)


SPECIAL = [complex(x, y) for x, y in itertools.product([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, INF, -INF, NAN], repeat=2)]
# Where ours are C's and the CPU's are not, or the CPU's vector loop and its scalar loop differ.
OTHER_SPECIAL = {"expm1": lambda z: not cmath_finite(z), "log1p": lambda z: not cmath_finite(z)}
UNSIGNED = {"sin", "sinh", "acos"}  # the CPU leaves the sign of an infinity beside NaN open, as C does


def cmath_finite(z):
    return math.isfinite(z.real) and math.isfinite(z.imag)


def same_part(actual, expected, unit, unsigned):
    if math.isnan(actual) or math.isnan(expected):
        return math.isnan(actual) and math.isnan(expected)
    if math.isinf(expected):
        return abs(actual) == abs(expected) if unsigned else actual == expected
    return abs(actual - expected) <= 16 * unit * max(1.0, abs(expected))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n in rows("UNARY") if n not in ("sinc", "inverse_square", "cube", "square")])
def test_special_values(device, name, dtype):
    z = torch.tensor([x for x in SPECIAL if not OTHER_SPECIAL.get(name, lambda z: False)(x)], dtype=dtype)
    function, unit = rows("UNARY")[name], torch.finfo(dtype).eps
    actual, expected = function(z.to(device)).cpu().resolve_conj(), function(z).resolve_conj()
    for x, a, e in zip(z.tolist(), actual.tolist(), expected.tolist()):
        a, e = complex(a), complex(e)
        # Parts of a result with NaN and infinity have any sign.
        unsigned = name in UNSIGNED and not (math.isfinite(x.real) and math.isfinite(x.imag))
        assert same_part(a.real, e.real, unit, unsigned), (x, a, e)
        assert same_part(a.imag, e.imag, unit, unsigned), (x, a, e)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values_of_arithmetic(device, dtype):
    x = torch.tensor([a for a, _ in itertools.product(SPECIAL[::3], repeat=2)], dtype=dtype)
    y = torch.tensor([b for _, b in itertools.product(SPECIAL[::3], repeat=2)], dtype=dtype)
    for function in (torch.mul, torch.add, torch.sub, torch.div, torch.eq, torch.ne, torch.logical_and):
        actual, expected = function(x.to(device), y.to(device)).cpu(), function(x, y)
        if expected.dtype == torch.bool:
            assert torch.equal(actual, expected), function
            continue
        assert_close(torch.view_as_real(actual), torch.view_as_real(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "acos", "acosh", "atan", "atanh", "asinh", "angle"])
def test_branch_cuts_keep_the_sign_of_zero(device, name):
    cut = torch.tensor([complex(x, y) for x in (-3.0, 3.0) for y in (0.0, -0.0)])
    cut = torch.cat([cut, torch.tensor([complex(x, y) for x in (0.0, -0.0) for y in (-3.0, 3.0)])])
    for dtype in DTYPES:
        assert_close_to_cpu(getattr(torch, name), cut.to(dtype), rtol=1e-5, atol=1e-6)


def test_extreme_sizes(device):
    flushes = (torch.full((1,), 1e-42, device=device) * 3).item() == 0  # subnormal float32, as many GPUs do
    for dtype, exponents in (
        (torch.complex64, (-38, -30, -20, 18, 30, 37)),
        (torch.complex128, (-300, -160, 150, 300)),
    ):
        for e in exponents:
            z = made(101, dtype=dtype).to(torch.complex128) / 8 * 10.0**e
            z = z.to(dtype)
            z[:2] = torch.tensor([3 + 4j, 1e-5 + 1j], dtype=torch.complex128) * 10.0 ** (e - 4 if e < 0 else e)
            if flushes and dtype == torch.complex64:
                parts = torch.view_as_real(z)
                parts[parts.abs() < torch.finfo(dtype).tiny] = torch.finfo(dtype).tiny
            for function in (torch.abs, torch.sqrt, torch.log, torch.angle, torch.sgn, torch.asinh, torch.acos):
                expected = function(z.to(torch.complex128))
                small = torch.finfo(dtype).tiny * 4  # results near the smallest numbers lose digits
                actual = function(z.to(device)).cpu().to(expected.dtype)
                assert ((actual - expected).abs() <= 16 * torch.finfo(dtype).eps * expected.abs() + small).all(), (
                    function, e)  # fmt: skip


def test_a_number_times_its_conjugate_is_real(device):
    z = torch.randn(4099, dtype=torch.complex64).to(device)
    assert torch.count_nonzero((z * z.conj().resolve_conj()).imag.cpu()) == 0


def test_logarithm_near_the_unit_circle(device):
    angle = torch.rand(2000, dtype=torch.float64) * 2 * math.pi
    for scale in (1e-2, 1e-4, 1e-6):
        z = torch.polar(1 + torch.randn(2000, dtype=torch.float64) * scale, angle).to(torch.complex64)
        expected = torch.log(z.to(torch.complex128)).real
        actual = torch.log(z.to(device)).real.cpu().double()
        assert ((actual - expected).abs() <= 1e-6 * expected.abs() + 1e-13).all()


MIXED = [
    lambda z, x, n: z + x,
    lambda z, x, n: x * z,
    lambda z, x, n: n - z,
    lambda z, x, n: z / n,
    lambda z, x, n: z * 2j,
    lambda z, x, n: x * 1j,
    lambda z, x, n: n * (1 + 2j),
    lambda z, x, n: 3 / z,
    lambda z, x, n: x.double() + z,
    lambda z, x, n: x.half() * z,
    lambda z, x, n: z == x,
    lambda z, x, n: z != 1j,
    lambda z, x, n: x**1j,
    lambda z, x, n: 2**z,
    lambda z, x, n: z**2.5,
    lambda z, x, n: z**0,
    lambda z, x, n: z**1,
    lambda z, x, n: (1 + 1j) ** x,
    lambda z, x, n: z + torch.tensor(2 - 1j),
    lambda z, x, n: torch.tensor(1.5, dtype=torch.float64) * z,
    lambda z, x, n: torch.where(x > 0, z, 1j),
    lambda z, x, n: torch.where(x > 0, x, z),
    lambda z, x, n: torch.where(z.real > 0, 1.0, z),
    lambda z, x, n: z.masked_fill(x > 0, 1 - 2j),
    lambda z, x, n: z.masked_fill(x > 0, z.flatten()[0]),
    lambda z, x, n: torch.addcmul(z, x.to(z.dtype), z, value=2),
    lambda z, x, n: torch.logical_and(z, n),
    lambda z, x, n: torch.abs(z) + z.angle(),
    lambda z, x, n: torch.complex(x, x.flip(0)) * 1j,
    lambda z, x, n: torch.polar(x.abs(), x),
    lambda z, x, n: torch.complex(x.double(), x[:1].double()),
    lambda z, x, n: z.real * z.imag,
    lambda z, x, n: z.conj().imag + 1,
    lambda z, x, n: torch.equal(z, z.clone()) and not torch.equal(z, z + 1),
    lambda z, x, n: torch.isclose(z, z + 1e-9),
    lambda z, x, n: torch.isfinite(z),
    lambda z, x, n: torch.clone(z).mul_(x).add_(1j).div_(2 + z),
    lambda z, x, n: torch.clone(z).logical_not_(),
    lambda z, x, n: torch.rsub(z, x),
    lambda z, x, n: -z,
    lambda z, x, n: z.neg().conj_physical(),
    lambda z, x, n: torch.linspace(1, 2 - 3j, 11, dtype=z.dtype, device=z.device),
]


@pytest.mark.sampled(18)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("i", range(len(MIXED)))
def test_mixed_dtypes_and_scalars(device, i, dtype):
    n = torch.randint(1, 5, (6, 17), dtype=torch.int32)
    tolerance = 2e-5 if dtype == torch.complex64 else 1e-6
    assert_close_to_cpu(MIXED[i], made(6, 17, dtype=dtype), torch.randn(6, 17), n, rtol=tolerance, atol=tolerance,
                        wide=False)  # fmt: skip


def test_complex32(device):
    z, w = torch.randn(5, 33, dtype=torch.complex64).to(torch.complex32), torch.randn(33).to(torch.complex32)
    for function in (
        torch.add,
        torch.mul,
        torch.div,
        lambda x, y: x - 2 * y,
        lambda x, y: torch.where(x.real > 0, x, y),
    ):
        actual = function(z.to(device), w.to(device))
        assert actual.dtype == torch.complex32
        expected = function(z.to(torch.complex64), w.to(torch.complex64))
        assert_close(actual.cpu().to(torch.complex64), expected, rtol=2e-3, atol=2e-3)
    assert (z.to(device) * 1j).dtype == (z.real.to(device) * 1j).dtype == torch.complex32
    assert torch.equal(torch.view_as_real(z.to(device)).cpu(), torch.view_as_real(z))


def test_out_and_in_place(device):
    z, x = made(4, 9, dtype=torch.complex64), torch.randn(4, 9)
    zd, xd = to_device((z, x))
    for dtype in (torch.float64, torch.complex128):
        poison = torch.full((4, 18), NAN, dtype=dtype, device=device)[:, ::2]
        assert_close(torch.abs(zd, out=poison), torch.abs(z).to(dtype), rtol=1e-6, atol=1e-6)
    poison = torch.full((9, 4), NAN, dtype=torch.complex128, device=device).t()
    assert_close(torch.mul(zd, zd, out=poison), torch.mul(z, z, out=torch.empty_like(z, dtype=torch.complex128)),
                 rtol=1e-6, atol=1e-6)  # fmt: skip
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.mul(zd, zd, out=torch.empty(4, 9, device=device))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.abs(zd, out=torch.empty(4, 9, dtype=torch.int64, device=device))
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        zd.abs_()
    with pytest.raises(RuntimeError, match="can't be cast"):
        xd.mul_(1j)
    with pytest.raises(NotImplementedError):
        torch.ceil(zd)
    with pytest.raises(RuntimeError):
        torch.complex(xd, xd.double())
    real = torch.complex(xd, xd, out=torch.empty(36, dtype=torch.complex64, device=device).view(9, 4).t())
    assert torch.equal(real.cpu(), torch.complex(x, x))


DIFFERENTIABLE = [n for n in rows("UNARY") if n not in ("logical_not", "isnan", "isinf", "conj_physical", "silu")]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(device, name):
    function = rows("UNARY")[name]
    z = made(5, 13, dtype=torch.complex64)
    z = z / z.abs().clamp(min=0.7)  # a derivative such as 1 - tanh^2 has no digits far from 0
    weight = torch.randn_like(function(z))
    z.requires_grad_()
    zd = z.detach().to(device).requires_grad_()
    function(zd).backward(weight.to(device))
    wide = z.detach().to(torch.complex128).requires_grad_()
    function(wide).backward(weight.to(torch.complex128 if weight.is_complex() else torch.float64))
    assert_close(zd.grad.cpu().to(torch.complex128), wide.grad, rtol=1e-4, atol=1e-5)


def test_gradients_of_products(device):
    z, w, x = made(6, 5, dtype=torch.complex64), made(5, dtype=torch.complex64), torch.randn(6, 5)

    def gradients(z, w, x):
        leaves = [t.clone().requires_grad_() for t in (z, w, x)]
        a, b, c = leaves
        value = (a * b * c + a.conj() / b + torch.complex(c, a.real)).abs()
        value.backward(torch.ones_like(value))
        return [t.grad for t in leaves[:1]] + [leaves[2].grad]

    assert_close_to_cpu(gradients, z, w[None].expand(6, 5).contiguous(), x, rtol=1e-4, atol=1e-4)
