"""Inductor's operations as GLSL expressions. Arguments are variables with a dtype, or Python numbers.

Mathematics is that of the eager kernels: pointwise/math*.glsl and pointwise/functions/functions.glsl.
"""

from __future__ import annotations

import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.utils import get_bounds_index_expr, upcast_compute_type
from torch._inductor.virtualized import V

from torch_aule.compile.codegen.printer import is_real
from torch_aule.compile.codegen.types import FLOAT8, cast, compute_type, literal, wrapped

__all__ = ["GlslOverrides", "as_dtype", "dtype_of"]

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def dtype_of(x) -> torch.dtype:
    """The dtype of a variable or of a Python number."""
    if isinstance(x, CSEVariable):
        assert x.dtype is not None, x
        return x.dtype
    if isinstance(x, bool):
        return torch.bool
    return torch.int64 if isinstance(x, int) else torch.float32


def as_dtype(x, dtype: torch.dtype) -> str:
    """The argument `x` as text of a value of `dtype`."""
    if isinstance(x, CSEVariable):
        return cast(str(x), dtype_of(x), dtype)
    if isinstance(x, (bool, int, float)):
        return literal(x, dtype)
    raise AssertionError(f"{x!r} is no operand")


def _result(name: str, *args) -> torch.dtype:
    """The dtype that Inductor gives to the result: our text must have its type."""
    return getattr(DtypePropagationOpsHandler(), name)(*args)


def _is_real(dtype: torch.dtype) -> bool:
    return dtype in _FLOATS


def _function(name: str, function: str):
    """An operation that is a function of `functions.glsl`, over all arguments in the result's type."""

    def op(*args):
        dtype = _result(name, *args)
        return wrapped(f"{function}({', '.join(as_dtype(x, dtype) for x in args)})", dtype)

    op.__name__ = name
    return staticmethod(op)


def _infix(name: str, symbol: str):
    def op(a, b):
        dtype = _result(name, a, b)
        return wrapped(f"{as_dtype(a, dtype)} {symbol} {as_dtype(b, dtype)}", dtype)

    op.__name__ = name
    return staticmethod(op)


def _comparison(name: str, symbol: str):
    def op(a, b):
        common = _common(a, b)
        if common == torch.bool:
            common = torch.int32
        common = _narrowed(a, b, common)
        x, y = as_dtype(a, common), as_dtype(b, common)
        # A driver in use compares NaN as equal with `!=` of floats; the eager kernels ask, too.
        nans = f" || is_nan({x}) || is_nan({y})" if symbol == "!=" and _is_real(common) else ""
        return f"({x} {symbol} {y}{nans})"

    op.__name__ = name
    return staticmethod(op)


def _common(a, b) -> torch.dtype:
    """The dtype in which two operands are compared; a Python number takes the other one's kind."""
    if not isinstance(a, CSEVariable) and not isinstance(b, CSEVariable):
        return torch.promote_types(dtype_of(a), dtype_of(b))
    if not isinstance(a, CSEVariable):
        return _common(b, a)
    da = upcast_compute_type(dtype_of(a))
    if isinstance(b, CSEVariable):
        return torch.promote_types(da, upcast_compute_type(dtype_of(b)))
    if isinstance(b, float) and not _is_real(da):
        return torch.float32
    return da


def _fits_32(x) -> bool:
    if isinstance(x, int):
        return -(1 << 31) <= x < 1 << 31
    return x.bounds.lower >= -(1 << 31) and x.bounds.upper < 1 << 31


def _narrowed(a, b, common: torch.dtype) -> torch.dtype:
    """int32 for int64 operands whose values fit: faster, and lavapipe 22.3 compares sign-extended values wrongly."""
    return torch.int32 if common == torch.int64 and _fits_32(a) and _fits_32(b) else common


def _index_value(name: str, expr, dtype: torch.dtype) -> str:
    kernel = V.kernel
    text = kernel.index_to_str(kernel.prepare_indexing(expr))
    index_dtype = torch.float32 if is_real(expr) else kernel.get_index_dtype_as_torch_dtype()
    var = kernel.cse.generate(kernel.compute, text, bounds=get_bounds_index_expr(expr), dtype=index_dtype, shape=())
    return as_dtype(var, upcast_compute_type(_result(name, expr, dtype)))


def _bitwise(name: str, symbol: str, logical: str):
    def op(a, b):
        dtype = _result(name, a, b)
        used = logical if dtype == torch.bool else symbol
        return f"({as_dtype(a, dtype)} {used} {as_dtype(b, dtype)})"

    op.__name__ = name
    return staticmethod(op)


def _logical(name: str, symbol: str):
    def op(a, b):
        return f"({as_dtype(a, torch.bool)} {symbol} {as_dtype(b, torch.bool)})"

    op.__name__ = name
    return staticmethod(op)


def _real_unary(name: str, template: str):
    """A function of a real number: integers compute in float32."""

    def op(x):
        dtype = _result(name, x)
        return template.format(x=as_dtype(x, dtype))

    op.__name__ = name
    return staticmethod(op)


class GlslOverrides(OpOverrides):
    """One method for each operation; each returns GLSL text of the type that Inductor's dtype rules give it."""

    # -- constants, casts, indices

    @staticmethod
    def constant(value, dtype):
        return literal(value, dtype)

    @staticmethod
    def to_dtype(x, dtype, src_dtype=None, use_compute_types=True):
        if use_compute_types or dtype not in (torch.float16, torch.bfloat16):
            return as_dtype(x, upcast_compute_type(dtype) if use_compute_types else dtype)
        rounding = "round_f16" if dtype == torch.float16 else "round_bf16"
        return f"{rounding}({as_dtype(x, torch.float32)})"

    @staticmethod
    def to_dtype_bitcast(x, dtype, src_dtype):
        bits = _bits(src_dtype)[0].format(as_dtype(x, src_dtype))
        return _bits(dtype)[1].format(bits)

    @staticmethod
    def index_expr(expr, dtype):
        return _index_value("index_expr", expr, dtype)

    @staticmethod
    def value_expr(expr, dtype):
        return _index_value("value_expr", expr, dtype)

    @staticmethod
    def masked(mask, body, other):
        kernel = V.kernel
        with kernel.mask_loads(mask, other) as new_mask:
            result = body()
        dtype = dtype_of(result)
        value = other.item() if isinstance(other, torch.Tensor) else other
        text = f"({as_dtype(new_mask, torch.bool)} ? {result} : {literal(value, dtype)})"
        return kernel.cse.generate(kernel.compute, text, dtype=dtype, shape=())

    @staticmethod
    def where(condition, a, b):
        dtype = _result("where", condition, a, b)
        return f"({as_dtype(condition, torch.bool)} ? {as_dtype(a, dtype)} : {as_dtype(b, dtype)})"

    def indirect_indexing(self, var, size, check=True, wrap_neg=True):
        return V.kernel.indirect_index(var)

    # -- arithmetic

    add = _infix("add", "+")
    sub = _infix("sub", "-")

    @staticmethod
    def mul(a, b):
        dtype = _result("mul", a, b)
        if dtype == torch.bool:
            return f"({as_dtype(a, dtype)} && {as_dtype(b, dtype)})"
        return wrapped(f"{as_dtype(a, dtype)} * {as_dtype(b, dtype)}", dtype)

    @staticmethod
    def fma(a, b, c):
        dtype = _result("fma", a, b, c)
        return f"{as_dtype(a, dtype)} * {as_dtype(b, dtype)} + {as_dtype(c, dtype)}"

    @staticmethod
    def truediv(a, b):
        dtype = _result("truediv", a, b)
        return f"quotient({as_dtype(a, dtype)}, {as_dtype(b, dtype)})"

    int_truediv = truediv

    @staticmethod
    def floordiv(a, b):
        dtype = _result("floordiv", a, b)
        return wrapped(f"div_floor({as_dtype(a, dtype)}, {as_dtype(b, dtype)})", dtype)

    @staticmethod
    def truncdiv(a, b):
        dtype = _result("truncdiv", a, b)
        return wrapped(f"div_trunc({as_dtype(a, dtype)}, {as_dtype(b, dtype)})", dtype)

    mod = _function("mod", "fmod_")
    fmod = _function("fmod", "fmod_")
    remainder = _function("remainder", "remainder_")

    @staticmethod
    def neg(x):
        dtype = dtype_of(x)
        return wrapped(f"-{x}", dtype)

    @staticmethod
    def abs(x):
        dtype = dtype_of(x)
        if dtype in (torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64):
            return str(x)
        return wrapped(f"abs({x})", dtype)

    @staticmethod
    def sign(x):
        dtype = dtype_of(x)
        if dtype == torch.bool:
            return str(x)
        if dtype in (torch.uint32, torch.uint64):
            return f"min_({x}, {literal(1, dtype)})"
        return f"sign_({x})"

    maximum = _function("maximum", "max_")
    fmaximum = maximum  # torch 2.15: may drop NaN or keep it
    minimum = _function("minimum", "min_")

    @staticmethod
    def relu(x):
        dtype = dtype_of(x)
        return f"max_({x}, {literal(0, dtype)})"

    @staticmethod
    def square(x):
        dtype = dtype_of(x)
        return wrapped(f"{x} * {x}", dtype)

    @staticmethod
    def reciprocal(x):
        dtype = _result("reciprocal", x)
        return f"quotient({literal(1, dtype)}, {as_dtype(x, dtype)})"

    @staticmethod
    def pow(a, b):
        dtype = _result("pow", a, b)
        return wrapped(f"pow_({as_dtype(a, dtype)}, {as_dtype(b, dtype)})", dtype)

    # -- comparisons and logic

    eq = _comparison("eq", "==")
    ne = _comparison("ne", "!=")
    lt = _comparison("lt", "<")
    le = _comparison("le", "<=")
    gt = _comparison("gt", ">")
    ge = _comparison("ge", ">=")

    @staticmethod
    def isnan(x):
        return f"is_nan({x})" if _is_real(dtype_of(x)) else "false"

    @staticmethod
    def isinf(x):
        return f"is_inf({x})" if _is_real(dtype_of(x)) else "false"

    @staticmethod
    def signbit(x):
        dtype = dtype_of(x)
        return f"sign_bit({x})" if _is_real(dtype) else f"({x} < {literal(0, dtype)})"

    @staticmethod
    def copysign(a, b):
        dtype = _result("copysign", a, b)
        return f"with_sign({as_dtype(a, dtype)}, {as_dtype(b, dtype)})"

    @staticmethod
    def logical_not(x):
        return f"!{as_dtype(x, torch.bool)}"

    logical_and = _logical("logical_and", "&&")
    logical_or = _logical("logical_or", "||")
    logical_xor = _logical("logical_xor", "^^")
    bitwise_and = and_ = _bitwise("bitwise_and", "&", "&&")
    bitwise_or = or_ = _bitwise("bitwise_or", "|", "||")
    bitwise_xor = xor = _bitwise("bitwise_xor", "^", "^^")

    @staticmethod
    def bitwise_not(x):
        dtype = dtype_of(x)
        return f"!{x}" if dtype == torch.bool else wrapped(f"~{x}", dtype)

    @staticmethod
    def bitwise_left_shift(a, b):
        return _shift(a, b, "shift_left", "bitwise_left_shift")

    @staticmethod
    def bitwise_right_shift(a, b):
        return _shift(a, b, "shift_right", "bitwise_right_shift")

    lshift, rshift = bitwise_left_shift, bitwise_right_shift

    # -- rounding

    @staticmethod
    def _rounding(x, function: str) -> str:
        return f"{function}({x})" if _is_real(dtype_of(x)) else str(x)

    @staticmethod
    def floor(x):
        return GlslOverrides._rounding(x, "floor_")

    @staticmethod
    def ceil(x):
        return GlslOverrides._rounding(x, "ceil_")

    @staticmethod
    def trunc(x):
        return GlslOverrides._rounding(x, "trunc_")

    @staticmethod
    def round(x):
        return GlslOverrides._rounding(x, "round_")

    # -- real functions

    sqrt = _real_unary("sqrt", "sqrt({x})")

    @staticmethod
    def rsqrt(x):
        dtype = _result("rsqrt", x)
        return f"{literal(1, dtype)} / sqrt({as_dtype(x, dtype)})"

    @staticmethod
    def rand(seed, offset):
        return f"rand_({as_dtype(seed, torch.int64)}, {as_dtype(offset, torch.int64)})"

    @staticmethod
    def randn(seed, offset):
        return f"randn_({as_dtype(seed, torch.int64)}, {as_dtype(offset, torch.int64)})"

    @staticmethod
    def randint64(seed, offset, low, high):
        args = ", ".join(as_dtype(x, torch.int64) for x in (seed, offset, low, high))
        return f"randint_({args})"

    @staticmethod
    def ldexp(x, n):
        dtype = _result("ldexp", x, n)
        power = f"exp2_({as_dtype(n, dtype)})"
        return f"{as_dtype(x, dtype)} * {power}"


def _shift(a, b, function: str, name: str) -> str:
    dtype = _result(name, a, b)
    x, y = as_dtype(a, dtype), as_dtype(b, dtype)
    if dtype in (torch.int8, torch.int16, torch.uint8, torch.uint16):
        # By 32 bits, out of range is as far as the type is wide.
        bits = 8 * dtype.itemsize
        y = f"({y} < 0 || {y} >= {bits} ? 32 : {y})"
    if dtype in (torch.uint32, torch.uint64):
        symbol = "<<" if function == "shift_left" else ">>"
        bits = 8 * dtype.itemsize
        return f"({y} >= {literal(bits, dtype)} ? {literal(0, dtype)} : {x} {symbol} int({y}))"
    return wrapped(f"{function}({x}, {y})", dtype)


# Of a value: its bits as uint (uint64_t for 8 bytes), and back.
_BITS = {
    torch.float32: ("floatBitsToUint({})", "uintBitsToFloat({})"),
    torch.float16: ("float_to_f16({})", "unpackHalf2x16({}).x"),
    torch.bfloat16: ("float_to_bf16({})", "bf16_to_float({})"),
    torch.float64: ("packUint2x32(unpackDouble2x32({}))", "packDouble2x32(unpackUint2x32({}))"),
    torch.bool: ("(uint({}) & 255u)", "({} != 0u)"),
    torch.int64: ("uint64_t({})", "int64_t({})"),
    torch.uint64: ("uint64_t({})", "uint64_t({})"),
    **{dtype: (f"code_of_float8({{}}, {name})", f"decode_float8({{}}, {name})") for dtype, name in FLOAT8.items()},
}


def _bits(dtype: torch.dtype) -> tuple[str, str]:
    if dtype in _BITS:
        return _BITS[dtype]
    mask = (1 << (8 * dtype.itemsize)) - 1
    return f"(uint({{}}) & {mask}u)", wrapped(f"{compute_type(dtype)}({{}})", dtype)


# Functions of math.glsl and math_special.glsl that have a float64 form, too (math_double.glsl).
_REAL_FUNCTIONS = {
    "exp": "quick_exp({x})",
    "exp2": "exp2_({x})",
    "expm1": "expm1_({x})",
    "log": "log_({x})",
    "log2": "log2_({x})",
    "log10": "log10_({x})",
    "log1p": "log1p_({x})",
    "sin": "sin_({x})",
    "cos": "cos_({x})",
    "tanh": "quick_tanh({x})",
    "sigmoid": "quick_sigmoid({x})",
    "erf": "erf_({x})",
    "erfc": "erfc_({x})",
}
# float32 alone. In float64 they stay eager operators (lowerings.py).
FLOAT32_FUNCTIONS = {
    "tan": "tan_({x})",
    "asin": "asin_({x})",
    "acos": "acos_({x})",
    "atan": "atan_({x})",
    "sinh": "sinh_({x})",
    "cosh": "cosh_({x})",
    "asinh": "asinh_({x})",
    "acosh": "acosh_({x})",
    "atanh": "atanh_({x})",
    "erfinv": "erfinv_({x})",
    "erfcx": "erfcx_({x})",
    "lgamma": "log_gamma({x})",
    "digamma": "digamma_({x})",
    "i0": "(i0e_({x}) * exp_(0.5 * abs({x})) * exp_(0.5 * abs({x})))",
    "i0e": "i0e_({x})",
    "i1": "(i1e_({x}) * exp_(0.5 * abs({x})) * exp_(0.5 * abs({x})))",
    "i1e": "i1e_({x})",
}
FLOAT32_BINARY = {"atan2": "atan2_", "hypot": "hypot_", "nextafter": "nextafter_"}

for _name, _template in {**_REAL_FUNCTIONS, **FLOAT32_FUNCTIONS}.items():
    setattr(GlslOverrides, _name, _real_unary(_name, _template))
for _name, _text in FLOAT32_BINARY.items():
    setattr(GlslOverrides, _name, _function(_name, _text))
