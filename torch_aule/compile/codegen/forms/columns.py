"""Reductions over an outer dimension on GPUs: an invocation has four neighbouring columns.

Their elements of one row are one access of 8 or 16 bytes. What all four share, as the mean of a row that a gradient of
a layer norm needs, is loaded and computed once.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch_aule.compile.codegen.facts import KernelFacts
from torch_aule.compile.codegen.forms.form import Form
from torch_aule.compile.codegen.forms.rows import row_guards, row_work
from torch_aule.compile.codegen.forms.vectors import divided
from torch_aule.compile.codegen.statements import Access, Reduction, Statement
from torch_aule.compile.codegen.types import STORAGE, compute_type
from torch_aule.compile.codegen.unroll import loop_head
from torch_aule.compile.codegen.writer import Writer

__all__ = ["Columns"]

COLUMNS = 4
_LOCAL = 256  # the most invocations of a workgroup of columns (fitting.py)


def _is_vector(facts: KernelFacts, access: Access) -> bool:
    """True if the columns' elements are one aligned vector."""
    inner = facts.inner_rows
    return (
        bool(STORAGE[access.dtype][1])
        and facts.step(access.index, inner) == 1
        and access.buffer not in facts.unaligned
        and facts.is_multiple(access.index.subs({s: 0 for s in access.index.free_symbols if s.name in inner}), COLUMNS)
    )


class Columns(Form):
    """For one loop over rows, some of whose loads are vectors of columns."""

    @classmethod
    def fits(cls, facts: KernelFacts) -> Columns | None:
        """All sizes are whole vectors, the sums fit in shared memory, and only sums leave the loop."""
        if not facts.is_column or not facts.vectors or facts.device.software or facts.kept or facts.stages != 2:
            return None
        sizes = [facts.numels["x"], *(e.length if e.divisor == 1 else e.divisor for e in facts.row_entries)]
        if not all(facts.known_multiple(size, COLUMNS) for size in sizes):
            return None
        sums = [dtype for s in facts.statements if s.reduction is not None for dtype in s.reduction.dtypes]
        if sum(max(dtype.itemsize, 4) for dtype in sums) * _LOCAL * COLUMNS > facts.device.shared_bytes:
            return None
        vectors = 0
        for s in facts.statements:
            if s.defines is None and s.reduction is None and s.store is None:
                return None  # a check of an index
            if s.atomic or (s.per_element and (s.store is not None or s.stage != 0)):
                return None
            if s.stage == 0 and not s.per_element and not s.uses.isdisjoint(facts.inner_rows):
                return None
            if s.load is not None and not facts.made.isdisjoint(re.findall(r"\w+", s.load.index_text)):
                return None
            vectors += s.load is not None and s.per_element and _is_vector(facts, s.load)
        return cls(facts, row_work(facts, 1, columns=COLUMNS)) if vectors > 0 else None

    def groups(self) -> str:
        """Each has four columns for each of the `work.rows` invocations of a row."""
        return divided(self.facts.numels["x"], self.work.rows * COLUMNS)

    def _split(self) -> tuple[list[Statement], list[Statement], set[str]]:
        """Statements of the loop that all columns share, the others, and names that differ from column to column."""
        varying = set(self.facts.inner_rows)
        shared, apart = [], []
        for s in self.facts.statements:
            if not s.per_element or s.stage != 0:
                continue
            if s.reduction is None and s.uses.isdisjoint(varying):
                shared.append(s)
                continue
            apart.append(s)
            if s.defines is not None:
                varying.add(s.defines)
        return shared, apart, varying

    def lines(self, writer: Writer) -> None:
        """The body of main()."""
        shared, apart, varying = self._split()
        reductions = [s.reduction for s in apart if s.reduction is not None]
        accumulators = [name for r in reductions for name in r.names]
        n = self._position(writer)
        guards = row_guards(self.work)
        for s in self.facts.statements:
            if s.stage == 0 and not s.per_element:
                writer.statement(s, 1, exists=guards["exists"])
        for r in reductions:
            for name, dtype, identity in zip(r.names, r.dtypes, r.identity, strict=True):
                real = compute_type(dtype)
                writer.line(1, f"{real} {name}[{COLUMNS}] = {real}[{COLUMNS}]({', '.join([identity] * COLUMNS)});")
        self._loop(writer, n, shared, apart, varying, accumulators)
        if self.work.threads > 1:
            self._tree(writer, reductions, accumulators)
        results = [s for s in self.facts.statements if s.stage == 1]
        with self._each_column(writer, 1, accumulators, _used(results)) as own:
            for s in results:
                own.statement(s, 2, **guards)

    def _position(self, writer: Writer) -> str:
        """Writes the columns of an invocation; returns the number of rows."""
        work, kind, inner = self.work, self.facts.index, self.facts.inner_rows
        numel, n = writer.numel("x"), writer.numel(self.facts.prefix)
        writer.line(1, "const uint own = gl_LocalInvocationID.x;")
        writer.line(1, f"const uint lane = own / {work.rows}u;")
        first = f"(uint64_t(linear_group()) * {work.rows}ul + own % {work.rows}u) * {COLUMNS}ul"
        writer.line(1, f"const uint64_t row = {first};")
        writer.line(1, f"const bool row_exists = row < uint64_t({numel});")
        if work.threads == 1:
            writer.line(1, "if (!row_exists) return;")
        writer.line(1, f"const {kind} xbase = row_exists ? {kind}(row) : {kind}({numel}) - {COLUMNS};")
        for entry in self.facts.row_entries:
            writer.entry(1, entry, "xbase", f"{entry.name}_base" if entry.name in inner else "")
        return n

    def _loop(
        self,
        writer: Writer,
        n: str,
        shared: list[Statement],
        apart: list[Statement],
        varying: set[str],
        accumulators: list[str],
    ) -> None:
        """Over the rows."""
        kind, prefix, exists = self.facts.index, self.facts.prefix, row_guards(self.work)["exists"]
        base = f"{prefix}base"
        writer.line(1, f"for ({kind} {base} = {kind}(lane); {base} < {n}; {base} += {self.work.threads}) {{")
        writer.line(2, f"const {kind} {prefix}index = {base};")
        for entry in self.facts.element_entries:
            writer.entry(2, entry, base)
        for s in shared:
            writer.statement(s, 2, exists=exists)
        words = self._vector_loads(writer, apart, varying)
        with self._each_column(writer, 2, accumulators, _used(apart)) as own:
            for s in apart:
                if id(s) in words:
                    value = f"AULE_UNPACK_{STORAGE[s.load.dtype][0]}({words[id(s)]}, v)"
                    own.statement(replace(s, load=None, text=value), 3, exists=exists)
                else:
                    own.statement(s, 3, exists=exists)
        writer.line(1, "}")

    @contextlib.contextmanager
    def _each_column(
        self, writer: Writer, depth: int, accumulators: list[str], used: Iterable[str] = ()
    ) -> Iterator[Writer]:
        """Lines for each of the columns: accumulators and what follows from the position are the column's own."""
        own = writer.apart()
        for name in sorted(self.facts.inner_rows.intersection(used)):
            own.line(depth + 1, f"const {self.facts.index} {name} = {name}_base + v;")
        yield own
        names = re.compile(rf"\b({'|'.join(accumulators)})\b")
        writer.line(depth, loop_head("v", COLUMNS))
        writer.add(names.sub(r"\1[v]", text) for text in own.lines)
        writer.line(depth, "}")

    def _vector_loads(self, writer: Writer, apart: list[Statement], varying: set[str]) -> dict[int, str]:
        """The names of the vectors, by the statements that take their elements."""
        words: dict[int, str] = {}
        for s in apart:
            # A mask that differs from column to column keeps single loads.
            if s.load is None or s.mask in varying or not _is_vector(self.facts, s.load):
                continue
            name = words[id(s)] = f"w{len(words)}"
            text = re.sub(rf"\b({'|'.join(self.facts.inner_rows)})\b", r"\1_base", s.load.index_text)
            size = s.load.dtype.itemsize
            load = f"load_words(p.{s.load.argument} + uint64_t({text}) * {size}ul, {COLUMNS * size})"
            if s.mask is None:
                writer.line(2, f"const Words {name} = {load};")
            else:
                writer.line(2, f"Words {name};")
                writer.line(2, f"if ({s.mask}) {name} = {load};")
        return words

    def _tree(self, writer: Writer, reductions: list[Reduction], accumulators: list[str]) -> None:
        """The invocations that share columns combine what they have in shared memory, half of them in each round."""
        work = self.work
        for r in reductions:
            for name, dtype in zip(r.names, r.dtypes, strict=True):
                writer.share(f"{name}_shared", dtype, work.local * COLUMNS)
        slot = f"v * {work.local} + own"
        with self._each_column(writer, 1, accumulators) as own:
            for name in accumulators:
                own.line(2, f"{name}_shared[{slot}] = {name};")
        writer.line(1, "barrier();  // a value of each invocation")
        writer.line(1, f"for (uint apart = {work.threads // 2}u; apart > 0u; apart /= 2u) {{")
        writer.line(2, "if (lane < apart) {")
        with self._each_column(writer, 3, accumulators) as own:
            for r in reductions:
                for name, dtype in zip(r.names, r.dtypes, strict=True):
                    other = f"{name}_shared[{slot} + apart * {work.rows}u]"
                    own.line(4, f"const {compute_type(dtype)} {name}_other = {other};")
                own.line(4, r.combine)
                for name in r.names:
                    own.line(4, f"{name}_shared[{slot}] = {name};")
        writer.line(2, "}")
        writer.line(2, "barrier();  // this round's values")
        writer.line(1, "}")


def _used(statements: list[Statement]) -> set[str]:
    return set().union(*(s.uses for s in statements))
