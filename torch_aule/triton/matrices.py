"""Cooperative matrices as layouts: which element of a tile each lane of a subgroup holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch_aule.triton.layout import Bit, Layout, log2

__all__ = ["EXTENSIONS", "Matrix", "matrix_of", "tiled"]

EXTENSIONS = ("GL_KHR_cooperative_matrix", "GL_KHR_memory_scope_semantics", "GL_EXT_shader_explicit_arithmetic_types")


@dataclass(frozen=True)
class Matrix:
    """A shape of matrices whose accumulators' elements are known: m x n, of products over n.

    Attributes
    ----------
    element : str
        Of the operands, as TTIR names it; sums are float32.
    m, n : int
    lanes, elements : tuple of Bit
        By bit of a lane's and of an element's number, which bit of the row (axis 0) or of the column (axis 1) it is.
    operand : tuple of int
        Which element of an A operand a lane's element of an accumulator is; empty if they are in other lanes.
    """

    element: str
    m: int
    n: int
    lanes: tuple[Bit, ...]
    elements: tuple[Bit, ...]
    operand: tuple[int, ...] = ()

    @property
    def subgroup(self) -> int:
        return 1 << len(self.lanes)

    def glsl(self, use: str) -> str:
        """The type of an operand, ``"A"`` or ``"B"``, or of an ``"Accumulator"``."""
        kind = {"f16": "float16_t", "bf16": "bfloat16_t"}[self.element] if use in "AB" else "float"
        rows, columns = {"A": (self.m, self.n), "B": (self.n, self.n)}.get(use, (self.m, self.n))
        return f"coopmat<{kind}, gl_ScopeSubgroup, {rows}, {columns}, gl_MatrixUse{use}>"


def _bit(row: int, column: int) -> Bit | None:
    """The bit of a row or of a column that one bit of a number stands for; None if it is no single one."""
    for axis, value, other in ((0, row, column), (1, column, row)):
        if other == 0 and value > 0 and value & (value - 1) == 0:
            return axis, log2(value)
    return None


def matrix_of(element: str, known: Mapping[str, int]) -> Matrix | None:
    """A device's matrices, from what `_C.matrix_layout` tells of them.

    Parameters
    ----------
    element : str
        ``"f16"`` or ``"bf16"``.
    known : mapping

    Returns
    -------
    Matrix or None
        None where the layout is unknown, or is no permutation of bits.
    """
    if not known["usable"] or not known["known"] or known["truncates"]:
        return None

    def place(lane: int, e: int) -> tuple[int, int]:
        row, column = (known[name] >> 4 * e & 15 for name in ("rows", "cols"))
        return (
            lane // known["lane_div"] * known["lane_row"] + row,
            lane % known["lane_div"] * known["lane_col"] + column,
        )

    lanes = [_bit(*place(1 << i, 0)) for i in range(log2(known["subgroup"]))]
    elements = [_bit(*place(0, 1 << i)) for i in range(log2(known["elements"]))]
    own = [bit for bit in (*lanes, *elements) if bit is not None]
    every = {(axis, i) for axis, n in enumerate((known["m"], known["n"])) for i in range(log2(n))}
    if len(own) != len(every) or set(own) != every or place(0, 0) != (0, 0):
        return None
    count = known["elements"]
    operand = tuple(known["a_elem"] >> 4 * e & 15 for e in range(count)) if known["acc_is_a_operand"] else ()
    if operand and sorted(operand) != list(range(count)):
        operand = ()
    return Matrix(element, known["m"], known["n"], tuple(own[: len(lanes)]), tuple(own[len(lanes) :]), operand)


def tiled(matrix: Matrix, shape: tuple[int, ...], threads: int, by_rows: bool) -> Layout | None:
    """The accumulators of a product: each subgroup has tiles side by side in its registers.

    Parameters
    ----------
    matrix : Matrix
    shape : tuple of int
        Of the product.
    threads : int
        Of a workgroup.
    by_rows : bool
        Subgroups share no row, so that a reduction of rows stays in one; else each has a region that is near a square.

    Returns
    -------
    Layout or None
        None if the product is smaller than a tile.
    """
    rows, columns = shape
    if rows % matrix.m or columns % matrix.n or threads % matrix.subgroup:
        return None
    low = [log2(matrix.m), log2(matrix.n)]
    high = [log2(rows), log2(columns)]
    groups: list[Bit | None] = []
    for _ in range(log2(threads // matrix.subgroup)):
        axis = 0 if high[0] > low[0] and (by_rows or high[0] >= high[1] or high[1] == low[1]) else 1
        if high[axis] == low[axis]:
            groups.append(None)
            continue
        high[axis] -= 1
        groups.append((axis, high[axis]))
    tiles = [(axis, i) for axis in (1, 0) for i in range(low[axis], high[axis])]
    return Layout(shape, (*matrix.lanes, *groups), (*matrix.elements, *tiles))
