"""Pointwise kernels over rows that begin anywhere, on GPUs: logits of a vocabulary of 50,257, say.

Such a kernel has no vectors over its whole length. Here a workgroup has a part of one row: what depends on the row
alone is computed once for several vectors, which begin where the results are aligned. What is aligned otherwise, as the
running kernel finds, is read one element at a time. The elements before the first and after the last vector come last.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import sympy

from torch_aule.compile.codegen.facts import KernelFacts, Origin, is_whole
from torch_aule.compile.codegen.forms.elements import ElementForm
from torch_aule.compile.codegen.forms.fitting import pointwise_work
from torch_aule.compile.codegen.statements import Access, Statement
from torch_aule.compile.codegen.types import STORAGE
from torch_aule.compile.codegen.unroll import loop_head
from torch_aule.compile.codegen.writer import Writer

__all__ = ["OddRows"]

_SHORTEST, _LOCAL, _ITEMS = 1024, 256, 4


@dataclass(frozen=True, eq=False)
class OddRows(ElementForm):
    """For long rows of known sizes.

    Attributes
    ----------
    row_length : int
        Elements of a row.
    origin : Origin
        Where the results' vectors are counted from.
    hoisted : tuple of Statement
        Those that depend on the row alone.
    """

    row_length: int
    origin: Origin
    hoisted: tuple[Statement, ...]

    @classmethod
    def fits(cls, facts: KernelFacts) -> OddRows | None:
        """All results are aligned alike, and not as the flat tensor is."""
        if facts.is_reduction or facts.is_tiled or not facts.vectors or facts.device.software or facts.vec > 1:
            return None
        flat = frozenset(e.name for e in facts.element_entries if e.divisor == 1 and e.length == facts.numel)
        length = _row_length(facts, flat)
        if length < _SHORTEST or any(s.atomic or (s.defines is None and s.store is None) for s in facts.statements):
            return None
        stored = [s.store for s in facts.statements if s.store is not None]
        for vec, first in itertools.product((8, 4), stored):
            origin = Origin(facts.first_of_row(first, Origin(flat=flat)), flat)
            dense = [a for a in stored if facts.is_dense(a, vec, origin)]
            if len(dense) == len(stored) and facts.is_worth(vec, dense):
                return cls(facts, pointwise_work(facts.device, vec), length, origin, _of_rows(facts))
        return None

    @property
    def _groups_of_row(self) -> int:
        return -(-self.row_length // (_LOCAL * _ITEMS * self.work.vec))

    def groups(self) -> str:
        """The parts of all rows."""
        return str(int(self.facts.numel) // self.row_length * self._groups_of_row)

    def lines(self, writer: Writer) -> None:
        """The body of main()."""
        kind, vec, n, parts = self.facts.index, self.work.vec, self.row_length, self._groups_of_row
        rows = int(self.facts.numel) // n
        writer.line(1, f"if (linear_group() >= {rows * parts}u) return;  // all of a workgroup")
        writer.line(1, f"const uint part = linear_group() % {parts}u, lane = gl_LocalInvocationID.x;")
        writer.line(1, f"const {kind} row_base = {kind}(linear_group() / {parts}u) * {n};")
        used = set().union(*(s.uses for s in self.facts.statements))
        for entry in self.facts.element_entries:
            if entry.name not in self.facts.inner and entry.name in used:
                writer.entry(1, entry, "row_base")
        for s in self.hoisted:
            writer.statement(s, 1)
        origin = writer.print_index(self.origin.index)
        writer.line(1, f"const {kind} head = min(({vec} - ({origin}) % {vec}) % {vec}, {n});")
        writer.line(1, f"const {kind} tail = head + ({n} - head) / {vec} * {vec};")
        writer.line(1, loop_head("item", _ITEMS))
        at = f"head + (({kind}(part) * {_ITEMS} + item) * {_LOCAL} + {kind}(lane)) * {vec}"
        writer.line(2, f"const {kind} at = {at};")
        writer.line(2, "if (at < tail) {")
        writer.line(3, f"const {kind} xbase = row_base + at;")
        self.elements(writer, 3, "xbase")
        writer.line(2, "}")
        writer.line(1, "}")
        writer.line(1, f"if (part == 0u && lane < uint({n} - (tail - head))) {{")
        writer.line(2, f"const {kind} end = {kind}(lane), xbase = row_base + (end < head ? end : end + (tail - head));")
        self.one(writer, 2, "xbase")
        writer.line(1, "}")

    def element_statements(self, stage: int) -> list[Statement]:
        """Without those that were written before the loop."""
        done = {id(s) for s in self.hoisted}
        return [s for s in super().element_statements(stage) if id(s) not in done]

    def entries_of(self, used: set[str]) -> list[Any]:
        """The others are those of the row."""
        return [e for e in super().entries_of(used) if e.name in self.facts.inner]

    def is_vector(self, s: Statement, access: Access, varying: set[str]) -> bool:
        """Loads of neighbours in memory, however they are aligned; of 8 bytes only where that is known."""
        if s.load is None:
            return super().is_vector(s, access, varying)
        facts = self.facts
        return (
            s.mask not in varying
            and bool(STORAGE[access.dtype][1])
            and (access.dtype.itemsize <= 4 or self.is_dense(access))
            and facts.step(access.index, facts.inner) == 1
            and access.buffer not in facts.unaligned
        )

    def is_dense(self, access: Access) -> bool:
        """As the results are."""
        return self.facts.is_dense(access, self.work.vec, self.origin)

    def load_words(self, writer: Writer, access: Access, address: str) -> str:
        """Aligned as the results are or not."""
        if self.is_dense(access):
            return super().load_words(writer, access, address)
        first = self.facts.first_of_row(access, self.origin)
        apart = writer.print_index(sympy.expand(first - self.origin.index))
        return f"load_any_words({address}, {access.dtype.itemsize}, (({apart}) & {self.work.vec - 1}) == 0)"


def _row_length(facts: KernelFacts, flat: frozenset[str]) -> int:
    """The elements of a row if all entries agree in it and divide the tensor by it, else 0."""
    inner = [e.length for e in facts.element_entries if e.divisor == 1 and e.name not in flat]
    outer = [e.divisor for e in facts.element_entries if e.divisor != 1]
    if not is_whole(facts.numel, *inner, *outer):
        return 0
    lengths = {int(size) for size in inner} or {min((int(size) for size in outer), default=0)}
    length = lengths.pop()
    if lengths or length == 0 or any(int(size) % length for size in (facts.numel, *outer)):
        return 0
    return length


def _of_rows(facts: KernelFacts) -> tuple[Statement, ...]:
    """Statements that depend on the row alone."""
    varying = facts.inner | {"xindex"}
    found = []
    for s in facts.statements:
        if s.defines is not None and s.uses.isdisjoint(varying):
            found.append(s)
        elif s.defines is not None:
            varying |= {s.defines}
    return tuple(found)
