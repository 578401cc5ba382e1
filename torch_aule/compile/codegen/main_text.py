"""The body of main(): rows, loops over their elements, and how invocations of a row combine what they accumulated."""

from __future__ import annotations

import sympy
from torch._inductor.codegen.common import PythonPrinter

from torch_aule.compile.codegen.forms.columns import column_lines
from torch_aule.compile.codegen.forms.lanes import LANES, lane_groups, lane_lines, uniform_entries
from torch_aule.compile.codegen.forms.odd_rows import odd_row_groups, odd_row_lines
from torch_aule.compile.codegen.forms.tile import is_tiled, tile_groups_text, tile_lines
from torch_aule.compile.codegen.signature import is_float_size
from torch_aule.compile.codegen.statements import Reduction
from torch_aule.compile.codegen.types import compute_type
from torch_aule.compile.codegen.unroll import loop_head

__all__ = ["groups_text", "main_lines"]

_UNROLLED = 1500  # the most statements to which the loop over a row's vectors is unrolled


def groups_text(layout) -> str:
    """The number of workgroups, as a Python expression of the sizes."""
    numel = layout.trees["x"].numel
    if is_tiled(layout):
        return tile_groups_text(layout, PythonPrinter().doprint)
    if layout.lanes:
        return str(lane_groups(layout))
    if layout.row_length:
        return odd_row_groups(layout)
    if not layout.kernel.is_reduction:
        per_group = layout.form.local * layout.vec
    else:
        per_group = layout.form.rows * layout.columns
    if isinstance(numel, (int, sympy.Integer)):
        return str(-(-int(numel) // per_group))
    return f"-(-({PythonPrinter().doprint(numel)}) // {per_group})"


def main_lines(layout) -> None:
    """Append the lines of main() to ``layout.lines``, and shared variables to ``layout.shared_lines``."""
    layout.shared_lines = []
    if layout.columns > 1:
        column_lines(layout)
    elif layout.kernel.is_reduction:
        _rows(layout)
        for stage in range(layout.stages):
            layout.row_statements(stage, 1)
            _elements_of_row(layout, stage)
    elif is_tiled(layout):
        tile_lines(layout)
    elif layout.lanes:
        lane_lines(layout)
    elif layout.row_length:
        odd_row_lines(layout)
    else:
        _pointwise(layout)
    body, layout.lines = layout.lines, []
    _sizes(layout)  # known by now: printing an index makes its sizes arguments
    layout.lines += body


def _sizes(layout) -> None:
    names = layout.kernel.args.sizevars
    for symbol, name in names.items():
        if is_float_size(symbol):
            layout.line(1, f"const float {name} = p.{name};")
        else:
            layout.line(1, f"const {layout.index} {name} = {layout.index}(p.{name});")


def _numel(layout, prefix: str) -> str:
    return layout.kernel.index_to_str(layout.trees[prefix].numel)


def _pointwise(layout) -> None:
    numel = _numel(layout, "x")
    first = f"{layout.index}(linear_invocation())" + (f" * {layout.vec}" if layout.vec > 1 else "")
    layout.line(1, f"const {layout.index} xbase = {first};")
    layout.line(1, f"if (linear_invocation() * {layout.vec}ul >= uint64_t({numel})) return;")
    layout.row_statements(0, 1)
    layout.elements(0, 1, "xbase", "0")


def _rows(layout) -> None:
    form, numel, kind = layout.form, _numel(layout, "x"), layout.index
    rows = form.rows
    if layout.lane_rows:
        layout.line(1, f"const {kind} xindex = {kind}(linear_group());")
        layout.line(1, "const uint lane = gl_SubgroupInvocationID;")
        uniform_entries(layout)
    elif layout.lane_columns:
        layout.line(1, f"const {kind} xindex = {kind}(linear_group() * {LANES}u + gl_SubgroupInvocationID);")
        layout.line(1, "const uint lane = 0u;")
        uniform_entries(layout)
    elif form.threads == 1:
        layout.line(1, f"if (linear_invocation() >= uint64_t({numel})) return;")
        layout.line(1, f"const {kind} xindex = {kind}(linear_invocation());")
        layout.line(1, "const uint lane = 0u;")
    elif rows == 1:
        layout.line(1, f"if (uint64_t(linear_group()) >= uint64_t({numel})) return;  // all of a workgroup")
        layout.line(1, f"const {kind} xindex = {kind}(linear_group());")
        layout.line(1, "const uint lane = gl_LocalInvocationID.x;")
    else:
        if form.combine == "subgroup":
            layout.line(1, "const uint own = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;")
        else:
            layout.line(1, "const uint own = gl_LocalInvocationID.x;")
        lane, row = (f"own / {rows}u", f"own % {rows}u") if form.column else (
            f"own % {form.threads}u", f"own / {form.threads}u")  # fmt: skip
        layout.line(1, f"const uint lane = {lane};")
        layout.line(1, f"const uint64_t row = uint64_t(linear_group()) * {rows}ul + {row};")
        layout.line(1, f"const bool row_exists = row < uint64_t({numel});")
        layout.line(1, f"const {kind} xindex = row_exists ? {kind}(row) : {kind}({numel}) - 1;")
    for entry in layout.entries.values():
        if entry.prefix == "x":
            layout.line(1, f"const {kind} {entry.name} = {layout.entry_text(entry, 'xindex')};")
    for name, dtype in layout.kept.items():
        layout.line(1, f"{compute_type(dtype)} {name}_kept[{form.items * layout.vec}];")


def _elements_of_row(layout, stage: int) -> None:
    statements = [s for s in layout.statements if s.stage == stage and s.per_element]
    if not statements:
        return
    reductions = [s.reduction for s in statements if s.reduction is not None]
    for r in reductions:
        for name, dtype, identity in zip(r.names, r.dtypes, r.identity, strict=True):
            layout.line(1, f"{compute_type(dtype)} {name} = {identity};")
    form, kind = layout.form, layout.index
    base, n = f"{layout.prefix}base", _numel(layout, layout.prefix)
    vec = f" * {form.vec}" if form.vec > 1 else ""
    step = form.threads * form.vec
    if form.items:
        if form.items * form.vec * len(statements) <= _UNROLLED:
            layout.line(1, loop_head("item", form.items))
        else:
            layout.line(1, f"for (int item = 0; item < {form.items}; ++item) {{")
        layout.line(2, f"const {kind} {base} = (item * {form.threads} + int(lane)){vec};")
        exact = isinstance(layout.trees[layout.prefix].numel, (int, sympy.Integer)) and (
            int(layout.trees[layout.prefix].numel) == step * form.items
        )
        if not exact:
            layout.line(2, f"if ({base} < {n}) {{")
        layout.elements(stage, 2 if exact else 3, base, "item")
        if not exact:
            layout.line(2, "}")
        layout.line(1, "}")
    elif layout.peeled:
        _peeled_row(layout, stage, base, n)
    else:
        layout.line(1, f"for ({kind} {base} = {kind}(lane){vec}; {base} < {n}; {base} += {step}) {{")
        layout.elements(stage, 2, base, "0")
        layout.line(1, "}")
    if form.threads > 1 and reductions:
        _combine(layout, reductions)


def _peeled_row(layout, stage: int, base: str, n: str) -> None:
    """Aligned vectors, then the elements before the first and after the last one. Each stage has the same order."""
    form, kind, vec = layout.form, layout.index, layout.vec
    origin = layout.kernel.index_to_str(layout.origin)
    head, tail = f"head{stage}", f"tail{stage}"
    layout.line(1, f"const {kind} {head} = min(({vec} - ({origin}) % {vec}) % {vec}, {n});")
    layout.line(1, f"const {kind} {tail} = {head} + ({n} - {head}) / {vec} * {vec};")
    step = form.threads * vec
    layout.line(1, f"for ({kind} {base} = {head} + {kind}(lane) * {vec}; {base} < {tail}; {base} += {step}) {{")
    layout.elements(stage, 2, base, "0")
    layout.line(1, "}")
    layout.line(1, f"for ({kind} end = {kind}(lane); end < {n} - ({tail} - {head}); end += {form.threads}) {{")
    layout.line(2, f"const {kind} {base} = end < {head} ? end : end + ({tail} - {head});")
    layout.vec = 1
    layout.elements(stage, 2, base, "0")
    layout.vec = vec
    layout.line(1, "}")


def _combine(layout, reductions: list[Reduction]) -> None:
    form = layout.form
    if form.combine == "subgroup":
        _shuffle(layout, reductions, 1, f"[[unroll]] for (uint apart = 1u; apart < {form.threads}u; apart *= 2u) {{")
        return
    if form.combine == "group":
        _shuffle(layout, reductions, 1)
        _through_shared(layout, reductions, max(form.local // layout.device.subgroup_size, 1))
        return
    _tree(layout, reductions)


_OVER_SUBGROUP = "for (uint apart = gl_SubgroupSize / 2u; apart > 0u; apart /= 2u) {"


def _shuffle(layout, reductions: list[Reduction], depth: int, loop: str = _OVER_SUBGROUP) -> None:
    layout.line(depth, loop)
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            layout.line(depth + 1, f"const {compute_type(dtype)} {name}_other = shuffle_xor({name}, apart);")
        layout.line(depth + 1, r.combine)
    layout.line(depth, "}")


def _shared(layout, reductions, size: int) -> None:
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            layout.shared_lines.append(f"shared {compute_type(dtype)} {name}_shared[{size}];")


# Above so many subgroups, each combines all of their values in log2 steps instead of one after the other: 32 steps of
# online softmax by each of 1,024 invocations were more work than a row of 50,257 elements.
_MOST_IN_TURN = 4


def _through_shared(layout, reductions: list[Reduction], subgroups: int) -> None:
    """One value of each subgroup; every subgroup then combines all of them in the same order."""
    _shared(layout, reductions, subgroups)
    layout.line(1, "if (gl_NumSubgroups > 1u) {")
    layout.line(2, "if (gl_SubgroupInvocationID == 0u) {")
    for r in reductions:
        for name in r.names:
            layout.line(3, f"{name}_shared[gl_SubgroupID] = {name};")
    layout.line(2, "}")
    layout.line(2, "barrier();  // a value of each subgroup")
    in_turn = subgroups <= _MOST_IN_TURN
    for r in reductions:
        for name, identity in zip(r.names, r.identity, strict=True):
            layout.line(2, f"{name} = {f'{name}_shared[0]' if in_turn else identity};")
    first, step = ("1u", "1u") if in_turn else ("gl_SubgroupInvocationID", "gl_SubgroupSize")
    layout.line(2, f"for (uint g = {first}; g < gl_NumSubgroups; g += {step}) {{")
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            layout.line(3, f"const {compute_type(dtype)} {name}_other = {name}_shared[g];")
        layout.line(3, r.combine)
    layout.line(2, "}")
    if not in_turn:
        _shuffle(layout, reductions, 2)
        for r in reductions:
            # Means and sums of e^x: what a and b give is not to the bit what b and a give.
            if len(r.names) > 1 and all(dtype.is_floating_point for dtype in r.dtypes):
                for name in r.names:
                    layout.line(2, f"{name} = subgroupShuffle({name}, 0u);")
    layout.line(1, "}")


def _tree(layout, reductions) -> None:
    """In shared memory, halving the invocations of a row: for devices without shuffles, and for columns."""
    form = layout.form
    _shared(layout, reductions, form.local)
    if form.rows == 1:
        slot, first, hop = "lane", "0u", "1u"
    elif form.column:
        slot, first, hop = "own", f"own % {form.rows}u", f"{form.rows}u"
    else:
        slot, first, hop = "own", "own - lane", "1u"
    for r in reductions:
        for name in r.names:
            layout.line(1, f"{name}_shared[{slot}] = {name};")
    layout.line(1, "barrier();  // a value of each invocation")
    layout.line(1, f"for (uint apart = {form.threads // 2}u; apart > 0u; apart /= 2u) {{")
    layout.line(2, "if (lane < apart) {")
    for r in reductions:
        for name, dtype in zip(r.names, r.dtypes, strict=True):
            layout.line(3, f"const {compute_type(dtype)} {name}_other = {name}_shared[{slot} + apart * {hop}];")
        layout.line(3, r.combine)
        for name in r.names:
            layout.line(3, f"{name}_shared[{slot}] = {name};")
    layout.line(2, "}")
    layout.line(2, "barrier();  // this round's values")
    layout.line(1, "}")
    for r in reductions:
        for name in r.names:
            layout.line(1, f"{name} = {name}_shared[{first}];")
