"""Kernels for lavapipe whose lanes load neighbours with one instruction: dense elements, short rows and columns.

What lavapipe makes of loads is written in shaders/common/uniform.glsl; eager mode's kernels of this form are
shaders/pointwise/*_simd.comp (docs/ladders/dense.md).
"""

from __future__ import annotations

import re

import sympy
import torch

from torch_aule.compile.codegen.forms.tile import is_tiled
from torch_aule.compile.codegen.statements import dtypes_of
from torch_aule.compile.codegen.unroll import loop_head

__all__ = [
    "LANES",
    "VEC",
    "column_load_text",
    "has_lane_columns",
    "has_lane_rows",
    "lane_blocks",
    "lane_groups",
    "lane_lines",
    "load_text",
    "row_load_text",
    "store_text",
    "uniform_entries",
]

LANES, VEC = 8, 8  # of a subgroup; elements that a lane has of a block
_FEWEST = 1 << 14  # elements: fewer are not worth it
# Of a lane, unrolled: LLVM takes minutes for more. A call of a function counts as many operations.
_MOST_OPERATIONS, _MOST_OF_ROW, _OF_CALL = 400, 1500, 20
_CALL = re.compile(r"\b(?!(?:float|u?int|u?int64_t|bool|max_?|min_?|abs|is_nan|if)\()[a-z]\w*\(")
_MOST_ARGUMENTS = 10  # more do not fit into push constants, which the loads' addresses must come from


def _may_have_lanes(layout) -> bool:
    device, kernel = layout.device, layout.kernel
    if not (device.software and device.shuffles and device.subgroup_size == LANES):
        return False
    if is_tiled(layout) or kernel.uses_errors or kernel.index_type != "int" or kernel.args.sizevars:
        return False
    if any(s.mask is not None or s.atomic for s in layout.statements):
        return False
    if torch.float64 in dtypes_of(layout.statements) | set(kernel.host_scalars.values()):
        return False
    arguments = {a.argument for s in layout.statements for a in (s.load, s.store) if a is not None}
    return len(arguments | set(kernel.host_scalars)) <= _MOST_ARGUMENTS


def _operations(layout) -> int:
    """Of an element."""
    texts = [
        s.reduction.take if s.reduction is not None else s.text if s.load is None else ""
        for s in layout.statements
        if s.per_element
    ]
    return sum(1 + _OF_CALL * len(_CALL.findall(text)) for text in texts)


def lane_blocks(layout) -> int:
    """How many blocks of 64 elements a workgroup computes, or 0 if the kernel has another form."""
    if layout.kernel.is_reduction or not _may_have_lanes(layout):
        return 0
    numel = layout.trees["x"].numel
    if not isinstance(numel, (int, sympy.Integer)) or int(numel) < _FEWEST or int(numel) % (LANES * VEC):
        return 0
    names = {entry.name for entry in layout.element_entries}
    if any(entry.divisor != 1 or entry.length != numel for entry in layout.element_entries):
        return 0
    stored: set[str] = set()
    for s in layout.statements:
        access = s.load or s.store
        if access is not None and s.per_element:
            if not layout.first_of_row(access).is_Integer or not layout.is_dense(access, VEC):
                return 0
            if s.load is not None and access.argument in stored:
                return 0
            if s.store is not None:
                stored.add(access.argument)
        elif access is None and not s.uses.isdisjoint(names | {"xindex"}):
            return 0
    of_block = VEC * _operations(layout)
    if of_block > 2 * _MOST_OPERATIONS:
        return 0
    blocks = int(numel) // (LANES * VEC)
    return next((n for n in (4, 2) if blocks % n == 0 and n * of_block <= _MOST_OPERATIONS), 1)


def lane_groups(layout) -> int:
    """Workgroups."""
    return int(layout.trees["x"].numel) // (LANES * VEC * layout.lanes)


def lane_lines(layout) -> None:
    """Append the lines of main()."""
    digits = max(1, -(-(lane_groups(layout) - 1).bit_length() // 3))
    layout.line(1, f"const uint64_t group = uint64_t(as_uniform(linear_group(), {digits}));")
    layout.row_statements(0, 1)
    layout.line(1, loop_head("block", layout.lanes))
    layout.line(2, f"const uint64_t first = (group * {layout.lanes}ul + uint64_t(block)) * {LANES * VEC}ul;")
    layout.elements(0, 2, "0", "0")
    layout.line(1, "}")


def _by_words(layout) -> str:
    """With elements of one size, neighbouring lanes have neighbouring words; otherwise each lane has a run."""
    sizes = {a.dtype.itemsize for s in layout.statements if s.per_element for a in (s.load, s.store) if a is not None}
    return "true" if len(sizes) == 1 else "false"


def _first(layout, access) -> str:
    offset = int(layout.first_of_row(access))
    return f"first + {offset}ul" if offset else "first"


def load_text(layout, access) -> str:
    """The words of a lane."""
    return f"load_block(p.{access.argument}, {_first(layout, access)}, {access.dtype.itemsize}, {_by_words(layout)})"


def store_text(layout, access, words: str) -> str:
    """Stores the words of a lane."""
    to = f"p.{access.argument}, {_first(layout, access)}, {access.dtype.itemsize}, {_by_words(layout)}"
    return f"store_block({to}, {words});"


# Columns: a lane has one, and the loop over its elements is unrolled.


def has_lane_columns(layout) -> bool:
    """True for reductions of short columns of float32, next to each other in memory."""
    if not layout.kernel.is_reduction or not _may_have_lanes(layout):
        return False
    rows, n = layout.trees["x"].numel, layout.trees[layout.prefix].numel
    if not all(isinstance(size, (int, sympy.Integer)) for size in (rows, n)) or int(rows) % LANES:
        return False
    statements = [s for s in layout.statements if s.per_element]
    if int(n) * _operations(layout) > _MOST_OPERATIONS or int(rows) * int(n) < _FEWEST // 8:
        return False
    of_rows = [e for e in layout.entries.values() if e.prefix == "x"]
    if any((e.length if e.divisor == 1 else e.divisor) % LANES for e in of_rows):
        return False
    inner = {e.name for e in of_rows if e.divisor == 1}
    made = {s.defines for s in layout.statements if s.defines is not None}
    for s in statements:
        if s.store is not None:
            return False
        if s.load is not None and (
            s.load.dtype != torch.float32
            or layout.step(s.load.index, inner) not in (0, 1)
            or not made.isdisjoint(re.findall(r"\w+", s.load.index_text))
        ):
            return False
    return True


# Rows: the lanes share one, and have pairs of its elements.


def has_lane_rows(layout) -> bool:
    """True for reductions of short rows of float32."""
    if not layout.kernel.is_reduction or not _may_have_lanes(layout):
        return False
    rows, n = layout.trees["x"].numel, layout.trees[layout.prefix].numel
    if not all(isinstance(size, (int, sympy.Integer)) for size in (rows, n)) or int(n) % (2 * LANES):
        return False
    if any(e.divisor != 1 or e.length != n for e in layout.element_entries):
        return False
    statements = [s for s in layout.statements if s.per_element]
    if int(n) // LANES * _operations(layout) > _MOST_OF_ROW or int(rows) * int(n) < _FEWEST:
        return False
    made = {s.defines for s in layout.statements if s.defines is not None}
    accesses = [a for s in statements for a in (s.load, s.store) if a is not None]
    others = [s for s in statements if (a := s.load or s.store) is not None and a.dtype != torch.float32]
    # A mask of dropout, say: by the lanes' loops, which cost as much as they do elsewhere.
    few = len(others) <= 2 and all(s.load is not None for s in others)
    return (
        few
        and len(accesses) > len(others)
        and all(layout.is_dense(a, 2) for a in accesses)
        and all(made.isdisjoint(re.findall(r"\w+", a.index_text)) for a in accesses)
    )


def uniform_entries(layout) -> None:
    """Append what a workgroup's lanes have in common: each entry of the rows as the first lane has it."""
    loads = [s.load for s in layout.statements if s.load is not None and s.per_element]
    used = {name for load in loads for name in re.findall(r"\w+", load.index_text)}
    rows = LANES // layout.form.threads
    for e in layout.entries.values():
        if e.prefix == "x" and e.name in used:
            digits = max(1, -(-(int(e.length) - 1).bit_length() // 3))
            first = layout.entry_text(e, f"int(linear_group() * {rows}u)")
            layout.line(1, f"const uint {e.name}_first = as_uniform(uint({first}), {digits});")


def _uniform_index(layout, access) -> str:
    index = access.index_text
    for e in layout.entries.values():
        if e.prefix == "x":
            index = re.sub(rf"\b{e.name}\b", f"int({e.name}_first)", index)
    return index


def column_load_text(layout, access) -> str:
    """What a lane loads."""
    inner = {e.name for e in layout.entries.values() if e.prefix == "x" and e.divisor == 1}
    step = 4 * int(layout.step(access.index, inner))
    return f"load_lanes(p.{access.argument} + uint64_t({_uniform_index(layout, access)}) * 4ul, {step}ul)"


def row_load_text(layout, access) -> str:
    """The words of a lane's pair."""
    index = _uniform_index(layout, access)
    for name in layout.inner:
        index = re.sub(rf"\b{name}\b", f"item * {2 * LANES}", index)
    return f"load_pairs(p.{access.argument} + uint64_t({index}) * 4ul)"
