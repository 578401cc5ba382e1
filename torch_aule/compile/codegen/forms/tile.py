"""Pointwise kernels over two axes: squares of a matrix, of which some operands are contiguous along the other axis.

Those go through shared memory, so that each access to memory is along its own contiguous axis.
"""

from __future__ import annotations

import contextlib

import sympy

from torch_aule.compile.codegen.statements import Statement
from torch_aule.compile.codegen.types import compute_type
from torch_aule.compile.codegen.unroll import loop_head

__all__ = ["is_tiled", "tile_groups_text", "tile_lines"]

SIDE, ROWS = 32, 8  # of a square; invocations along its slower axis
_PER = SIDE // ROWS  # elements of an invocation


def is_tiled(layout) -> bool:
    """True if the kernel has a second axis."""
    return not layout.kernel.is_reduction and "y" in layout.trees


def tile_groups_text(layout, printer) -> str:
    """Workgroups: the squares."""
    x, y = layout.trees["x"].numel, layout.trees["y"].numel
    if all(isinstance(n, (int, sympy.Integer)) for n in (x, y)):
        return str(-(-int(x) // SIDE) * -(-int(y) // SIDE))
    return f"-(-({printer(x)}) // {SIDE}) * -(-({printer(y)}) // {SIDE})"


def _across(layout, access) -> bool:
    """True if neighbours along y are neighbours in memory, and those along x are not."""
    along = {"x": set(), "y": set()}
    for e in layout.entries.values():
        if e.divisor == 1:
            along[e.prefix].add(e.name)
    step = {axis: layout.step(access.index, names) for axis, names in along.items()}
    return step["y"] == 1 and step["x"] not in (0, 1)


def _needs_nothing(layout, s: Statement) -> bool:
    """True if a load depends on the position alone."""
    made = {other.defines for other in layout.statements if other.defines is not None}
    return s.mask is None and s.uses.isdisjoint(made)


def tile_lines(layout) -> None:
    """Append the lines of main()."""
    nx, ny = (layout.kernel.index_to_str(layout.trees[a].numel) for a in ("x", "y"))
    kind = layout.index
    stored = {s.store.argument for s in layout.statements if s.store is not None}
    shared_memory = not layout.device.software
    loads = [
        s for s in layout.statements
        if shared_memory and s.load is not None and s.load.argument not in stored and _across(layout, s.load)
        and _needs_nothing(layout, s)
    ]  # fmt: skip
    # A store that crosses is last, so that no load of the same buffer comes between.
    read = {s.load.argument for s in layout.statements if s.load is not None}
    stores = [
        s for s in layout.statements
        if shared_memory and s.store is not None and not s.atomic and s.store.argument not in read
        and _across(layout, s.store)
    ]  # fmt: skip
    layout.line(1, f"const uint across = (uint({nx}) + {SIDE - 1}u) / {SIDE}u;")
    layout.line(1, f"const {kind} xbase = {kind}(linear_group() % across) * {SIDE};")
    layout.line(1, f"const {kind} ybase = {kind}(linear_group() / across) * {SIDE};")
    layout.line(1, f"const int fast = int(gl_LocalInvocationID.x % {SIDE}u);")
    layout.line(1, f"const int slow = int(gl_LocalInvocationID.x / {SIDE}u);")
    for s in (*loads, *stores):
        dtype = s.dtype if s.load is not None else s.store.dtype
        layout.shared_lines.append(f"shared {compute_type(dtype)} {_name(s)}[{SIDE}][{SIDE + 1}];")
    if loads:
        with _walk(layout, nx, ny, "slow", "fast", loads):
            for s in loads:
                layout.line(3, f"{_name(s)}[xlocal][ylocal] = {s.text};")
        layout.line(1, "barrier();  // the loads that cross")
    with _walk(layout, nx, ny, "fast", "slow", layout.statements):
        for s in layout.statements:
            if s in loads:
                layout.line(3, f"const {compute_type(s.dtype)} {s.defines} = {_name(s)}[xlocal][ylocal];")
            elif s in stores:
                layout.line(3, f"{_name(s)}[xlocal][ylocal] = {s.text};")
            else:
                layout.statement(s, 3)
    if stores:
        layout.line(1, "barrier();  // the stores that cross")
        with _walk(layout, nx, ny, "slow", "fast", stores):
            for s in stores:
                layout.line(3, layout.store_text(Statement(f"{_name(s)}[xlocal][ylocal]", store=s.store)))


def _name(s: Statement) -> str:
    if s.load is not None:
        return f"{s.defines}_tile"
    return f"{s.store.argument}_tile"


@contextlib.contextmanager
def _walk(layout, nx: str, ny: str, x: str, y: str, statements):
    """A loop over an invocation's elements, with the entries of both axes that the statements use."""
    kind = layout.index
    layout.line(1, loop_head("part", _PER))
    for axis, which in (("x", x), ("y", y)):
        step = f"{which} + part * {ROWS}" if which == "slow" else which
        layout.line(2, f"const int {axis}local = {step};")
        layout.line(2, f"const {kind} {axis}index = {axis}base + {axis}local;")
    layout.line(2, f"if (xindex < {nx} && yindex < {ny}) {{")
    used = set().union(*(s.uses for s in statements))
    for e in layout.entries.values():
        if e.name in used:
            layout.line(3, f"const {kind} {e.name} = {layout.entry_text(e, f'{e.prefix}index')};")
    yield
    layout.line(2, "}")
    layout.line(1, "}")
