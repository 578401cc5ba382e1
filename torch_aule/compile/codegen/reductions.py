"""Reductions of generated kernels: how an accumulator begins, takes a value, and combines with another one."""

from __future__ import annotations

import functools
import math

import torch
from torch._inductor.utils import upcast_compute_type

from torch_aule.compile.codegen.overrides import as_dtype, dtype_of
from torch_aule.compile.codegen.statements import Reduction
from torch_aule.compile.codegen.types import compute_type, literal, wrapped

__all__ = ["make_reduction"]


def _lowest(dtype: torch.dtype):
    if dtype == torch.bool:
        return False
    return -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype):
    if dtype == torch.bool:
        return True
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


_SIMPLE = {
    # kind: identity, result of a (the accumulator) and b
    "sum": (lambda dtype: 0, "{a} + {b}"),
    "prod": (lambda dtype: 1, "{a} * {b}"),
    "xor_sum": (lambda dtype: 0, "{a} ^ {b}"),
    "max": (_lowest, "max_({a}, {b})"),
    "min": (_highest, "min_({a}, {b})"),
    "any": (lambda dtype: False, "{a} || {b}"),
}


def make_reduction(kind: str, dtype, value, new_name, element_index: str) -> Reduction:
    """The reduction that Inductor asks for.

    Parameters
    ----------
    kind : str
        Inductor's reduction type.
    dtype : torch.dtype
        Of the result.
    value : variable or tuple of variables
        What an element contributes.
    new_name : callable
        Gives names for accumulators.
    element_index : str
        GLSL of the position along the reduced axis, for argmax and argmin of a value alone.
    """
    if kind == "fmax":  # torch 2.15: the maximum of a softmax, which may drop NaN or keep it
        kind = "max"
    if kind in _SIMPLE:
        acc = upcast_compute_type(dtype)
        identity, text = _SIMPLE[kind]
        name = new_name()

        def join(other: str) -> str:
            return f"{name} = {wrapped(text.format(a=name, b=other), acc)};"

        x, start = as_dtype(value, acc), (literal(identity(acc), acc),)
        several = None
        if kind in ("max", "min") and acc.is_floating_point:
            several = functools.partial(_extreme_of_several, kind, name, compute_type(acc))
        return Reduction(kind, (name,), (acc,), start, join(x), join(f"{name}_other"), value=x, take_several=several)
    if kind in ("argmax", "argmin"):
        return _arg(kind, value, new_name, element_index)
    if kind == "welford_reduce":
        x = as_dtype(value, torch.float64 if dtype == torch.float64 else torch.float32)
        return _welford(kind, dtype, (x, "0.0", "1.0"), new_name)
    if kind == "welford_combine":
        acc = torch.float64 if dtype == torch.float64 else torch.float32
        return _welford(kind, dtype, tuple(as_dtype(v, acc) for v in value), new_name)
    if kind == "online_softmax_reduce":
        return _online_softmax(kind, dtype, value, new_name)
    raise NotImplementedError(f"generated kernels have no reduction {kind}")


def _extreme_of_several(kind: str, name: str, real: str, values: list[str]) -> str:
    """GLSL's max and min may drop NaN, which is looked for once: in the sum of absolute values."""
    most = functools.reduce(lambda a, b: f"{kind}({a}, {b})", values)
    total = " + ".join(f"abs({x})" for x in values)
    return f"{{ const {real} n_ = {total}; {name} = {kind}_({name}, mix({most}, n_, is_nan(n_))); }}"


def _arg(kind: str, value, new_name, element_index: str) -> Reduction:
    """The value and its index. NaN wins, and of equal values the smaller index."""
    if isinstance(value, tuple):
        value, index = value
        index = as_dtype(index, torch.int64)
    else:
        index = f"int64_t({element_index})"
    acc = upcast_compute_type(dtype_of(value))
    a, i = new_name(), new_name()
    sign = ">" if kind == "argmax" else "<"
    worst = literal(_lowest(acc) if kind == "argmax" else _highest(acc), acc)
    if acc == torch.bool:  # compared as numbers
        acc, worst = torch.int32, "-1" if kind == "argmax" else "2"

    def join(x: str, j: str) -> str:
        better = f"{x} {sign} {a} || ({x} == {a} && {j} < {i})"
        if acc.is_floating_point:
            better = f"is_nan({a}) ? is_nan({x}) && {j} < {i} : is_nan({x}) || {better}"
        return f"if ({better}) {{ {a} = {x}; {i} = {j}; }}"

    # Without this a name and an index would be evaluated several times.
    take = f"{{ const {compute_type(acc)} {a}_x = {as_dtype(value, acc)}; const int64_t {i}_x = {index}; "
    take += join(f"{a}_x", f"{i}_x") + " }"
    return Reduction(
        kind,
        (a, i),
        (acc, torch.int64),
        (worst, "9223372036854775807l"),
        take,
        join(f"{a}_other", f"{i}_other"),
    )


def _welford(kind: str, dtype, value: tuple[str, str, str], new_name) -> Reduction:
    """Mean, sum of squared deviations and weight, combined as Chan, Golub and LeVeque (1983) do."""
    acc = torch.float64 if dtype == torch.float64 else torch.float32
    real = compute_type(acc)
    mean, m2, weight = new_name(), new_name(), new_name()

    def join(x: str, x2: str, w: str) -> str:
        # Of nothing and something large: 0 times an infinite square would be NaN.
        square = f"is_zero({weight}) || is_zero({w}) ? {real}(0) : d_ * d_ * {weight} * r_"
        return (
            f"{{ const {real} w_ = {weight} + {w}, d_ = {x} - {mean}, r_ = w_ == {real}(0) ? {real}(0) : {w} / w_; "
            f"{mean} += d_ * r_; {m2} += {x2} + ({square}); {weight} = w_; }}"
        )

    zero = literal(0.0, acc)
    return Reduction(
        kind,
        (mean, m2, weight),
        (acc, acc, acc),
        (zero, zero, zero),
        join(*(f"{real}({v})" for v in value)),
        join(f"{mean}_other", f"{m2}_other", f"{weight}_other"),
    )


def _online_softmax(kind: str, dtype, value, new_name) -> Reduction:
    """The maximum and the sum of e^(x - maximum) in one pass (Milakov and Gimelshein, 2018)."""
    acc = torch.float64 if dtype == torch.float64 else torch.float32
    real, top, total = compute_type(acc), new_name(), new_name()
    zero, lowest, highest = literal(0.0, acc), literal(-math.inf, acc), literal(math.inf, acc)

    def join(others: list[str], added: str) -> str:
        largest = functools.reduce(lambda a, b: f"max({a}, {b})", [top, *others])
        return (
            f"{{ const {real} m_ = {largest}, b_ = m_ == {lowest} ? {zero} : m_; "
            f"{total} = {total} * softmax_term({top} - b_) + {added}; "
            f"{top} = is_nan({total}) && m_ != {highest} ? {literal(math.nan, acc)} : m_; }}"
        )

    def take(values: list[str]) -> str:
        terms = [f"softmax_term({x} - b_)" for x in values]
        halves = (terms[::2], terms[1::2])  # two chains of sums are shorter than one
        return join(values, " + ".join(f"({' + '.join(half)})" for half in halves if half))

    def pair(other_top: str, other_total: str) -> str:
        return join([other_top], f"{other_total} * softmax_term({other_top} - b_)")

    names, dtypes = (top, total), (acc, acc)
    combine = pair(f"{top}_other", f"{total}_other")
    if isinstance(value, tuple):  # parts of a row that was split
        return Reduction(kind, names, dtypes, (lowest, zero), pair(*(as_dtype(v, acc) for v in value)), combine)
    x = as_dtype(value, acc)
    return Reduction(kind, names, dtypes, (lowest, zero), take([x]), combine, value=x, take_several=take)
