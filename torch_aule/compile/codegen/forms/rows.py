"""Reductions: one or more invocations have a row, loop over its elements, and combine what they accumulated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from torch_aule.compile.codegen.facts import AT_ZERO, KernelFacts, Origin, is_whole
from torch_aule.compile.codegen.forms.combining import combine
from torch_aule.compile.codegen.forms.elements import ElementForm
from torch_aule.compile.codegen.forms.fitting import Work, reduction_work
from torch_aule.compile.codegen.forms.vectors import divided
from torch_aule.compile.codegen.statements import Access, Reduction, Statement
from torch_aule.compile.codegen.types import compute_type
from torch_aule.compile.codegen.unroll import loop_head
from torch_aule.compile.codegen.writer import Writer

__all__ = ["Rows", "row_guards", "row_work"]

_UNROLLED = 1500  # the most statements to which the loop over a row's vectors is unrolled


def row_work(facts: KernelFacts, vec: int, origin: Origin = AT_ZERO, columns: int = 1) -> Work:
    """The invocations' shares of rows, of which each invocation has `columns` at a time."""
    n = facts.numel
    known = is_whole(n)
    loads = [s.load for s in facts.statements if s.load is not None and s.per_element]
    work = reduction_work(
        facts.device,
        facts.hint(facts.numels["x"]) // columns,
        facts.hint(n),
        known=known,
        keeps=known and facts.persistent,
        vec=vec,
        column=facts.is_column,
        loops=facts.stages,
        max_items=16 if vec == 1 else 8,
        operands=sum(facts.is_dense(load, vec, origin) for load in loads),
    )
    if facts.kept and work.items == 0:
        # A row that Inductor counts on having at hand: held, in however many registers that takes.
        work = replace(work, items=-(-int(n) // (work.threads * vec)))
    return work


def row_guards(work: Work) -> dict[str, str]:
    """The guards of statements of rows, as `Writer.statement` takes them."""
    return {"exists": "row_exists" if work.clamps_rows else "", "once": "lane == 0u" if work.threads > 1 else ""}


@dataclass(frozen=True, eq=False)
class Rows(ElementForm):
    """For every reduction.

    Attributes
    ----------
    origin : Origin or None
        Rows that begin anywhere: where their vectors are counted from.
    """

    origin: Origin | None = None

    @classmethod
    def fits(cls, facts: KernelFacts) -> Rows | None:
        """A vector is as long as the sizes allow, and rows that begin anywhere have vectors between their ends."""
        if not facts.is_reduction:
            return None
        if facts.is_column:
            return cls(facts, row_work(facts, 1))
        if facts.vec == 1 and (peeled := _peeled(facts)) is not None:
            vec, origin = peeled
            return cls(facts, row_work(facts, vec, origin), origin)
        return cls(facts, row_work(facts, facts.vec))

    def groups(self) -> str:
        """Each has `work.rows` rows."""
        return divided(self.facts.numels["x"], self.work.rows)

    def lines(self, writer: Writer) -> None:
        """The body of main()."""
        self.position(writer)
        for entry in self.facts.row_entries:
            writer.entry(1, entry, "xindex")
        for name, dtype in self.facts.kept.items():
            writer.line(1, f"{compute_type(dtype)} {name}_kept[{self.work.items * self.work.vec}];")
        for stage in range(self.facts.stages):
            self.row_statements(writer, stage, 1)
            self._elements_of_row(writer, stage)

    def position(self, writer: Writer) -> None:
        """Writes the row of an invocation, and the invocation's number `lane` among those that share the row."""
        work, numel, kind = self.work, writer.numel("x"), self.facts.index
        rows = work.rows
        if work.threads == 1:
            writer.line(1, f"if (linear_invocation() >= uint64_t({numel})) return;")
            writer.line(1, f"const {kind} xindex = {kind}(linear_invocation());")
            writer.line(1, "const uint lane = 0u;")
        elif rows == 1:
            writer.line(1, f"if (uint64_t(linear_group()) >= uint64_t({numel})) return;  // all of a workgroup")
            writer.line(1, f"const {kind} xindex = {kind}(linear_group());")
            writer.line(1, "const uint lane = gl_LocalInvocationID.x;")
        else:
            if work.combine == "subgroup":
                writer.line(1, "const uint own = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;")
            else:
                writer.line(1, "const uint own = gl_LocalInvocationID.x;")
            lane, row = (f"own / {rows}u", f"own % {rows}u") if work.column else (
                f"own % {work.threads}u", f"own / {work.threads}u")  # fmt: skip
            writer.line(1, f"const uint lane = {lane};")
            writer.line(1, f"const uint64_t row = uint64_t(linear_group()) * {rows}ul + {row};")
            writer.line(1, f"const bool row_exists = row < uint64_t({numel});")
            writer.line(1, f"const {kind} xindex = row_exists ? {kind}(row) : {kind}({numel}) - 1;")

    # -- elements

    def is_dense(self, access: Access) -> bool:
        """As the row's vectors are."""
        return self.facts.is_dense(access, self.work.vec, self.origin or AT_ZERO)

    def statement(self, writer: Writer, s: Statement, depth: int) -> None:
        """Not for rows past the end."""
        writer.statement(s, depth, exists=row_guards(self.work)["exists"])

    def row_statements(self, writer: Writer, stage: int, depth: int) -> None:
        """By one of the row's invocations, where they store."""
        for s in self.facts.statements:
            if s.stage == stage and not s.per_element:
                writer.statement(s, depth, **row_guards(self.work))

    def store_words(self, access: Access, address: str, words: str) -> str:
        """Not for rows past the end."""
        guard = "if (row_exists) " if self.work.clamps_rows else ""
        return guard + super().store_words(access, address, words)

    def fetch(self, writer: Writer, statements: list[Statement], stage: int, depth: int, slot: str) -> None:
        """From registers."""
        for name, dtype in self.facts.kept.items():
            is_used = any(name in s.uses for s in statements)
            if is_used and not any(s.defines == name for s in statements):
                writer.line(depth, f"{compute_type(dtype)} {name} = {name}_kept{slot};")

    def keep(self, writer: Writer, s: Statement, depth: int, slot: str) -> None:
        """In registers."""
        if s.defines in self.facts.kept:
            writer.line(depth, f"{s.defines}_kept{slot} = {s.defines};")

    def _elements_of_row(self, writer: Writer, stage: int) -> None:
        statements = self.element_statements(stage)
        if not statements:
            return
        reductions = [s.reduction for s in statements if s.reduction is not None]
        for r in reductions:
            for name, dtype, identity in zip(r.names, r.dtypes, r.identity, strict=True):
                writer.line(1, f"{compute_type(dtype)} {name} = {identity};")
        base, n = f"{self.facts.prefix}base", writer.numel(self.facts.prefix)
        if self.work.items:
            self._held(writer, stage, base, n, len(statements))
        elif self.origin is not None:
            self._between_ends(writer, stage, base, n, self.origin)
        else:
            self._loop(writer, stage, base, n)
        if self.work.threads > 1 and reductions:
            self.combine(writer, reductions)

    def combine(self, writer: Writer, reductions: list[Reduction]) -> None:
        """Writes the combination of the row's accumulators."""
        combine(writer, self.work, reductions)

    def _held(self, writer: Writer, stage: int, base: str, n: str, statements: int) -> None:
        """A row of which each invocation holds its share."""
        work, kind = self.work, self.facts.index
        vec = f" * {work.vec}" if work.vec > 1 else ""
        if work.items * work.vec * statements <= _UNROLLED:
            writer.line(1, loop_head("item", work.items))
        else:
            writer.line(1, f"for (int item = 0; item < {work.items}; ++item) {{")
        writer.line(2, f"const {kind} {base} = (item * {work.threads} + int(lane)){vec};")
        numel = self.facts.numel
        if is_whole(numel) and int(numel) == work.threads * work.vec * work.items:
            self.elements(writer, 2, base, stage, "item")
        else:
            writer.line(2, f"if ({base} < {n}) {{")
            self.elements(writer, 3, base, stage, "item")
            writer.line(2, "}")
        writer.line(1, "}")

    def _loop(self, writer: Writer, stage: int, base: str, n: str) -> None:
        """A row of any length."""
        work, kind = self.work, self.facts.index
        vec = f" * {work.vec}" if work.vec > 1 else ""
        step = work.threads * work.vec
        writer.line(1, f"for ({kind} {base} = {kind}(lane){vec}; {base} < {n}; {base} += {step}) {{")
        self.elements(writer, 2, base, stage)
        writer.line(1, "}")

    def _between_ends(self, writer: Writer, stage: int, base: str, n: str, origin: Origin) -> None:
        """Aligned vectors, then the elements before the first and after the last one. Each stage has the same order."""
        kind, vec, threads = self.facts.index, self.work.vec, self.work.threads
        start = writer.print_index(origin.index)
        head, tail = f"head{stage}", f"tail{stage}"
        writer.line(1, f"const {kind} {head} = min(({vec} - ({start}) % {vec}) % {vec}, {n});")
        writer.line(1, f"const {kind} {tail} = {head} + ({n} - {head}) / {vec} * {vec};")
        step = threads * vec
        writer.line(1, f"for ({kind} {base} = {head} + {kind}(lane) * {vec}; {base} < {tail}; {base} += {step}) {{")
        self.elements(writer, 2, base, stage)
        writer.line(1, "}")
        writer.line(1, f"for ({kind} end = {kind}(lane); end < {n} - ({tail} - {head}); end += {threads}) {{")
        writer.line(2, f"const {kind} {base} = end < {head} ? end : end + ({tail} - {head});")
        self.one(writer, 2, base, stage)
        writer.line(1, "}")


def _peeled(facts: KernelFacts) -> tuple[int, Origin] | None:
    """Vectors for rows that begin anywhere: those between its ends, which are taken one element at a time.

    Their length, and where a row begins in what is aligned alike.
    """
    whole = all(e.divisor == 1 and e.length == facts.numel for e in facts.element_entries)
    if not facts.vectors or facts.device.software or facts.persistent or facts.kept or not whole:
        return None
    known = {e.name for e in facts.row_entries} | facts.sizes | facts.inner
    accesses = [
        a for s in facts.statements if s.per_element and not s.atomic and s.mask is None
        for a in (s.load, s.store) if a is not None and {v.name for v in a.index.free_symbols} <= known
    ]  # fmt: skip
    for vec, first in itertools.product((8, 4), accesses):
        origin = Origin(facts.first_of_row(first))
        if facts.is_worth(vec, [a for a in accesses if facts.is_dense(a, vec, origin)]):
            return vec, origin
    return None
