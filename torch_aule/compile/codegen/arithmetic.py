"""Cheaper arithmetic where every result is rounded to 16 bits.

Kernels of float16 and bfloat16 move half the bytes of float32 with as many instructions for each element, and on a fast
GPU the instructions bound them. What reaches memory as a 16-bit number alone may be wrong by 1e-4 of itself, a tenth of
such a number's step: it needs no correction of the hardware's 2^x, and no division where a row has one divisor.
"""

from __future__ import annotations

import re
from dataclasses import replace

import torch

from torch_aule.compile.codegen.statements import Statement, names_in

__all__ = ["simplified"]

_COARSE = (torch.float16, torch.bfloat16)
_FUNCTIONS = (("quick_exp(", "coarse_exp("), ("quick_sigmoid(", "coarse_sigmoid("))
_SUM = re.compile(r"(\w+) \+ (\w+)")
_ONE_PLUS = {"erf_": "coarse_one_plus_erf", "quick_tanh": "coarse_one_plus_tanh"}
_CALL = re.compile(r"(\w+)\((-?\w+)\)")
_QUOTIENT = re.compile(r"quotient\(([\w.()-]+), (\w+)\)")


def simplified(statements: list[Statement]) -> list[Statement]:
    """The statements, with cheap forms of those whose values reach 16-bit stores alone."""
    coarse = _reach_16_bits_alone(statements)
    defined = {s.defines: s for s in statements if s.defines is not None}
    of_rows = {s.defines for s in statements if s.defines is not None and not s.per_element}
    of_rows |= {name for s in statements if s.reduction is not None for name in s.reduction.names}
    out: list[Statement] = []
    divisors: set[tuple[str, int]] = set()
    for s in statements:
        if id(s) not in coarse or s.load is not None or s.reduction is not None or s.mask is not None:
            out.append(s)
            continue
        text = s.text
        for name, cheap in _FUNCTIONS:
            text = text.replace(name, cheap)
        text = _one_plus(text, defined) or text
        division = _QUOTIENT.fullmatch(text)
        if division is not None and s.per_element and s.dtype == torch.float32:
            x, y = division.groups()
            if y in of_rows:
                if (y, s.stage) not in divisors:
                    divisors.add((y, s.stage))
                    for part in ("scale", "inverse"):
                        value = Statement(f"divisor_{part}({y})", f"{y}_{part}{s.stage}", torch.float32)
                        out.append(replace(value, stage=s.stage))
                text = f"{x} * {y}_scale{s.stage} * {y}_inverse{s.stage}"
            elif _is_from_1_on(y, defined):
                text = f"{x} / {y}"
        out.append(replace(s, text=text) if text != s.text else s)
    return out


def _reach_16_bits_alone(statements: list[Statement]) -> set[int]:
    """Statements on which nothing depends but stores of 16-bit numbers."""
    exact: set[str] = set()
    coarse = set()
    for s in reversed(statements):
        index = set()
        for access in (s.load, s.store):
            if access is not None:
                index |= names_in(access.index_text)
        if s.mask is not None:
            index |= names_in(s.mask)
        made = {s.defines} if s.reduction is None else set(s.reduction.names)
        if s.store is not None:
            is_coarse = s.store.dtype in _COARSE and not s.atomic
        else:
            is_coarse = made != {None} and exact.isdisjoint(made)
        if is_coarse:
            coarse.add(id(s))
            exact |= index
        else:
            exact |= s.uses
    return coarse


def _one_plus(text: str, defined: dict[str, Statement]) -> str | None:
    """1 + f(x) as one function, for an f whose values may be close to -1."""
    terms = _SUM.fullmatch(text)
    if terms is None:
        return None
    for f, one in (terms.groups(), terms.groups()[::-1]):
        call = _CALL.fullmatch(defined[f].text) if f in defined and defined[f].load is None else None
        if call is not None and call.group(1) in _ONE_PLUS and _is_one(one, defined):
            return f"{_ONE_PLUS[call.group(1)]}({call.group(2)})"
    return None


def _is_one(name: str, defined: dict[str, Statement]) -> bool:
    return name in defined and defined[name].text == "1.0" and defined[name].load is None


def _is_from_1_on(name: str, defined: dict[str, Statement]) -> bool:
    """True for 1 + e^x."""
    terms = _SUM.fullmatch(defined[name].text) if name in defined and defined[name].load is None else None
    if terms is None:
        return False
    return any(
        _is_one(one, defined) and e in defined and defined[e].text.startswith(("quick_exp(", "coarse_exp("))
        for e, one in (terms.groups(), terms.groups()[::-1])
    )
