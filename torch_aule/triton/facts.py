"""Facts of integers and pointers before a kernel runs: runs of neighbours, divisors, equal runs. Pure.

The rules are those of the axis analysis that GPU compilers use to find wide loads: along each axis a value has
`contiguity` (how long runs are that grow by one), `divisibility` (of the first of each run; of a pointer in
bytes) and `constancy` (runs of equal neighbours), all powers of two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from torch_aule.triton.ir import BITS, Block, Function, Op, Value, order_of

__all__ = ["WIDEST", "Facts", "known", "pointer_arguments"]

WIDEST = 16  # bytes of an access
_MOST = 1 << 20  # the divisibility of 0


@dataclass(frozen=True)
class Facts:
    """By axis; of a scalar one entry.

    Attributes
    ----------
    contiguity, divisibility, constancy : tuple of int
        Powers of two.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None

    def divisor(self, axis: int, run: int) -> int:
        """The number of which the first of each run of this length is a multiple."""
        own = self.divisibility[axis]
        return own if self.contiguity[axis] <= run else min(own, run)

    def wide(self, axis: int, size: int) -> int:
        """Of a pointer to elements of `size` bytes: how many neighbours along an axis one aligned access takes."""
        return min(self.contiguity[axis], max(1, self.divisibility[axis] // size), WIDEST // size)

    def shortened(self, runs: tuple[int, ...]) -> Facts:
        """With runs that grow by one no longer than these."""
        runs = tuple(map(min, runs, self.contiguity))
        divisors = tuple(self.divisor(axis, run) for axis, run in enumerate(runs))
        return Facts(runs, divisors, self.constancy, self.constant)

    def met(self, other: Facts) -> Facts:
        """The facts that hold of both."""
        a, b = self.shortened(other.contiguity), other.shortened(self.contiguity)
        return Facts(
            a.contiguity, tuple(map(min, a.divisibility, b.divisibility)),
            tuple(map(min, self.constancy, other.constancy)),
            self.constant if self.constant == other.constant else None,
        )  # fmt: skip


def _power(n: int) -> int:
    """The largest power of two that divides n."""
    return min(n & -n, _MOST) if n else _MOST


def _nothing(value: Value) -> Facts:
    ones = (1,) * max(1, len(value.type.shape))
    return Facts(ones, ones, ones if value.type.shape else (1,))


def _all_equal(value: Value, divisibility: int, constant: int | None = None) -> Facts:
    shape = value.type.shape or (1,)
    return Facts((1,) * len(shape), (divisibility,) * len(shape), shape, constant)


def _of_constant(op: Op) -> Facts:
    text = re.sub(r"dense<(.*)>", r"\1", op.text)
    if text in ("true", "false"):
        return _all_equal(op.result, 1, int(text == "true"))
    if not re.fullmatch(r"-?\d+", text):
        return _nothing(op.result)
    return _all_equal(op.result, _power(abs(int(text))), int(text))


def _sum(op: Op, a: Facts, b: Facts, scale: int = 1) -> Facts:
    """Of a + b, or of a - b if b is constant along runs; `scale`: bytes of an element that b counts."""
    subtracts = op.name == "arith.subi"
    contiguity, divisibility, constancy = [], [], []
    for i in range(len(a.contiguity)):
        runs = min(a.contiguity[i], b.constancy[i])
        if not subtracts:
            runs = max(runs, min(a.constancy[i], b.contiguity[i]))
        contiguity.append(runs)
        divisibility.append(min(a.divisor(i, runs), b.divisor(i, runs) * scale))
        constancy.append(min(a.constancy[i], b.constancy[i]))
    constant = None
    if a.constant is not None and b.constant is not None and scale == 1:
        constant = a.constant - b.constant if subtracts else a.constant + b.constant
    return Facts(tuple(contiguity), tuple(divisibility), tuple(constancy), constant)


def _product(op: Op, a: Facts, b: Facts) -> Facts:
    if op.name == "arith.shli":
        if b.constant is None or not 0 <= b.constant < 64:
            return _nothing(op.result)
        b = Facts(b.contiguity, (min(1 << b.constant, _MOST),) * len(b.divisibility), b.constancy, 1 << b.constant)

    if a.constant == 1:
        return b
    if b.constant == 1:
        return a

    def alone(f: Facts, i: int) -> int:
        return f.divisibility[i] if f.contiguity[i] == 1 else 1

    n = range(len(a.contiguity))
    constant = a.constant * b.constant if a.constant is not None and b.constant is not None else None
    return Facts(
        (1,) * len(n), tuple(min(alone(a, i) * alone(b, i), _MOST) for i in n),
        tuple(min(a.constancy[i], b.constancy[i]) for i in n), constant,
    )  # fmt: skip


def _equal_runs(a: Facts, b: Facts, i: int) -> int:
    """The number of neighbours of a's runs that lie on the same side of b, or have the same quotient by it."""
    runs = min(a.constancy[i], b.constancy[i])
    if b.constancy[i] > 1 or b.constant is not None:
        shared = min(a.contiguity[i], a.divisibility[i], b.divisibility[i], max(b.constancy[i], 1))
        runs = max(runs, shared)
    return runs


def _quotient(op: Op, a: Facts, b: Facts) -> Facts:
    if b.constant == 1:
        return a
    n = range(len(a.contiguity))
    runs = tuple(_equal_runs(a, b, i) for i in n)
    divisors = tuple(
        max(1, a.divisibility[i] // b.constant)
        if b.constant and b.constant == _power(b.constant) and a.contiguity[i] == 1
        else 1
        for i in n
    )
    return Facts((1,) * len(n), divisors, runs)


def _remainder(op: Op, a: Facts, b: Facts) -> Facts:
    n = range(len(a.contiguity))
    runs = tuple(min(a.contiguity[i], a.divisibility[i], b.divisibility[i], b.constancy[i]) for i in n)
    divisors = tuple(min(a.divisor(i, runs[i]), b.divisor(i, runs[i])) for i in n)
    return Facts(runs, divisors, tuple(min(a.constancy[i], b.constancy[i]) for i in n))


# Comparisons that come out equal for all of a run that begins at a multiple of a bound's divisor.
_BOUND_RIGHT = ("slt", "ult", "sge", "uge")
_BOUND_LEFT = ("sgt", "ugt", "sle", "ule")


def _comparison(op: Op, a: Facts, b: Facts) -> Facts:
    word = op.text.split(",")[0].strip()
    n = range(len(a.contiguity))
    runs = [min(a.constancy[i], b.constancy[i]) for i in n]
    if word in _BOUND_RIGHT:
        runs = [_equal_runs(a, b, i) for i in n]
    elif word in _BOUND_LEFT:
        runs = [_equal_runs(b, a, i) for i in n]
    return Facts((1,) * len(n), (1,) * len(n), tuple(runs))


def _elementwise(op: Op, facts: list[Facts]) -> Facts:
    """Equal operands give equal results."""
    ones = (1,) * len(facts[0].contiguity)
    return Facts(ones, ones, tuple(map(min, *(f.constancy for f in facts))) if len(facts) > 1 else facts[0].constancy)


def _select(op: Op, condition: Facts, a: Facts, b: Facts) -> Facts:
    met = a.met(b)
    if len(condition.constancy) != len(met.constancy):  # a scalar condition
        return met
    short = met.shortened(condition.constancy)
    return Facts(short.contiguity, short.divisibility, tuple(map(min, condition.constancy, met.constancy)))


def _expanded(op: Op, a: Facts) -> Facts:
    axis = op.number("axis")

    def put(row, own):
        return (*row[:axis], own, *row[axis:])

    own = min((d if c == 1 else 1) for c, d in zip(a.contiguity, a.divisibility))
    return Facts(put(a.contiguity, 1), put(a.divisibility, own), put(a.constancy, 1))


def _broadcast(op: Op, a: Facts) -> Facts:
    shape, own = op.result.type.shape, op.operands[0].type.shape
    wide = [n != m for n, m in zip(shape, own)]
    return Facts(
        tuple(1 if w else c for w, c in zip(wide, a.contiguity)), a.divisibility,
        tuple(n if w else k for w, n, k in zip(wide, shape, a.constancy)), a.constant,
    )  # fmt: skip


def _permuted(op: Op, a: Facts) -> Facts:
    order = order_of(op)

    def permuted(row: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(row[i] for i in order)

    return Facts(permuted(a.contiguity), permuted(a.divisibility), permuted(a.constancy), a.constant)


def _of_pointer(op: Op, pointer: Facts, offset: Facts) -> Facts:
    return _sum(op, pointer, offset, BITS[op.operands[0].type.pointee] // 8)


_RULES: dict[str, Callable[..., Facts]] = {
    "arith.addi": _sum, "arith.subi": _sum, "tt.addptr": _of_pointer, "arith.muli": _product, "arith.shli": _product,
    "arith.divsi": _quotient, "arith.divui": _quotient, "arith.remsi": _remainder, "arith.remui": _remainder,
    "arith.cmpi": _comparison, "arith.select": _select, "tt.expand_dims": _expanded, "tt.broadcast": _broadcast,
    "tt.trans": _permuted,
    "arith.extsi": lambda op, a: a, "arith.extui": lambda op, a: a, "arith.trunci": lambda op, a: a,
    "arith.index_cast": lambda op, a: a, "tt.bitcast": lambda op, a: a,
}  # fmt: skip
_HINTS = {"tt.contiguity": 0, "tt.divisibility": 1, "tt.constancy": 2}


def _hinted(op: Op, facts: Facts) -> Facts:
    """With what the user promises by `tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy`."""
    rows = [facts.contiguity, facts.divisibility, facts.constancy]
    for name, place in _HINTS.items():
        if found := re.search(rf"{re.escape(name)} = (?:dense<\[?([\d, ]+)\]?>|(\d+))", op.attributes):
            numbers = [int(n) for n in (found[1] or found[2]).split(",")]
            numbers = numbers * len(rows[place]) if len(numbers) == 1 else numbers
            if len(numbers) == len(rows[place]):
                rows[place] = tuple(max(a, _power(b)) for a, b in zip(rows[place], numbers))
    return Facts(rows[0], rows[1], rows[2], facts.constant)


class _Analysis:
    def __init__(self, function: Function):
        self.facts: dict[Value, Facts] = {}
        for argument in function.arguments:
            self.facts[argument] = _all_equal(argument, _power(function.aligned.get(argument.name, 1)))
        self.changed = True
        while self.changed:  # facts only get weaker
            self.changed = False
            for block in function.blocks.values():
                self.block(block)

    def set(self, value: Value, facts: Facts) -> None:
        before = self.facts.get(value)
        if before is not None:
            facts = before.met(facts)
        if facts != before:
            self.facts[value] = facts
            self.changed = True

    def of(self, value: Value) -> Facts:
        found = self.facts.get(value)
        return found if found is not None else _nothing(value)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.enter(op)
            for region in op.regions:
                self.block(region)
            self.leave(op)
            if op.results and not op.regions:
                self.compute(op)

    def enter(self, op: Op) -> None:
        if op.name == "scf.for":
            block = op.regions[0]
            low, step = self.of(op.operands[0]), self.of(op.operands[2])
            self.set(block.arguments[0], _all_equal(block.arguments[0], min(low.divisibility[0], step.divisibility[0])))
            for argument, first in zip(block.arguments[1:], op.operands[3:]):
                self.set(argument, self.of(first))
        elif op.name == "scf.while":
            for argument, first in zip(op.regions[0].arguments, op.operands):
                self.set(argument, self.of(first))

    def leave(self, op: Op) -> None:
        if op.name == "scf.for":
            for argument, result, value in zip(op.regions[0].arguments[1:], op.results, op.regions[0].end.operands):
                self.set(argument, self.of(value))
                self.set(result, self.of(argument))
        elif op.name == "scf.while":
            passed = op.regions[0].end.operands[1:]
            for argument, result, value in zip(op.regions[1].arguments, op.results, passed):
                self.set(argument, self.of(value))
                self.set(result, self.of(value))
            for argument, value in zip(op.regions[0].arguments, op.regions[1].end.operands):
                self.set(argument, self.of(value))
        elif op.name == "scf.if":
            for region in op.regions:
                for result, value in zip(op.results, region.end.operands):
                    self.set(result, self.of(value))

    def compute(self, op: Op) -> None:
        result = op.result
        if op.name == "arith.constant":
            facts = _of_constant(op)
        elif op.name == "tt.make_range":
            start = op.number("start")
            facts = Facts(result.type.shape, (_power(start),), (1,))
        elif op.name == "tt.splat":
            own = self.of(op.operands[0])
            facts = _all_equal(result, own.divisibility[0], own.constant)
        elif op.name in _RULES:
            facts = _RULES[op.name](op, *map(self.of, op.operands))
        elif op.operands and op.name.startswith(("arith.", "math.")):
            facts = _elementwise(op, [self.of(value) for value in op.operands])
        else:
            facts = _nothing(result)
        self.set(result, _hinted(op, facts))


def known(function: Function) -> dict[Value, Facts]:
    """Facts of every value of a kernel that has any.

    Parameters
    ----------
    function : Function

    Returns
    -------
    dict of Value to Facts
    """
    return _Analysis(function).facts


_THROUGH = (
    "tt.splat", "tt.addptr", "tt.expand_dims", "tt.broadcast", "tt.trans", "tt.reshape", "tt.bitcast", "tt.unsplat",
)  # fmt: skip


def pointer_arguments(function: Function) -> dict[Value, frozenset[Value]]:
    """Into which arguments' memory each pointer of a kernel may point.

    Parameters
    ----------
    function : Function

    Returns
    -------
    dict of Value to frozenset of Value
        Of a pointer that a kernel makes of an integer or loads: nothing.
    """
    found: dict[Value, frozenset[Value]] = {a: frozenset([a]) for a in function.arguments if a.type.element == "ptr"}

    def add(value: Value, more: frozenset[Value]) -> bool:
        before = found.get(value, frozenset())
        found[value] = before | more
        return found[value] != before

    def given(op: Op) -> list[tuple[Value, Value]]:
        """Pairs of a value and one that it may be."""
        pairs: list[tuple[Value, Value]] = []
        if op.name in _THROUGH:
            pairs.append((op.result, op.operands[0]))
        elif op.name == "arith.select":
            pairs += [(op.result, value) for value in op.operands[1:]]
        elif op.name == "scf.for":
            inner = op.regions[0].arguments[1:]
            pairs += [*zip(inner, op.operands[3:]), *zip(inner, op.regions[0].end.operands), *zip(op.results, inner)]
        elif op.name == "scf.while":
            first, second = op.regions
            passed = first.end.operands[1:]
            pairs += [*zip(first.arguments, op.operands), *zip(second.arguments, passed), *zip(op.results, passed)]
            pairs += zip(first.arguments, second.end.operands)
        elif op.name == "scf.if":
            pairs += [pair for region in op.regions for pair in zip(op.results, region.end.operands)]
        for label, values in op.targets:
            pairs += zip(function.blocks[label].arguments, values)
        return pairs

    changed = True
    while changed:
        changed = False
        for op in function.walk():
            for value, source in given(op):
                if value.type.element == "ptr":
                    changed |= add(value, found.get(source, frozenset()))
    return found
