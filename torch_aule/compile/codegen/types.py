"""Dtypes of tensors in generated GLSL: the type that is computed in, literals, casts, loads and stores.

bool computes as bool; int8, int16, uint8 and uint16 as int, wrapped after arithmetic; float16, bfloat16 and float8 as
float. A conversion to float8 rounds, because PyTorch computes with no such numbers before they are converted again.
"""

from __future__ import annotations

import math

import torch

__all__ = ["FLOAT8", "FLOAT8_SATURATES", "STORAGE", "cast", "compute_type", "literal", "storage_bytes", "wrapped"]

# Dtype -> the name of its format in common/float8.glsl.
FLOAT8 = {
    torch.float8_e4m3fn: "E4M3FN",
    torch.float8_e5m2: "E5M2",
    torch.float8_e4m3fnuz: "E4M3FNUZ",
    torch.float8_e5m2fnuz: "E5M2FNUZ",
    torch.float8_e8m0fnu: "E8M0FNU",
}

# True if numbers beyond e4m3fn's largest become the largest, and not a NaN as before torch 2.13.
FLOAT8_SATURATES = torch.tensor(1e6).to(torch.float8_e4m3fn).view(torch.uint8).item() == 0x7E

_COMPUTE = {
    **dict.fromkeys(FLOAT8, "float"),
    torch.bool: "bool",
    torch.int8: "int",
    torch.int16: "int",
    torch.int32: "int",
    torch.uint8: "int",
    torch.uint16: "int",
    torch.uint32: "uint",
    torch.int64: "int64_t",
    torch.uint64: "uint64_t",
    torch.float16: "float",
    torch.bfloat16: "float",
    torch.float32: "float",
    torch.float64: "double",
}

# The suffix of the macros AULE_LOAD_x and AULE_STORE_x of inductor/prelude.glsl, and the code in dtype_codes.h of those
# that load_words and its kin know. No code: one element at a time.
STORAGE = {
    torch.bool: ("BOOL", "AULE_DT_BOOL"),
    torch.int8: ("I8", "AULE_DT_I8"),
    torch.int16: ("I16", "AULE_DT_I16"),
    torch.int32: ("I32", "AULE_DT_I32"),
    torch.uint8: ("U8", "AULE_DT_U8"),
    torch.uint16: ("U16", ""),
    torch.uint32: ("U32", ""),
    torch.int64: ("I64", "AULE_DT_I64"),
    torch.uint64: ("U64", ""),
    torch.float16: ("F16", "AULE_DT_F16"),
    torch.bfloat16: ("BF16", "AULE_DT_BF16"),
    torch.float32: ("F32", "AULE_DT_F32"),
    torch.float64: ("F64", "AULE_DT_F64"),
    **{dtype: (name, "") for dtype, name in FLOAT8.items()},
}

_NARROW = {
    torch.int8: "wrap_i8",
    torch.int16: "wrap_i16",
    torch.uint8: "wrap_u8",
    torch.uint16: "wrap_u16",
}


def compute_type(dtype: torch.dtype) -> str:
    """The GLSL type in which values of `dtype` are held. NotImplementedError if there is none (complex)."""
    try:
        return _COMPUTE[dtype]
    except KeyError:
        raise NotImplementedError(f"generated kernels have no {dtype}") from None


def storage_bytes(dtype: torch.dtype) -> int:
    """Bytes of an element in memory."""
    return dtype.itemsize


def wrapped(text: str, dtype: torch.dtype) -> str:
    """`text`, the result of arithmetic in int or float, brought back to the numbers of a narrow dtype."""
    if dtype in FLOAT8:
        return f"round_float8({text}, {FLOAT8[dtype]})"
    return f"{_NARROW[dtype]}({text})" if dtype in _NARROW else text


def literal(value: bool | int | float, dtype: torch.dtype) -> str:
    """A constant in the type that `dtype` computes in."""
    kind = compute_type(dtype)
    if kind == "bool":
        return "true" if value else "false"
    if kind in ("float", "double"):
        return _real(float(value), kind)
    return _integer(int(value), kind)


def _real(value: float, kind: str) -> str:
    if math.isnan(value):
        return "NAN" if kind == "float" else "DNAN"
    limit = 3.4028235677973366e38 if kind == "float" else math.inf  # half a step past the largest float32
    if abs(value) >= limit:
        infinity = "INF" if kind == "float" else "DINF"
        return infinity if value > 0 else f"(-{infinity})"
    text = repr(value) + ("lf" if kind == "double" else "")
    return f"({text})" if text.startswith("-") else text


def _integer(value: int, kind: str) -> str:
    if kind == "uint":
        return f"{value & 0xFFFFFFFF}u"
    if kind == "uint64_t":
        return f"{value & 0xFFFFFFFFFFFFFFFF}ul"
    bits = 64 if kind == "int64_t" else 32
    value = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    suffix = "l" if bits == 64 else ""
    if value == -(1 << (bits - 1)):  # the minus sign is no part of a literal
        return f"(-{-(value + 1)}{suffix} - 1{suffix})"
    return f"(-{-value}{suffix})" if value < 0 else f"{value}{suffix}"


def cast(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """`text`, a value of dtype `source`, as a value of dtype `target`."""
    have, want = compute_type(source), compute_type(target)
    if want == "bool":
        return text if have == "bool" else f"to_bool({text})"
    if have in ("float", "double") and want not in ("float", "double"):
        # As the eager kernels: through int64, whose overflow is the driver's.
        text = text if want == "int64_t" else f"int64_t({text})"
        return wrapped(f"{want}({text})", target)
    if have == want:
        return text if source == target else wrapped(text, target)
    if have == "int" and want == "int64_t":
        return f"widened({text})"
    return wrapped(f"{want}({text})", target)
