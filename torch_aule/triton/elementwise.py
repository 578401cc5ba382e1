"""GLSL of operations that are computed element by element. Pure.

Every template names each operand once, since an operand may be a long expression. Functions that need one twice are in
shaders/common/triton.glsl. bfloat16 is held as a float that was rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from torch_aule.triton.ir import Op, Type, Value

__all__ = ["GLSL", "SIZES", "UNSIGNED", "WORDS", "constant", "expression", "rounded"]

GLSL = {
    "i1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int", "i64": "int64_t", "f16": "float16_t",
    "bf16": "float", "f32": "float", "f64": "double", "ptr": "uint64_t", "f8E4M3FN": "uint8_t", "f8E5M2": "uint8_t",
}  # fmt: skip
# Bytes of the types of GLSL that are in shared memory.
SIZES = {
    "int8_t": 1, "int16_t": 2, "uint16_t": 2, "float16_t": 2, "int": 4, "uint": 4, "float": 4, "double": 8, "uvec2": 8,
    "uvec4": 16,
}  # fmt: skip
UNSIGNED = {"i1": "bool", "i8": "uint8_t", "i16": "uint16_t", "i32": "uint", "i64": "uint64_t"}
_FLOAT8 = {"f8E4M3FN": "E4M3FN", "f8E5M2": "E5M2"}

# To and from the 32-bit words in which values pass through shared memory; those of 64 bits are two.
WORDS = {
    "i1": ("uint({})", "({} != 0u)"), "i8": ("uint({})", "int8_t({})"), "i16": ("uint({})", "int16_t({})"),
    "i32": ("uint({})", "int({})"), "f16": ("uint(float16BitsToUint16({}))", "uint16BitsToFloat16(uint16_t({}))"),
    "bf16": ("floatBitsToUint({})", "uintBitsToFloat({})"), "f32": ("floatBitsToUint({})", "uintBitsToFloat({})"),
    "f8E4M3FN": ("uint({})", "uint8_t({})"), "f8E5M2": ("uint({})", "uint8_t({})"),
    "i64": ("unpackUint2x32(uint64_t({}))", "int64_t(packUint2x32({}))"),
    "ptr": ("unpackUint2x32({})", "packUint2x32({})"),
    "f64": ("unpackDouble2x32({})", "packDouble2x32({})"),
}  # fmt: skip

_FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def rounded(kind: str, text: str) -> str:
    """A float expression as a value of this type is held."""
    return f"bf16_rounded({text})" if kind == "bf16" else text


def _float_constant(kind: str, text: str) -> str:
    if text.startswith("0x"):
        bits = int(text, 16)
        if kind == "f64":
            return f"packDouble2x32(uvec2({bits & 0xFFFFFFFF}u, {bits >> 32}u))"
        if kind == "bf16":
            bits <<= 16
        if kind == "f16":
            return f"uint16BitsToFloat16(uint16_t({bits}u))"
        return f"uintBitsToFloat({bits}u)"
    number = repr(float(text))
    if kind == "f64":
        return f"{number}lf"
    return f"float16_t({number})" if kind == "f16" else number


def _one_constant(kind: str, text: str) -> str:
    text = text.strip()
    if kind == "i1":
        return "true" if text in ("true", "1", "-1") else "false"
    if kind in _FLOAT_BITS:
        return _float_constant(kind, text)
    if kind in _FLOAT8:
        code = int(text, 16) if text.startswith("0x") else None
        return (
            f"uint8_t({code}u)"
            if code is not None
            else f"uint8_t(encode_float8({float(text)!r}, {_FLOAT8[kind]}, false))"
        )
    if kind == "i64":
        return f"int64_t({int(text) & (1 << 64) - 1}ul)"
    if kind == "i32":
        return text if -(1 << 31) < int(text) else f"int({int(text) & 0xFFFFFFFF}u)"
    return f"{GLSL[kind]}({text})"


def constant(op: Op) -> str | list[str]:
    """The text of a constant; of a block whose elements differ, one text for each."""
    kind, text = op.result.type.element, op.text
    if match := re.fullmatch(r"dense<(.*)>", text):
        text = match[1]
    if not text.startswith("["):
        return _one_constant(kind, text)
    return [_one_constant(kind, part) for part in text.replace("[", "").replace("]", "").split(",")]


def _binary(sign: str) -> Callable:
    def text(op: Op, a: str, b: str) -> str:
        kind = op.result.type.element
        if kind in ("i8", "i16"):
            return f"{GLSL[kind]}({a} {sign} {b})"
        return rounded(kind, f"({a} {sign} {b})")

    return text


def _logical(sign: str, of_bools: str) -> Callable:
    def text(op: Op, a: str, b: str) -> str:
        kind = op.result.type.element
        if kind == "i1":
            return f"({a} {of_bools} {b})"
        return f"{GLSL[kind]}({a} {sign} {b})" if kind in ("i8", "i16") else f"({a} {sign} {b})"

    return text


def _unsigned(sign: str) -> Callable:
    def text(op: Op, a: str, b: str) -> str:
        kind = op.result.type.element
        u = UNSIGNED[kind]
        return f"{GLSL[kind]}({u}({a}) {sign} {u}({b}))"

    return text


def _function(name: str) -> Callable:
    def text(op: Op, *operands: str) -> str:
        kind = op.result.type.element
        call = f"{name}({', '.join(operands)})"
        return f"{GLSL[kind]}({call})" if kind in ("i8", "i16", "f16") else rounded(kind, call)

    return text


def _through_float(name: str) -> Callable:
    """A function that takes float32 or float64."""

    def text(op: Op, *operands: str) -> str:
        kind = op.result.type.element
        if kind == "f16":
            return f"to_half({name}({', '.join(f'float({o})' for o in operands)}))"
        if kind == "f64" and name in ("exp", "exp2"):  # GLSL has them of float32
            return f"{name}_({', '.join(operands)})"
        return rounded(kind, f"{name}({', '.join(operands)})")

    return text


_INT_COMPARISONS = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=",
                    "ult": "<", "ule": "<=", "ugt": ">", "uge": ">="}  # fmt: skip
_ORDERED = {"oeq": "==", "olt": "<", "ole": "<=", "ogt": ">", "oge": ">="}


def _compare_ints(op: Op, a: str, b: str) -> str:
    word = op.text.split(",")[0].strip()
    kind = op.operands[0].type.element
    sign = _INT_COMPARISONS[word]
    if kind == "i1" and sign not in ("==", "!="):
        to = "uint" if word[0] == "u" else "-int"
        return f"({to}({a}) {sign} {to}({b}))"
    if word[0] == "u" and kind != "ptr":
        u = UNSIGNED[kind]
        return f"({u}({a}) {sign} {u}({b}))"
    if kind == "i64" and word[0] == "s" and any(map(_is_constant, op.operands)):
        return f"(ordered({a}) {sign} ordered({b}))"
    return f"({a} {sign} {b})"


def _is_constant(value: Value) -> bool:
    """Whether all elements are constants, which a driver's compiler sees."""
    while value.op is not None and value.op.name in ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape"):
        value = value.op.operands[0]
    return value.op is not None and value.op.name == "arith.constant"


def _compare_floats(op: Op, a: str, b: str) -> str:
    word = op.text.split(",")[0].strip()
    if word in _ORDERED:
        return f"({a} {_ORDERED[word]} {b})"
    if op.operands[0].type.element == "f16":
        a, b = f"float({a})", f"float({b})"
    if word == "une" and op.operands[0] is op.operands[1]:
        return f"is_nan({a})"
    return f"float_{word}({a}, {b})"


def _extend(op: Op, a: str) -> str:
    kind, to = op.operands[0].type.element, GLSL[op.result.type.element]
    if kind == "i1":
        sign = "-" if op.name == "arith.extsi" else ""
        return f"{to}({sign}int({a}))"
    if op.name == "arith.extui":
        return f"{to}({UNSIGNED[kind]}({a}))"
    return f"{to}({a})"


def _truncate(op: Op, a: str) -> str:
    to = op.result.type.element
    return f"(({a} & {GLSL[op.operands[0].type.element]}(1)) != 0)" if to == "i1" else f"{GLSL[to]}({a})"


def float_to(source: str, kind: str, text: str) -> str:
    """A float of one type as one of another, rounded to nearest even."""
    if source in _FLOAT8:
        text, source = f"decode_float8(uint({text}), {_FLOAT8[source]})", "f32"
    if kind == source:
        return text
    if kind in _FLOAT8:
        return f"uint8_t(encode_float8(float({text}), {_FLOAT8[kind]}, true))"
    if kind == "f16":
        return f"to_half(float({text}))"
    if kind == "f64":
        return f"double({text})"
    return rounded(kind, f"float({text})") if kind == "bf16" or source in ("f16", "f64") else text


def _convert_float(op: Op, a: str) -> str:
    return float_to(op.operands[0].type.element, op.result.type.element, a)


def _int_to_float(op: Op, a: str) -> str:
    source, kind = op.operands[0].type.element, op.result.type.element
    if source == "i1":
        a = f"int({a})" if op.name == "arith.uitofp" else f"-int({a})"
    elif op.name == "arith.uitofp":
        a = f"{UNSIGNED[source]}({a})"
    if kind == "f64":
        return f"double({a})"
    return float_to("f32", kind, f"float({a})")


def _float_to_int(op: Op, a: str) -> str:
    kind = op.result.type.element
    unsigned = op.name == "arith.fptoui"
    if kind == "i1":
        return f"({a} != 0)"
    if op.operands[0].type.element == "f16":
        a = f"float({a})"
    if kind in ("i8", "i16"):
        return f"{GLSL[kind]}(int({a}))"
    return f"{GLSL[kind]}({UNSIGNED[kind] if unsigned else GLSL[kind]}({a}))"


_BITS_TO_INT = {
    "f32": "floatBitsToInt({})", "f16": "int16_t(float16BitsToUint16({}))",
    "f64": "int64_t(packUint2x32(unpackDouble2x32({})))",
    "bf16": "int16_t(floatBitsToUint({}) >> 16)", "f8E4M3FN": "int8_t({})", "f8E5M2": "int8_t({})",
}  # fmt: skip
_INT_TO_BITS = {
    "f32": "intBitsToFloat({})", "f16": "uint16BitsToFloat16(uint16_t({}))",
    "f64": "packDouble2x32(unpackUint2x32(uint64_t({})))",
    "bf16": "bf16_to_float(uint(uint16_t({})))", "f8E4M3FN": "uint8_t({})", "f8E5M2": "uint8_t({})",
}  # fmt: skip


def _same_bits(op: Op, a: str) -> str:
    source, kind = op.operands[0].type.element, op.result.type.element
    if source == kind:
        return a
    if source in _BITS_TO_INT:
        a, source = _BITS_TO_INT[source].format(a), f"i{ {'f32': 32, 'f16': 16, 'f64': 64, 'bf16': 16}.get(source, 8) }"
    return _INT_TO_BITS[kind].format(a) if kind in _INT_TO_BITS else f"{GLSL[kind]}({a})"


def _add_to_pointer(op: Op, pointer: str, offset: str) -> str:
    size = Type(op.operands[0].type.pointee).bytes
    scaled = f" * {size}l" if size > 1 else ""
    return f"({pointer} + uint64_t(int64_t({offset}){scaled}))"


def _select(op: Op, condition: str, a: str, b: str) -> str:
    return f"({condition} ? {a} : {b})"


def _shift_right(op: Op, a: str, b: str) -> str:
    kind = op.result.type.element
    return f"{GLSL[kind]}({a} >> {b})" if kind in ("i8", "i16") else f"({a} >> {b})"


def _clamp(op: Op, x: str, low: str, high: str) -> str:
    kind = op.result.type.element
    name = "clamp_nan" if "all" in op.text else "clamp"
    if kind == "f16":
        return f"float16_t({name}(float({x}), float({low}), float({high})))"
    return f"{name}({x}, {low}, {high})"


_OWN = ("log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "expm1", "erf", "erfc", "erfinv", "pow", "atan2", "fmod", "nextafter", "hypot")  # fmt: skip
# Of libdevice by name, without the `__nv_` before and the `f` behind.
_LIBRARY = {
    **{name: f"{name}_" for name in _OWN},
    "exp": "exp_", "exp2": "exp2", "sqrt": "sqrt", "rsqrt": "inversesqrt", "fabs": "abs", "floor": "floor",
    "ceil": "ceil", "fmax": "max", "fmin": "min", "trunc": "trunc", "round": "round_away",
    "rint": "roundEven", "nearbyint": "roundEven",
    "fma": "fma", "copysign": "copy_sign", "abs": "abs", "fdiv_rn": "divided", "div_rn": "divided", "fsqrt_rn": "sqrt",
    "fast_exp": "exp", "fast_log": "log", "fast_log2": "log2", "fast_sin": "sin", "fast_cos": "cos", "fast_pow": "pow",
    "fast_fdivide": "divided", "fast_dividef": "divided", "fast_tanh": "tanh_", "sigmoid": "sigmoid_",
}  # fmt: skip
_TESTS = {
    "isnan": "is_nan", "isinf": "is_inf", "isnanf": "is_nan", "isinff": "is_inf", "isnand": "is_nan",
    "isinfd": "is_inf", "finitef": "is_finite", "isfinited": "is_finite",
}  # fmt: skip


def _library(op: Op, *operands: str) -> str:
    symbol = op.attributes.split('symbol = "')[1].split('"')[0]
    name = symbol.removeprefix("__nv_")
    if name in _TESTS:
        test = f"{_TESTS[name]}({operands[0]})"
        return test if op.result.type.element == "i1" else f"{GLSL[op.result.type.element]}({test})"
    for known in (name, name.removesuffix("f")):
        if known in _LIBRARY:
            return f"{_LIBRARY[known]}({', '.join(operands)})"
    if name == "umulhi" or name == "mulhi":
        return f"mul_high_{'unsigned' if name == 'umulhi' else 'signed'}({', '.join(operands)})"
    raise op.unsupported(f"the function {symbol}")


def _pointer_from_number(op: Op, *operands: str) -> str:
    raise op.unsupported("a pointer that is made of a number (its tensor cannot be followed)")


_TABLE: dict[str, Callable] = {
    "arith.addi": _logical("+", "!="), "arith.subi": _logical("-", "!="), "arith.muli": _logical("*", "&&"),
    "arith.andi": _logical("&", "&&"), "arith.ori": _logical("|", "||"), "arith.xori": _logical("^", "!="),
    "arith.addf": _binary("+"), "arith.subf": _binary("-"), "arith.mulf": _binary("*"), "arith.divf": _binary("/"),
    "arith.divsi": _binary("/"), "arith.divui": _unsigned("/"), "arith.remui": _unsigned("%"),
    "arith.remsi": _function("remainder_of"), "arith.remf": _through_float("fmod_"),
    "arith.shli": _logical("<<", "&&"), "arith.shrui": _unsigned(">>"), "arith.shrsi": _shift_right,
    "arith.maxsi": _function("larger"), "arith.minsi": _function("smaller"),
    "arith.ceildivsi": _function("ceil_divided"), "arith.floordivsi": _function("floor_divided"),
    "arith.maxnumf": _function("max"), "arith.minnumf": _function("min"),
    "arith.maximumf": _through_float("max_nan"), "arith.minimumf": _through_float("min_nan"),
    "arith.negf": lambda op, a: f"(-{a})", "arith.cmpi": _compare_ints, "arith.cmpf": _compare_floats,
    "arith.select": _select, "arith.extsi": _extend, "arith.extui": _extend, "arith.trunci": _truncate,
    "arith.extf": _convert_float, "arith.truncf": _convert_float, "tt.fp_to_fp": _convert_float,
    "arith.sitofp": _int_to_float, "arith.uitofp": _int_to_float, "arith.fptosi": _float_to_int,
    "arith.fptoui": _float_to_int, "arith.bitcast": _same_bits, "tt.bitcast": _same_bits,
    "arith.index_cast": lambda op, a: f"{GLSL[op.result.type.element]}({a})",
    "tt.addptr": _add_to_pointer, "tt.mulhiui": lambda op, a, b: f"mul_high_unsigned({a}, {b})",
    "tt.precise_sqrt": _through_float("sqrt"), "tt.precise_divf": _binary("/"), "tt.clampf": _clamp,
    "tt.extern_elementwise": _library, "tt.ptr_to_int": lambda op, a: f"int64_t({a})",
    "tt.int_to_ptr": _pointer_from_number,
    "math.absf": _function("abs"), "math.absi": _function("abs"), "math.floor": _function("floor"),
    "math.ceil": _function("ceil"), "math.trunc": _function("trunc"), "math.round": _function("round_away"),
    "math.roundeven": _function("roundEven"), "math.rsqrt": _through_float("inversesqrt"),
    "math.fma": _function("fma"), "math.sqrt": _through_float("sqrt"), "math.exp": _through_float("exp"),
    "math.exp2": _through_float("exp2"), "math.log": _through_float("log_"), "math.log2": _through_float("log2_"),
    "math.powf": _through_float("pow_"), "math.copysign": _through_float("copy_sign"),
    **{f"math.{name}": _through_float(f"{name}_") for name in (
        "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "expm1", "erf", "erfc",
        "atan2",
    )},
}  # fmt: skip
for _name, _larger in (("arith.maxui", "larger"), ("arith.minui", "smaller")):
    _TABLE[_name] = lambda op, a, b, name=_larger: (
        f"{GLSL[op.result.type.element]}({name}({UNSIGNED[op.result.type.element]}({a}), "
        f"{UNSIGNED[op.result.type.element]}({b})))"
    )


def expression(op: Op, operands: list[str]) -> str:
    """GLSL of one element of an operation's result.

    Parameters
    ----------
    op : Op
    operands : list of str
        One element of each operand.

    Raises
    ------
    Unsupported
        If there is no such operation here.
    """
    if op.name not in _TABLE:
        raise op.unsupported()
    return _TABLE[op.name](op, *operands)
