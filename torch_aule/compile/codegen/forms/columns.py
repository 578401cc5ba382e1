"""Reductions over an outer dimension on GPUs: an invocation has four neighbouring columns.

Their elements of one row are one access of 8 or 16 bytes. What all four share, as the mean of a row that a gradient of
a layer norm needs, is loaded and computed once.
"""

from __future__ import annotations

import re
from dataclasses import replace

from torch._inductor.virtualized import V

from torch_aule.compile import config
from torch_aule.compile.codegen.types import STORAGE, compute_type
from torch_aule.compile.codegen.unroll import loop_head

__all__ = ["COLUMNS", "column_lines", "has_vector_columns"]

COLUMNS = 4
_LOCAL = 256  # the most invocations of a workgroup of columns (forms.py)


def _inner(layout) -> set[str]:
    """Entries that count columns one by one."""
    return {e.name for e in layout.entries.values() if e.prefix == "x" and e.divisor == 1}


def _is_vector(layout, access, inner: set[str]) -> bool:
    """True if the columns' elements are one aligned vector."""
    return (
        STORAGE[access.dtype][1]
        and layout.step(access.index, inner) == 1
        and access.buffer not in V.graph.unaligned_buffers
        and layout.is_multiple(access.index.subs({s: 0 for s in access.index.free_symbols if s.name in inner}), COLUMNS)
    )


def has_vector_columns(layout) -> bool:
    """True for a reduction of columns in one loop over their rows, some of whose loads are vectors of columns."""
    if not config.vectors or layout.device.software or layout.kept or layout.stages != 2:
        return False
    known = V.graph.sizevars.statically_known_multiple_of
    entries = [e for e in layout.entries.values() if e.prefix == "x"]
    sizes = [layout.trees["x"].numel, *(e.length if e.divisor == 1 else e.divisor for e in entries)]
    if not all(known(size, COLUMNS) for size in sizes):
        return False
    sums = [dtype for s in layout.statements if s.reduction is not None for dtype in s.reduction.dtypes]
    if sum(max(dtype.itemsize, 4) for dtype in sums) * _LOCAL * COLUMNS > layout.device.shared_bytes:
        return False
    inner = _inner(layout)
    made = {s.defines for s in layout.statements if s.defines is not None}
    vectors = 0
    for s in layout.statements:
        if s.defines is None and s.reduction is None and s.store is None:
            return False  # a check of an index
        if s.atomic or (s.per_element and (s.store is not None or s.stage != 0)):
            return False
        if s.stage == 0 and not s.per_element and not s.uses.isdisjoint(inner):
            return False
        if s.load is not None and not made.isdisjoint(re.findall(r"\w+", s.load.index_text)):
            return False
        vectors += s.load is not None and s.per_element and _is_vector(layout, s.load, inner)
    return vectors > 0


def _split(layout, inner: set[str]):
    """Statements of the loop that all columns share, and the others."""
    varying = set(inner)
    shared, apart = [], []
    for s in layout.statements:
        if not s.per_element or s.stage != 0:
            continue
        if s.reduction is None and s.uses.isdisjoint(varying):
            shared.append(s)
            continue
        apart.append(s)
        if s.defines is not None:
            varying.add(s.defines)
    return shared, apart, varying


class _EachColumn:
    """Lines for each of the columns: accumulators and what follows from the position are the column's own."""

    def __init__(self, layout, depth: int, accumulators: list[str], inner: set[str], used: set[str]):
        self.layout, self.depth = layout, depth
        self.names = re.compile(rf"\b({'|'.join(accumulators)})\b")
        self.inner = sorted(inner & used)

    def __enter__(self):
        self.layout.line(self.depth, loop_head("v", COLUMNS))
        self.first = len(self.layout.lines)
        for name in self.inner:
            self.layout.line(self.depth + 1, f"const {self.layout.index} {name} = {name}_base + v;")

    def __exit__(self, *error):
        lines = self.layout.lines
        lines[self.first :] = [self.names.sub(r"\1[v]", text) for text in lines[self.first :]]
        self.layout.line(self.depth, "}")


def column_lines(layout) -> None:
    """The body of main()."""
    form, kind, inner = layout.form, layout.index, _inner(layout)
    numel, n = (layout.kernel.index_to_str(layout.trees[p].numel) for p in ("x", layout.prefix))
    shared, apart, varying = _split(layout, inner)
    reductions = [s.reduction for s in apart if s.reduction is not None]
    accumulators = [name for r in reductions for name in r.names]
    results = [s for s in layout.statements if s.stage == 1]
    layout.line(1, "const uint own = gl_LocalInvocationID.x;")
    layout.line(1, f"const uint lane = own / {form.rows}u;")
    layout.line(
        1, f"const uint64_t row = (uint64_t(linear_group()) * {form.rows}ul + own % {form.rows}u) * {COLUMNS}ul;"
    )
    layout.line(1, f"const bool row_exists = row < uint64_t({numel});")
    if form.threads == 1:
        layout.line(1, "if (!row_exists) return;")
    layout.line(1, f"const {kind} xbase = row_exists ? {kind}(row) : {kind}({numel}) - {COLUMNS};")
    for entry in layout.entries.values():
        if entry.prefix == "x":
            name = f"{entry.name}_base" if entry.name in inner else entry.name
            layout.line(1, f"const {kind} {name} = {layout.entry_text(entry, 'xbase')};")
    for s in layout.statements:
        if s.stage == 0 and not s.per_element:
            layout.statement(s, 1)
    for r in reductions:
        for name, dtype, identity in zip(r.names, r.dtypes, r.identity, strict=True):
            real = compute_type(dtype)
            layout.line(1, f"{real} {name}[{COLUMNS}] = {real}[{COLUMNS}]({', '.join([identity] * COLUMNS)});")
    base = f"{layout.prefix}base"
    layout.line(1, f"for ({kind} {base} = {kind}(lane); {base} < {n}; {base} += {form.threads}) {{")
    layout.line(2, f"const {kind} {layout.prefix}index = {base};")
    for entry in layout.element_entries:
        layout.line(2, f"const {kind} {entry.name} = {layout.entry_text(entry, base)};")
    for s in shared:
        layout.statement(s, 2)
    words = _vector_loads(layout, apart, inner, varying)
    with _EachColumn(layout, 2, accumulators, inner, set().union(*(s.uses for s in apart))):
        for s in apart:
            if id(s) not in words:
                layout.statement(s, 3)
                continue
            value = f"AULE_UNPACK_{STORAGE[s.load.dtype][0]}({words[id(s)]}, v)"
            layout.statement(replace(s, load=None, text=value), 3)
    layout.line(1, "}")
    if form.threads > 1:
        _tree(layout, reductions, accumulators)
    with _EachColumn(layout, 1, accumulators, inner, set().union(*(s.uses for s in results))):
        for s in results:
            layout.statement(s, 2, row_store=True)


def _vector_loads(layout, apart, inner: set[str], varying: set[str]) -> dict[int, str]:
    words = {}
    for s in apart:
        # A mask that differs from column to column keeps single loads.
        if s.load is None or s.mask in varying or not _is_vector(layout, s.load, inner):
            continue
        name = words[id(s)] = f"w{len(words)}"
        text = re.sub(rf"\b({'|'.join(inner)})\b", r"\1_base", s.load.index_text)
        size = s.load.dtype.itemsize
        load = f"load_words(p.{s.load.argument} + uint64_t({text}) * {size}ul, {COLUMNS * size})"
        if s.mask is None:
            layout.line(2, f"const Words {name} = {load};")
        else:
            layout.line(2, f"Words {name};")
            layout.line(2, f"if ({s.mask}) {name} = {load};")
    return words


def _tree(layout, reductions, accumulators: list[str]) -> None:
    """The invocations that share columns combine what they have in shared memory, half of them in each round."""
    form = layout.form
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            layout.shared_lines.append(f"shared {compute_type(dtype)} {name}_shared[{form.local * COLUMNS}];")

    def each(depth: int, lines: list[str]) -> None:
        with _EachColumn(layout, depth, accumulators, set(), set()):
            for text in lines:
                layout.line(depth + 1, text)

    slot = f"v * {form.local} + own"
    each(1, [f"{name}_shared[{slot}] = {name};" for name in accumulators])
    layout.line(1, "barrier();  // a value of each invocation")
    layout.line(1, f"for (uint apart = {form.threads // 2}u; apart > 0u; apart /= 2u) {{")
    layout.line(2, "if (lane < apart) {")
    combined = []
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            combined.append(f"const {compute_type(dtype)} {name}_other = {name}_shared[{slot} + apart * {form.rows}u];")
        combined.append(r.combine)
        combined += [f"{name}_shared[{slot}] = {name};" for name in r.names]
    each(3, combined)
    layout.line(2, "}")
    layout.line(2, "barrier();  // this round's values")
    layout.line(1, "}")
