"""Kernels for lavapipe whose lanes load neighbours with one instruction: dense elements, short rows and columns.

What lavapipe makes of loads is written in shaders/common/uniform.glsl; eager mode's kernels of this form are
shaders/pointwise/*_simd.comp (docs/ladders/dense.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from torch_aule.compile.codegen.facts import KernelFacts, is_whole
from torch_aule.compile.codegen.forms.elements import ElementForm
from torch_aule.compile.codegen.forms.fitting import Work
from torch_aule.compile.codegen.forms.rows import Rows
from torch_aule.compile.codegen.statements import Access, Statement
from torch_aule.compile.codegen.unroll import loop_head
from torch_aule.compile.codegen.writer import Writer

__all__ = ["LaneBlocks", "LaneColumns", "LanesOfRow"]

LANES, VEC = 8, 8  # of a subgroup; elements that a lane has of a block
_FEWEST = 1 << 14  # elements: fewer are not worth it
# Of a lane, unrolled: LLVM takes minutes for more. A call of a function counts as many operations.
_MOST_OPERATIONS, _MOST_OF_ROW, _OF_CALL = 400, 1500, 20
_CALL = re.compile(r"\b(?!(?:float|u?int|u?int64_t|bool|max_?|min_?|abs|is_nan|if)\()[a-z]\w*\(")
_MOST_ARGUMENTS = 10  # more do not fit into push constants, which the loads' addresses must come from


def _may_have_lanes(facts: KernelFacts) -> bool:
    device = facts.device
    if not (facts.vectors and device.software and device.shuffles and device.subgroup_size == LANES):
        return False
    if facts.is_tiled or facts.uses_errors or facts.index != "int" or facts.sizes:
        return False
    if any(s.mask is not None or s.atomic for s in facts.statements) or torch.float64 in facts.dtypes:
        return False
    arguments = {a.argument for s in facts.statements for a in (s.load, s.store) if a is not None}
    return len(arguments | set(facts.host_scalars)) <= _MOST_ARGUMENTS


def _operations(facts: KernelFacts) -> int:
    """Of an element."""
    texts = [
        s.reduction.take if s.reduction is not None else s.text if s.load is None else ""
        for s in facts.statements
        if s.per_element
    ]
    return sum(1 + _OF_CALL * len(_CALL.findall(text)) for text in texts)


def _digits(largest: int) -> int:
    """Of a number up to `largest`, as as_uniform counts them."""
    return max(1, -(-largest.bit_length() // 3))


@dataclass(frozen=True, eq=False)
class LaneBlocks(ElementForm):
    """Dense elements.

    Attributes
    ----------
    blocks : int
        How many blocks of 64 elements a workgroup computes.
    """

    blocks: int

    has_lanes = True
    packs_bfloat16 = False

    @classmethod
    def fits(cls, facts: KernelFacts) -> LaneBlocks | None:
        """Each access is one run of memory, of whole blocks, and a lane has not too many operations."""
        if facts.is_reduction or not _may_have_lanes(facts):
            return None
        numel = facts.numel
        if not is_whole(numel) or int(numel) < _FEWEST or int(numel) % (LANES * VEC):
            return None
        if any(entry.divisor != 1 or entry.length != numel for entry in facts.element_entries):
            return None
        of_block = VEC * _operations(facts)
        if of_block > 2 * _MOST_OPERATIONS or not cls._is_dense_throughout(facts):
            return None
        whole = int(numel) // (LANES * VEC)
        blocks = next((n for n in (4, 2) if whole % n == 0 and n * of_block <= _MOST_OPERATIONS), 1)
        return cls(facts, Work(local=LANES, vec=VEC), blocks)

    @staticmethod
    def _is_dense_throughout(facts: KernelFacts) -> bool:
        names = {entry.name for entry in facts.element_entries}
        stored: set[str] = set()
        for s in facts.statements:
            access = s.load or s.store
            if access is not None and s.per_element:
                if not facts.first_of_row(access).is_Integer or not facts.is_dense(access, VEC):
                    return False
                if s.load is not None and access.argument in stored:
                    return False
                if s.store is not None:
                    stored.add(access.argument)
            elif access is None and not s.uses.isdisjoint(names | {"xindex"}):
                return False
        return True

    @property
    def _groups(self) -> int:
        return int(self.facts.numel) // (LANES * VEC * self.blocks)

    def groups(self) -> str:
        """Each has `blocks` blocks."""
        return str(self._groups)

    def lines(self, writer: Writer) -> None:
        """The body of main()."""
        digits = _digits(self._groups - 1)
        writer.line(1, f"const uint64_t group = uint64_t(as_uniform(linear_group(), {digits}));")
        self.row_statements(writer, 0, 1)
        writer.line(1, loop_head("block", self.blocks))
        writer.line(2, f"const uint64_t first = (group * {self.blocks}ul + uint64_t(block)) * {LANES * VEC}ul;")
        self.elements(writer, 2, "0")
        writer.line(1, "}")

    def _place(self, access: Access) -> str:
        """The arguments of a load or store: address, first element, size, and the order of a block's words.

        With elements of one size, neighbouring lanes have neighbouring words; otherwise each lane has a run.
        """
        offset = int(self.facts.first_of_row(access))
        first = f"first + {offset}ul" if offset else "first"
        accesses = [a for s in self.facts.statements if s.per_element for a in (s.load, s.store) if a is not None]
        by_words = "true" if len({a.dtype.itemsize for a in accesses}) == 1 else "false"
        return f"p.{access.argument}, {first}, {access.dtype.itemsize}, {by_words}"

    def load_words(self, writer: Writer, access: Access, address: str) -> str:
        """Of a lane."""
        return f"load_block({self._place(access)})"

    def store_words(self, access: Access, address: str, words: str) -> str:
        """Of a lane."""
        return f"store_block({self._place(access)}, {words});"


class _RowsOfLanes(Rows):
    """Reductions of a known number of float32, with what a workgroup's lanes have in common."""

    has_lanes = True

    @staticmethod
    def _may_fit(facts: KernelFacts) -> bool:
        return (
            facts.is_reduction
            and not facts.kept
            and _may_have_lanes(facts)
            and is_whole(facts.numels["x"], facts.numel)
        )

    def _uniform_entries(self, writer: Writer) -> None:
        """Each entry of the rows as the first lane has it."""
        loads = [s.load for s in self.facts.statements if s.load is not None and s.per_element]
        used = {name for load in loads for name in re.findall(r"\w+", load.index_text)}
        for e in self.facts.row_entries:
            if e.name in used:
                first = writer.entry_text(e, f"int(linear_group() * {self.work.rows}u)")
                digits = _digits(int(e.length) - 1)
                writer.line(1, f"const uint {e.name}_first = as_uniform(uint({first}), {digits});")

    def _uniform_index(self, access: Access) -> str:
        index = access.index_text
        for e in self.facts.row_entries:
            index = re.sub(rf"\b{e.name}\b", f"int({e.name}_first)", index)
        return index


class LaneColumns(_RowsOfLanes):
    """Short columns, next to each other in memory: a lane has one, and the loop over its elements is unrolled."""

    @classmethod
    def fits(cls, facts: KernelFacts) -> LaneColumns | None:
        """Each load is of neighbours, or of one number for all columns."""
        if not facts.is_column or not cls._may_fit(facts):
            return None
        rows, n = int(facts.numels["x"]), int(facts.numel)
        if rows % LANES or n * _operations(facts) > _MOST_OPERATIONS or rows * n < _FEWEST // 8:
            return None
        if any((e.length if e.divisor == 1 else e.divisor) % LANES for e in facts.row_entries):
            return None
        for s in facts.statements:
            if not s.per_element:
                continue
            if s.store is not None:
                return None
            if s.load is not None and (
                s.load.dtype != torch.float32
                or facts.step(s.load.index, facts.inner_rows) not in (0, 1)
                or not facts.made.isdisjoint(re.findall(r"\w+", s.load.index_text))
            ):
                return None
        return cls(facts, Work(local=LANES, items=n, column=True))

    def position(self, writer: Writer) -> None:
        """A column is a lane's."""
        kind = self.facts.index
        writer.line(1, f"const {kind} xindex = {kind}(linear_group() * {LANES}u + gl_SubgroupInvocationID);")
        writer.line(1, "const uint lane = 0u;")
        self._uniform_entries(writer)

    def statement(self, writer: Writer, s: Statement, depth: int) -> None:
        """Loads are of all lanes."""
        if s.load is None:
            super().statement(writer, s, depth)
            return
        step = 4 * int(self.facts.step(s.load.index, self.facts.inner_rows))
        address = f"p.{s.load.argument} + uint64_t({self._uniform_index(s.load)}) * 4ul"
        writer.line(depth, f"const float {s.defines} = load_lanes({address}, {step}ul);")


class LanesOfRow(_RowsOfLanes):
    """Short rows: the lanes share one, and have pairs of its elements."""

    @classmethod
    def fits(cls, facts: KernelFacts) -> LanesOfRow | None:
        """Each access is of neighbours."""
        if facts.is_column or not cls._may_fit(facts):
            return None
        rows, n = int(facts.numels["x"]), int(facts.numel)
        if n % (2 * LANES) or any(e.divisor != 1 or e.length != n for e in facts.element_entries):
            return None
        if n // LANES * _operations(facts) > _MOST_OF_ROW or rows * n < _FEWEST:
            return None
        statements = [s for s in facts.statements if s.per_element]
        accesses = [a for s in statements for a in (s.load, s.store) if a is not None]
        others = [s for s in statements if (a := s.load or s.store) is not None and a.dtype != torch.float32]
        # A mask of dropout, say: by the lanes' loops, which cost as much as they do elsewhere.
        few = len(others) <= 2 and all(s.load is not None for s in others)
        dense = (
            few
            and len(accesses) > len(others)
            and all(facts.is_dense(a, 2) for a in accesses)
            and all(facts.made.isdisjoint(re.findall(r"\w+", a.index_text)) for a in accesses)
        )
        return cls(facts, Work(LANES, 2, LANES, n // (2 * LANES), combine="subgroup")) if dense else None

    def position(self, writer: Writer) -> None:
        """A row is a workgroup's."""
        kind = self.facts.index
        writer.line(1, f"const {kind} xindex = {kind}(linear_group());")
        writer.line(1, "const uint lane = gl_SubgroupInvocationID;")
        self._uniform_entries(writer)

    def is_vector(self, s: Statement, access: Access, varying: set[str]) -> bool:
        """Of float32 alone."""
        return access.dtype == torch.float32 and super().is_vector(s, access, varying)

    def load_words(self, writer: Writer, access: Access, address: str) -> str:
        """Of a lane's pair."""
        index = self._uniform_index(access)
        for name in self.facts.inner:
            index = re.sub(rf"\b{name}\b", f"item * {2 * LANES}", index)
        return f"load_pairs(p.{access.argument} + uint64_t({index}) * 4ul)"
