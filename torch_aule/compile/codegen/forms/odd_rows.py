"""Pointwise kernels over rows that begin anywhere, on GPUs: logits of a vocabulary of 50,257, say.

Such a kernel has no vectors over its whole length. Here a workgroup has a part of one row: what depends on the row
alone is computed once for several vectors, which begin where the results are aligned. What is aligned otherwise, as the
running kernel finds, is read one element at a time. The elements before the first and after the last vector come last.
"""

from __future__ import annotations

import itertools

import sympy
from torch._inductor.virtualized import V

from torch_aule.compile import config
from torch_aule.compile.codegen.types import STORAGE
from torch_aule.compile.codegen.unroll import loop_head

__all__ = ["ROW_BASE", "find_odd_rows", "is_row_vector", "odd_row_groups", "odd_row_lines", "row_words"]

ROW_BASE = sympy.Symbol("row_base", integer=True)  # the position where a row begins
_SHORTEST, _LOCAL, _ITEMS = 1024, 256, 4


def find_odd_rows(layout) -> bool:
    """Whether a kernel takes this form; sets the layout's `row_length`, `flat`, `hoisted`, `origin` and `vec` then."""
    if layout.kernel.is_reduction or not config.vectors or layout.device.software:
        return False
    numel = layout.trees["x"].numel
    flat = {e.name for e in layout.element_entries if e.divisor == 1 and e.length == numel}
    inner = [e.length for e in layout.element_entries if e.divisor == 1 and e.name not in flat]
    outer = [e.divisor for e in layout.element_entries if e.divisor != 1]
    if not all(isinstance(size, (int, sympy.Integer)) for size in (numel, *inner, *outer)):
        return False
    lengths = {int(size) for size in inner} or {min((int(size) for size in outer), default=0)}
    length = lengths.pop()
    if lengths or length < _SHORTEST or any(int(size) % length for size in (numel, *outer)):
        return False
    if any(s.atomic or (s.defines is None and s.store is None) for s in layout.statements):
        return False
    stored = [s.store for s in layout.statements if s.store is not None]
    layout.row_length, layout.flat = length, flat
    for vec, first in itertools.product((8, 4), stored):
        layout.origin = layout.first_of_row(first)
        dense = [a for a in stored if layout.is_dense(a, vec)]
        if len(dense) == len(stored) and (vec == 4 or max(a.dtype.itemsize for a in dense) <= 2):
            layout.vec = vec
            layout.hoisted = _of_rows(layout)
            return True
    layout.row_length, layout.flat, layout.origin = 0, set(), sympy.Integer(0)
    return False


def _of_rows(layout) -> list:
    """Statements that depend on the row alone."""
    varying = set(layout.inner) | {"xindex"}
    found = []
    for s in layout.statements:
        if s.defines is not None and s.uses.isdisjoint(varying):
            found.append(s)
        elif s.defines is not None:
            varying.add(s.defines)
    return found


def _groups_of_row(layout) -> int:
    return -(-layout.row_length // (_LOCAL * _ITEMS * layout.vec))


def odd_row_groups(layout) -> str:
    """The number of workgroups."""
    return str(int(layout.trees["x"].numel) // layout.row_length * _groups_of_row(layout))


def odd_row_lines(layout) -> None:
    """The body of main()."""
    kind, vec, n, parts = layout.index, layout.vec, layout.row_length, _groups_of_row(layout)
    rows = int(layout.trees["x"].numel) // n
    layout.line(1, f"if (linear_group() >= {rows * parts}u) return;  // all of a workgroup")
    layout.line(1, f"const uint part = linear_group() % {parts}u, lane = gl_LocalInvocationID.x;")
    layout.line(1, f"const {kind} row_base = {kind}(linear_group() / {parts}u) * {n};")
    used = set().union(*(s.uses for s in layout.statements))
    for entry in layout.element_entries:
        if entry.name not in layout.inner and entry.name in used:
            layout.line(1, f"const {kind} {entry.name} = {layout.entry_text(entry, 'row_base')};")
    for s in layout.hoisted:
        layout.statement(s, 1)
    origin = layout.kernel.index_to_str(layout.origin)
    layout.line(1, f"const {kind} head = min(({vec} - ({origin}) % {vec}) % {vec}, {n});")
    layout.line(1, f"const {kind} tail = head + ({n} - head) / {vec} * {vec};")
    layout.line(1, loop_head("item", _ITEMS))
    layout.line(2, f"const {kind} at = head + (({kind}(part) * {_ITEMS} + item) * {_LOCAL} + {kind}(lane)) * {vec};")
    layout.line(2, "if (at < tail) {")
    layout.line(3, f"const {kind} xbase = row_base + at;")
    layout.elements(0, 3, "xbase", "0")
    layout.line(2, "}")
    layout.line(1, "}")
    layout.line(1, f"if (part == 0u && lane < uint({n} - (tail - head))) {{")
    layout.line(2, f"const {kind} end = {kind}(lane), xbase = row_base + (end < head ? end : end + (tail - head));")
    layout.vec = 1
    layout.elements(0, 2, "xbase", "0")
    layout.vec = vec
    layout.line(1, "}")


def is_row_vector(layout, access) -> bool:
    """True for neighbours in memory, however they are aligned; elements of 8 bytes only where that is known."""
    return (
        STORAGE[access.dtype][1]
        and (access.dtype.itemsize <= 4 or layout.is_dense(access, layout.vec))
        and layout.step(access.index, layout.inner) == 1
        and access.buffer not in V.graph.unaligned_buffers
    )


def row_words(layout, access, address: str) -> str:
    """The text that loads a vector, aligned as the results are or not."""
    size = access.dtype.itemsize
    if layout.is_dense(access, layout.vec):
        return f"load_words({address}, {layout.vec * size})"
    apart = layout.kernel.index_to_str(sympy.expand(layout.first_of_row(access) - layout.origin))
    return f"load_any_words({address}, {size}, (({apart}) & {layout.vec - 1}) == 0)"
