"""Functions of floating-point elements: arithmetic, activations, special functions, special values, broadcasting."""

import math

import torch
import torch.nn.functional as F

from compiled.row import INF, NAN, Table, bools, ints, like, normal, uniform, values

table = Table("pointwise")
A, B = normal(6, 33), normal(6, 33)
SPECIAL = values(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e30, -1e30, 1e-40, 88.9, -104.0)

for name, function in {
    "abs": torch.abs,
    "neg": torch.neg,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sigmoid": torch.sigmoid,
    "square": torch.square,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "frac": torch.frac,
    "sign": torch.sign,
    "sgn": torch.sgn,
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "softplus": F.softplus,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "hardsigmoid": F.hardsigmoid,
    "leaky relu": F.leaky_relu,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "logsigmoid": F.logsigmoid,
    "sinc": torch.sinc,
    "rad2deg": torch.rad2deg,
    "deg2rad": torch.deg2rad,
}.items():
    smooth = name not in ("floor", "ceil", "trunc", "round", "sign", "sgn")
    table(
        name, lambda x, y, f=function: (f(x), f(x + y) * 0.5), A, B, grad=smooth, dynamic=name == "gelu", tolerance=1e-4
    )

for name, function in {
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "reciprocal": torch.reciprocal,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "acosh of 1 + x": lambda x: torch.acosh(1 + x),
    "xlogy": lambda x: torch.xlogy(x, x + 1),
    "xlog1py": lambda x: torch.special.xlog1py(x, x),
    "entr": torch.special.entr,
    "i0": torch.special.i0,
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
    "ndtr": torch.special.ndtr,
    "log ndtr": torch.special.log_ndtr,
    "erfcx": torch.special.erfcx,
    "logit": lambda x: torch.logit(x / 4),
    "asin": lambda x: torch.asin(x / 3.1),
    "acos": lambda x: torch.acos(x / 3.1),
    "atanh": lambda x: torch.atanh(x / 4),
    "erfinv": lambda x: torch.erfinv(x / 3.5),
    "ndtri": lambda x: torch.special.ndtri(x / 3.5),
    "polygamma 1": lambda x: torch.polygamma(1, x),
    "zeta": lambda x: torch.special.zeta(x + 1.5, x),
    "multigammaln": lambda x: torch.special.multigammaln(x + 1, 2),
    "spherical bessel j0": torch.special.spherical_bessel_j0,
    "bessel j1": torch.special.bessel_j1,
    "modified bessel k0": torch.special.modified_bessel_k0,
    "airy": torch.special.airy_ai,
    "gammainc": lambda x: torch.special.gammainc(x, x + 0.5),
    "chebyshev polynomial": lambda x: torch.special.chebyshev_polynomial_t(x / 4, 3),
}.items():
    table(
        name,
        lambda x, f=function: f(x) + 1,
        uniform(5, 40, low=0.2, high=3.0),
        dynamic=False,
        tolerance=1e-4,
    )

for name, function in {
    "div": torch.div,
    "pow": lambda x, y: torch.pow(x.abs() + 0.1, y),
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "copysign": torch.copysign,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "floor divide": torch.floor_divide,
    "maximum": torch.maximum,
    "fmax": torch.fmax,
    "minimum": torch.minimum,
    "fmin": torch.fmin,
    "heaviside": torch.heaviside,
    "nextafter": torch.nextafter,
    "trunc of the quotient": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "dist": torch.dist,
    "ldexp": lambda x, y: torch.ldexp(x, y.round()),
    "float power": lambda x, y: torch.float_power(x.abs() + 0.1, y),
    "squared difference": lambda x, y: (x - y) ** 2,
    "rsub": lambda x, y: torch.rsub(x, y, alpha=0.5),
}.items():
    exact = name in ("nextafter", "floor divide", "remainder", "fmod", "trunc of the quotient")
    table(name, lambda x, y, f=function: (f(x, y), f(x * 3, y)), A, B, exact=exact, tolerance=1e-4, dynamic=False)

for name, function in {
    "cubed": lambda x: x**3,
    "to the power -2": lambda x: x**-2.0,
    "to the power 0.5": lambda x: x.abs() ** 0.5,
    "to the power 0": lambda x: x**0,
    "2 to the power x": lambda x: 2**x,
    "pow by a tensor of 1 element": lambda x: x.abs() ** torch.tensor(1.5, device=x.device),
    "-0.5 to the power of whole numbers": lambda x: torch.pow(-0.5, x.round()),
    "clamp": lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.1), x.clamp(0.5, -0.5)),
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "round to 2 decimals": lambda x: torch.round(x, decimals=2),
    "rounding of halves": lambda x: torch.round(torch.floor(x * 4) + 0.5),
    "nan to num": torch.nan_to_num,
    "where with scalars": lambda x: (torch.where(x > 0, 1.0, 0.0), torch.where(x > 0, x, -1), torch.where(x < 0, 2, x)),
    "scalars of two kinds": lambda x: (x + 1, x * 2.5, 3 - x, 1 / (x * x + 1), x + True),
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "glu": lambda x: F.glu(x[:, :32], -1),
    "logical of floats": lambda x: (torch.logical_and(x, x.round()), torch.logical_not(x.round()), x.round().bool()),
    "bits of signs": lambda x: (torch.signbit(x), torch.copysign(torch.ones_like(x), -x)),
    "comparisons with numbers": lambda x: (x > 0, x >= 1, x == x.round(), x != 0, x.isfinite()),
    "polynomial": lambda x: ((0.1 * x + 0.2) * x + 0.3) * x + math.pi,
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
    "addcdiv": lambda x: torch.addcdiv(x, x, x * x + 1, value=-2),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "lerp far out": lambda x: torch.lerp(x, x * 2, 700.0),
    "a long chain": lambda x: sum(torch.sin(x * k) for k in range(24)),
    "a number of the program": lambda x: x * torch.tensor([1.0, 2.0, 3.0] * 11, device=x.device),
    "infinite constants": lambda x: (torch.where(x > 0, INF, x), torch.where(x > 0, -INF, x), torch.full_like(x, NAN)),
    "a huge constant": lambda x: (x * 1e38, x + 3.4e38, (x * 0 + 1e-45) * 2),
    "frexp": lambda x: torch.frexp(x),
    "isclose": lambda x: torch.isclose(x, x + 1e-7),
    "bernoulli likelihood": lambda x: F.binary_cross_entropy(x.sigmoid(), (x > 0).to(x.dtype), reduction="none"),
    "masked fill": lambda x: x.masked_fill(x > 0, -INF),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3], device=x.device, dtype=x.dtype)),
    "rrelu in evaluation": lambda x: F.rrelu(x, training=False),
    "cosine similarity": lambda x: F.cosine_similarity(x, x + 1, 1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]),
    "complex numbers by hand": lambda x: (x[:, 0::3] * x[:, 1::3] - x[:, 2::3], torch.atan2(x[:, 0::3], x[:, 1::3])),
}.items():
    table(
        name,
        function,
        A,
        tolerance=1e-4,
        exact=name in ("nan to num", "isclose", "a huge constant", "frexp"),
    )

for name, function in {
    "arithmetic": lambda x: (
        x + x,
        x * x,
        x - x,
        x / x,
        1 / x,
        -x,
        0 - x,
        x.abs(),
        (x + 1e8) - 1e8,
        (x * 1e30) * 1e-30,
    ),
    "comparisons": lambda x: (x == x, x != x, x < 1, x >= 1, x > x, x <= x),
    "tests": lambda x: (
        x.isnan(),
        x.isinf(),
        x.isfinite(),
        x.isposinf(),
        x.isneginf(),
        x.signbit(),
        x.bool(),
        ~x.bool(),
    ),
    "limits": lambda x: (x.clamp(-1, 1), x.clamp(min=0), F.relu(x), F.relu6(x), F.hardtanh(x), F.threshold(x, 0, 7)),
    "largest and smallest": lambda x: (
        torch.maximum(x, 1 / x),
        torch.minimum(x, -x),
        torch.fmax(x, x * NAN),
        torch.fmin(x, x.flip(0)),
        torch.maximum(x.flip(0), x),
    ),
    "activations": lambda x: (x.tanh(), x.sigmoid(), F.silu(x), F.gelu(x), F.softplus(x), F.elu(x), F.logsigmoid(x)),
    "exponentials": lambda x: (x.exp(), x.expm1(), x.exp2(), x.log(), x.log1p(), x.sqrt(), x.rsqrt(), x.erf()),
    "rounding": lambda x: (x.floor(), x.ceil(), x.trunc(), x.round(), x.sign(), x.frac()),
    "division with remainders": lambda x: (
        torch.fmod(x, 2.5),
        torch.remainder(x, -2.5),
        torch.floor_divide(x, 2.5),
        torch.fmod(x.flip(0), x),
        torch.remainder(x.flip(0), x),
        torch.div(x, 2.5, rounding_mode="trunc"),
    ),
    "powers": lambda x: (x**2, x**0.5, x**-1, x**3, x**0, torch.pow(x, x.flip(0)), 2.0**x, 0.0**x),
    "pairs": lambda x: (torch.atan2(x, x.flip(0)), torch.hypot(x, x.flip(0)), torch.copysign(x, x.flip(0))),
    "nan to num, given": lambda x: torch.nan_to_num(x, nan=3.0, posinf=4.0, neginf=-4.0),
    "where nan": lambda x: (torch.where(x.isnan(), 0.0, x), torch.where(x > 0, x, NAN), x.masked_fill(x.isnan(), 1)),
    "xlogy": lambda x: (torch.xlogy(x, x.flip(0)), torch.special.entr(x), torch.logaddexp(x, x.flip(0))),
}.items():
    table(f"special values, {name}", function, SPECIAL, exact=True, dynamic=False, tolerance=1e-4)

table("one row and one column", lambda x, y: (x + y) * y - x, normal(1, 33), normal(7, 1), grad=True)
table("three dimensions against one", lambda x, y: x * y + y, normal(3, 4, 33), normal(33), grad=True)
table("a number in a tensor", lambda x, s: (x * s, s - x, s.exp()), A, normal(), grad=True)
table("tensors of no dimension", lambda a, b: (a + b, a * b, a > b), normal(), normal())
table("no elements", lambda x, y: (x + y, x.exp() * 2), normal(3, 0, 5), normal(1, 1, 5))
table("a mask of 1 column", lambda x, m: torch.where(m, x, x * 2), A, bools(6, 1), grad=True)
table("strides of an outer product", lambda x: x[:, None] * x[None, :], normal(37), grad=True)
table("expanded operands", lambda x, y: x + y, like(normal(1, 33), lambda t: t.expand(6, 33)), A)
table("every other column", lambda x, y: x * 2 + y, like(normal(6, 66), lambda t: t[:, ::2]), A)
table("a transposed operand", lambda x, y: x + y, like(normal(33, 6), lambda t: t.t()), A, grad=True)
table("begins at the second element", lambda x: x * 2, like(normal(65), lambda t: t[1:]))
table("columns of three", lambda x: x.exp() + 1, like(normal(5, 99), lambda t: t[:, 2::3]))
table("five dimensions, permuted", lambda x: x.permute(4, 2, 0, 3, 1) * 2 + 1, normal(2, 3, 4, 5, 6))
table(
    "channels last",
    lambda x: (x * 2, x + 1),
    like(normal(2, 8, 5, 7), lambda t: t.to(memory_format=torch.channels_last)),
)
table(
    "two layouts meet",
    lambda x, y: x + y,
    like(normal(2, 8, 5, 7), lambda t: t.to(memory_format=torch.channels_last)),
    normal(2, 8, 5, 7),
)
table(
    "arange and position",
    lambda x: x + torch.arange(33, device=x.device) * 0.5 + torch.arange(6, device=x.device)[:, None],
    A,
)
table("linspace", lambda x: x * torch.linspace(-1, 1, 33, device=x.device, dtype=x.dtype), A)
table(
    "causal mask by positions",
    lambda x: x.masked_fill(torch.arange(33, device=x.device) > torch.arange(33, device=x.device)[:, None], -INF),
    normal(2, 33, 33),
)
table(
    "rotary positions",
    lambda x: torch.cat([-x[..., 16:], x[..., :16]], -1) * torch.sin(torch.arange(6, device=x.device)[:, None] / 7),
    normal(2, 6, 32),
    grad=True,
)
table(
    "table of sines",
    lambda n: (
        torch.sin(torch.arange(40, device=n.device)[:, None] * torch.exp(-0.1 * torch.arange(8, device=n.device))) + n
    ),
    normal(40, 8),
)
table("meshgrid", lambda x, y: [a * b for a, b in zip(*torch.meshgrid(x, y, indexing="ij"))], normal(5), normal(7))
table("integers and reals", lambda x, i: (x + i, x * i, i / 2, i * 0.5, x / i.clamp(min=1), i + True), A, ints(6, 33))
table("a bool times a number", lambda x, m: (x * m, m * 2, m + 0.5, m * m, m.float() - x), A, bools(6, 33))
table("step functions", lambda x: ((x > 0).to(x.dtype) * 2 - 1, (x > 0) & (x < 1), (x > 0) ^ (x < 1)), A)
