"""Gives each block of values its layout, so that few values have to move between invocations. Pure.

Values that come of ranges, splats and arithmetic on them are free: any invocation computes any element. The others are
held in registers. Held values that are combined element by element are one class, with one layout. A class takes the
layout of its product, or the one that loads and stores best, or the one that follows from a class it is reduced or
broadcast from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch_aule.triton.facts import Facts
from torch_aule.triton.ir import BITS, Function, Op, Value, order_of
from torch_aule.triton.layout import Layout, blocked

__all__ = ["ELEMENTWISE", "Layouts", "RESHAPES", "axis_of", "derived", "is_elementwise", "place", "wanted"]

_FREE_ANYWAY = ("arith.constant", "tt.make_range", "tt.splat")
RESHAPES = ("tt.expand_dims", "tt.broadcast", "tt.trans", "tt.reshape", "tt.join", "tt.split")
ELEMENTWISE = {
    "tt.addptr", "tt.bitcast", "tt.fp_to_fp", "tt.clampf", "tt.precise_sqrt", "tt.precise_divf", "tt.mulhiui",
    "tt.extern_elementwise", "tt.int_to_ptr", "tt.ptr_to_int", "llvm.intr.assume",
}  # fmt: skip


def is_elementwise(op: Op) -> bool:
    """Element i of the result comes of elements i of the operands."""
    return op.name in ELEMENTWISE or (op.name.startswith(("arith.", "math.")) and op.name != "arith.constant")


def axis_of(op: Op) -> int:
    return op.number("axis")


@dataclass
class Layouts:
    """The place of each value.

    Attributes
    ----------
    of : dict of Value to Layout
        Of each held block.
    free : set of Value
        Blocks that are computed wherever they are wanted.
    """

    of: dict[Value, Layout]
    free: set[Value]


def _free_values(function: Function) -> set[Value]:
    free: set[Value] = set()
    for op in function.walk():
        movable = is_elementwise(op) or op.name in RESHAPES[:4] or op.name in _FREE_ANYWAY
        if op.results and op.result.type.shape and movable:
            if all(not value.type.shape or value in free for value in op.operands):
                free.update(op.results)
    return free


class _Classes:
    """Sets of values that have one layout: a union-find."""

    def __init__(self) -> None:
        self._parent: dict[Value, Value] = {}

    def find(self, value: Value) -> Value:
        parent = self._parent.setdefault(value, value)
        if parent is not value:
            parent = self._parent[value] = self.find(parent)
        return parent

    def join(self, values: Iterable[Value]) -> None:
        roots = [self.find(value) for value in values]
        for other in roots[1:]:
            self._parent[self.find(other)] = self.find(roots[0])

    def roots(self) -> list[Value]:
        return [value for value in self._parent if self.find(value) is value]


def _joined(op: Op) -> list[list[Value]]:
    """Groups of values of an operation that have one layout."""
    if op.name == "scf.for":
        inner = op.regions[0].arguments[1:]
        return [list(row) for row in zip(op.results, inner, op.operands[3:], op.regions[0].end.operands)]
    if op.name == "scf.while":
        first, second = op.regions
        passed = first.end.operands[1:]
        rows = [list(row) for row in zip(first.arguments, op.operands, second.end.operands)]
        return rows + [list(row) for row in zip(op.results, passed, second.arguments or passed)]
    if op.name == "scf.if":
        ends = [region.end.operands for region in op.regions]
        return [list(row) for row in zip(op.results, *ends)]
    if op.name == "tt.dot":
        return [[op.result, op.operands[2]]]
    if is_elementwise(op) or op.name in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"):
        return [[*op.results, *op.operands]]
    if op.name in ("tt.reduce", "tt.scan", "tt.map_elementwise"):
        groups = [list(op.operands), list(op.results)]
        return [sum(groups, [])] if op.name != "tt.reduce" else groups
    if op.name == "tt.join":
        return [list(op.operands)]
    if op.name == "tt.split":
        return [list(op.results)]
    if op.name == "tt.gather":
        return [[op.result, op.operands[1]]]
    return []


def derived(op: Op, layout: Layout) -> Layout | None:
    """The layout of an operation's result, if the operand stays where it is; None if that says too little."""
    shape = op.result.type.shape
    if op.name == "tt.reduce":
        return layout.without_axis(axis_of(op)) if shape else None
    if op.name == "tt.expand_dims":
        return layout.with_axis(axis_of(op))
    if op.name == "tt.trans":
        return layout.permuted(order_of(op))
    if op.name == "tt.reshape":
        return layout.reshaped(shape)
    if op.name == "tt.join":
        return layout.joined()
    if op.name == "tt.split":
        return layout.without_axis(len(layout.shape) - 1)
    return None


def wanted(op: Op, layout: Layout) -> Layout | None:
    """The layout of an operation's operand from which the result is where `layout` wants it, without moves."""
    shape = op.operands[0].type.shape
    if op.name == "tt.expand_dims":
        return layout.without_axis(axis_of(op))
    if op.name == "tt.broadcast":
        return layout.narrowed(shape)
    if op.name == "tt.trans":
        order = order_of(op)
        return layout.permuted([order.index(i) for i in range(len(order))])
    if op.name == "tt.reshape":
        return layout.reshaped(shape)
    if op.name == "tt.join":
        return layout.without_axis(len(layout.shape) - 1)
    return None


class _Placement:
    def __init__(self, function: Function, facts: dict[Value, Facts], threads: int, dot: Callable[[Op], Layout]):
        self.function, self.facts, self.threads = function, facts, threads
        self.free = _free_values(function)
        self.classes = _Classes()
        ops = list(function.walk())
        for op in ops:
            for value in op.results:
                if self.held(value):
                    self.classes.find(value)
            for region in op.regions:
                for value in region.arguments:
                    if self.held(value):
                        self.classes.find(value)
            for group in _joined(op):
                self.classes.join([value for value in group if self.held(value)])
            for label, values in op.targets:
                for pair in zip(function.blocks[label].arguments, values):
                    self.classes.join([value for value in pair if self.held(value)])
        self.chosen: dict[Value, Layout] = {}
        self.pointers: dict[Value, list[Value]] = {}  # of a class, through which it is loaded and stored
        self.relations = [op for op in ops if op.name in (*RESHAPES, "tt.reduce")]
        for op in ops:
            if op.name == "tt.dot":
                self.choose(op.result, functools.partial(dot, op))
        self.spread()
        for moved in self.by_size(op for op in ops if op.name in ("tt.load", "tt.store")):
            self.choose(moved, functools.partial(self.memory_layout, moved))
            self.spread()
        for root in sorted(self.classes.roots(), key=lambda value: -value.type.numel):
            self.choose(root, functools.partial(blocked, root.type.shape, threads))
            self.spread()

    def held(self, value: Value) -> bool:
        return bool(value.type.shape) and value not in self.free

    def choose(self, value: Value, make: Callable[[], Layout]) -> bool:
        root = self.classes.find(value)
        if root in self.chosen:
            return False
        self.chosen[root] = make()
        return True

    def by_size(self, ops: Iterable[Op]) -> list[Value]:
        """The loads and stores, the most bytes first."""
        moved = []
        for op in ops:
            value = op.result if op.results else op.operands[1]
            if op.operands[0].type.shape:
                if self.held(value):
                    self.pointers.setdefault(self.classes.find(value), []).append(op.operands[0])
                    moved.append(value)
        return sorted(moved, key=lambda value: -value.type.numel * value.type.bytes)

    def memory_layout(self, value: Value) -> Layout:
        """That of the widest loads of a class; the axis along which memory is contiguous is the fastest."""
        best: tuple[int, int, int | None] = (0, 1, None)
        for pointer in self.pointers[self.classes.find(value)]:
            known, size = self.facts[pointer], BITS[pointer.type.pointee] // 8
            rank = len(pointer.type.shape)
            for axis in reversed(range(rank)):
                run = known.wide(axis, size)
                if run * size > best[0] and known.contiguity[axis] > 1:
                    best = (run * size, run, axis)
        _, vector, fastest = best
        rank = len(value.type.shape)
        order = list(reversed(range(rank)))
        if fastest is not None:
            order = [fastest, *(i for i in order if i != fastest)]
        return blocked(value.type.shape, self.threads, vector, order)

    def spread(self) -> None:
        """From classes with a layout to those that are reduced from them, broadcast to them, or the same bits."""
        changed = True
        while changed:
            changed = False
            for op in self.relations:
                operand, result = op.operands[0], op.result
                own = self.chosen.get(self.classes.find(operand)) if self.held(operand) else None
                other = self.chosen.get(self.classes.find(result)) if self.held(result) else None
                if own is not None and other is None and self.held(result):
                    changed |= self.take(result, derived(op, own))
                if other is not None and own is None and self.held(operand):
                    changed |= self.take(operand, wanted(op, other))

    def take(self, value: Value, layout: Layout | None) -> bool:
        return layout is not None and self.choose(value, lambda: layout)

    def layouts(self) -> Layouts:
        every = {value: self.classes.find(value) for value in list(self.classes._parent)}
        return Layouts({value: self.chosen[root] for value, root in every.items()}, self.free)


def place(function: Function, facts: dict[Value, Facts], threads: int, dot: Callable[[Op], Layout]) -> Layouts:
    """Choose the layouts of a kernel's values.

    Parameters
    ----------
    function : Function
    facts : dict of Value to Facts
    threads : int
        Invocations of a workgroup, a power of two.
    dot : callable
        The layout of a product's result.

    Returns
    -------
    Layouts
    """
    return _Placement(function, facts, threads, dot).layouts()
