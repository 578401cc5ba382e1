"""Pointwise kernels over two axes: squares of a matrix, of which some operands are contiguous along the other axis.

Those go through shared memory, so that each access to memory is along its own contiguous axis.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from torch._inductor.codegen.common import PythonPrinter

from torch_aule.compile.codegen.facts import KernelFacts, is_whole
from torch_aule.compile.codegen.forms.fitting import pointwise_work
from torch_aule.compile.codegen.forms.form import Form
from torch_aule.compile.codegen.statements import Access, Statement
from torch_aule.compile.codegen.types import compute_type
from torch_aule.compile.codegen.unroll import loop_head
from torch_aule.compile.codegen.writer import Writer

__all__ = ["Tile"]

SIDE, ROWS = 32, 8  # of a square; invocations along its slower axis
_PER = SIDE // ROWS  # elements of an invocation


class Tile(Form):
    """For every pointwise kernel over two axes."""

    @classmethod
    def fits(cls, facts: KernelFacts) -> Tile | None:
        """Inductor chose the axes."""
        return cls(facts, pointwise_work(facts.device, 1)) if facts.is_tiled else None

    def groups(self) -> str:
        """The squares."""
        x, y = self.facts.numels["x"], self.facts.numels["y"]
        if is_whole(x, y):
            return str(-(-int(x) // SIDE) * -(-int(y) // SIDE))
        printer = PythonPrinter().doprint
        return f"-(-({printer(x)}) // {SIDE}) * -(-({printer(y)}) // {SIDE})"

    def _across(self, access: Access) -> bool:
        """True if neighbours along y are neighbours in memory, and those along x are not."""
        step = {
            axis: self.facts.step(
                access.index, frozenset(e.name for e in self.facts.entries if e.divisor == 1 and e.prefix == axis)
            )
            for axis in ("x", "y")
        }
        return step["y"] == 1 and step["x"] not in (0, 1)

    def _crossing(self) -> tuple[list[Statement], list[Statement]]:
        """Loads that depend on the position alone, and stores, that go through shared memory."""
        statements = self.facts.statements
        if self.facts.device.software:
            return [], []
        stored = {s.store.argument for s in statements if s.store is not None}
        loads = [
            s for s in statements
            if s.load is not None and s.load.argument not in stored and self._across(s.load)
            and s.mask is None and s.uses.isdisjoint(self.facts.made)
        ]  # fmt: skip
        # A store that crosses is last, so that no load of the same buffer comes between.
        read = {s.load.argument for s in statements if s.load is not None}
        stores = [
            s for s in statements
            if s.store is not None and not s.atomic and s.store.argument not in read and self._across(s.store)
        ]  # fmt: skip
        return loads, stores

    def lines(self, writer: Writer) -> None:
        """The body of main()."""
        nx, ny = (writer.numel(axis) for axis in ("x", "y"))
        kind = self.facts.index
        loads, stores = self._crossing()
        writer.line(1, f"const uint across = (uint({nx}) + {SIDE - 1}u) / {SIDE}u;")
        writer.line(1, f"const {kind} xbase = {kind}(linear_group() % across) * {SIDE};")
        writer.line(1, f"const {kind} ybase = {kind}(linear_group() / across) * {SIDE};")
        writer.line(1, f"const int fast = int(gl_LocalInvocationID.x % {SIDE}u);")
        writer.line(1, f"const int slow = int(gl_LocalInvocationID.x / {SIDE}u);")
        for s in (*loads, *stores):
            writer.share(_name(s), s.dtype if s.load is not None else s.store.dtype, SIDE, SIDE + 1)
        if loads:
            with self._walk(writer, nx, ny, "slow", "fast", loads):
                for s in loads:
                    writer.line(3, f"{_name(s)}[xlocal][ylocal] = {s.text};")
            writer.line(1, "barrier();  // the loads that cross")
        with self._walk(writer, nx, ny, "fast", "slow", self.facts.statements):
            for s in self.facts.statements:
                if s in loads:
                    writer.line(3, f"const {compute_type(s.dtype)} {s.defines} = {_name(s)}[xlocal][ylocal];")
                elif s in stores:
                    writer.line(3, f"{_name(s)}[xlocal][ylocal] = {s.text};")
                else:
                    writer.statement(s, 3)
        if stores:
            writer.line(1, "barrier();  // the stores that cross")
            with self._walk(writer, nx, ny, "slow", "fast", stores):
                for s in stores:
                    writer.line(3, writer.store_text(Statement(f"{_name(s)}[xlocal][ylocal]", store=s.store)))

    @contextlib.contextmanager
    def _walk(
        self, writer: Writer, nx: str, ny: str, x: str, y: str, statements: Iterable[Statement]
    ) -> Iterator[None]:
        """A loop over an invocation's elements, with the entries of both axes that the statements use."""
        kind = self.facts.index
        writer.line(1, loop_head("part", _PER))
        for axis, which in (("x", x), ("y", y)):
            step = f"{which} + part * {ROWS}" if which == "slow" else which
            writer.line(2, f"const int {axis}local = {step};")
            writer.line(2, f"const {kind} {axis}index = {axis}base + {axis}local;")
        writer.line(2, f"if (xindex < {nx} && yindex < {ny}) {{")
        used = set().union(*(s.uses for s in statements))
        for e in self.facts.entries:
            if e.name in used:
                writer.entry(3, e, f"{e.prefix}index")
        yield
        writer.line(2, "}")
        writer.line(1, "}")


def _name(s: Statement) -> str:
    if s.load is not None:
        return f"{s.defines}_tile"
    return f"{s.store.argument}_tile"
