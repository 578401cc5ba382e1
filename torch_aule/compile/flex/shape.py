"""Tiles of the kernels of FlexAttention: the constants of attention/parts/simt.glsl, and GLSL that states them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch_aule.compile.codegen.facts import DeviceFacts

__all__ = ["LaneRows", "Tiles", "fitting", "tiles_for"]


@dataclass(frozen=True)
class Tiles:
    """The shape of a workgroup's work, as attention/parts/simt.glsl has it.

    Attributes
    ----------
    local, lanes : int
        Invocations of a workgroup; of them side by side in a row.
    rows, columns : int
        Of an invocation's scores.
    depth, strip : int
        Of a step: elements of the scores' operands, columns of scores for the result.
    stages : int
        Steps in shared memory; 1: loads go straight there.
    unroll_scores, unroll_result : int
        Groups of four elements, and rows.
    most : int
        Columns of the result of one workgroup.
    """

    local: int = 128
    lanes: int = 8
    rows: int = 4
    columns: int = 4
    depth: int = 16
    strip: int = 1
    stages: int = 2
    unroll_scores: int = 1
    unroll_result: int = 4
    most: int = 128

    @property
    def block(self) -> int:
        """Rows of a workgroup."""
        return self.local // self.lanes * self.rows

    def result_columns(self, dim: int) -> int:
        """Columns of the result that a workgroup makes."""
        step = 4 * self.lanes
        return min(-(-dim // step) * step, self.most)

    def splits(self, dim: int) -> int:
        """Workgroups that share the columns of a block of rows."""
        return -(-dim // self.result_columns(dim))

    def shared_bytes(self, dim: int, shuffles: bool) -> int:
        """Shared memory of a workgroup, as attention/parts/simt.glsl declares it."""
        ty, depth, wide = self.local // self.lanes, self.depth // 4, self.strip * self.lanes
        a = max(ty * (self.rows * depth + 1), wide * (self.block // 4 + 1))
        b = max(self.lanes * self.columns * (depth + 1), wide * self.result_columns(dim) // 4)
        return 16 * self.stages * (a + b) + (0 if shuffles else 4 * self.block * self.lanes)

    def constants(self, dim: int, vectors: bool) -> list[str]:
        """Lines of GLSL."""
        values = {
            "LOCAL": self.local, "RESULT_COLUMNS": self.result_columns(dim), "SPLITS": self.splits(dim),
            "ROWS": self.rows, "LANES": self.lanes, "COLUMNS": self.columns, "DEPTH": self.depth, "STRIP": self.strip,
            "STAGES": self.stages,
            "UNROLL_S": self.unroll_scores, "UNROLL_O": self.unroll_result,
        }  # fmt: skip
        lines = [f"const int {name} = {value};" for name, value in values.items()]
        return [*lines, f"const bool VEC4 = {'true' if vectors else 'false'};"]


@dataclass(frozen=True)
class LaneRows:
    """The form of attention/parts/simd.glsl, for software devices: a workgroup is one subgroup, a lane owns a row.

    Attributes
    ----------
    local : int
        Lanes.
    head_dim, v_dim : int
        Sizes of heads.
    """

    local: int
    head_dim: int
    v_dim: int

    @property
    def block(self) -> int:
        """Rows of a workgroup."""
        return self.local

    @property
    def lanes(self) -> int:
        """Invocations that exchange values."""
        return self.local

    def splits(self, dim: int) -> int:
        """Workgroups that share the columns of a row."""
        return 1

    def constants(self, dim: int, vectors: bool) -> list[str]:
        """Lines of GLSL."""
        step = 2 * self.local
        dp, dvp = (-(-d // step) * step for d in (self.head_dim, self.v_dim))
        padded = (dp, dvp) != (self.head_dim, self.v_dim)
        lines = [f"const int LOCAL = {self.local}, DP = {dp}, DVP = {dvp}, ROWS = 1;", "#define FLEX_SIMD"]
        flags = {"VEC2": vectors, "PADDED": padded}
        return [*lines, *(f"const bool {name} = {str(value).lower()};" for name, value in flags.items())]


# Those of the eager kernels (csrc/ops/attention/family/tuning_table.cpp): any GPU, and processors.
_GPU = Tiles()
_SOFTWARE = Tiles(depth=32, strip=4, stages=1, unroll_result=1)


def fitting(tiles: Tiles, dim: int, bytes_: int, shuffles: bool) -> Tiles:
    """The tiles with as many columns of the result as fit into `bytes_` of shared memory."""
    while tiles.shared_bytes(dim, shuffles) > bytes_ and tiles.most > 4 * tiles.lanes:
        tiles = replace(tiles, most=tiles.most // 2)
    return tiles


def tiles_for(device: DeviceFacts, length: int, asked: str = "") -> Tiles:
    """The tiles for `length` rows, a hint; `asked` are all numbers in their order, for measurements."""
    if asked:
        return Tiles(*(int(x) for x in asked.split(",")))
    tiles = _SOFTWARE if device.software else _GPU
    if length <= 32:  # one block of rows, no longer than it must be
        tiles = replace(tiles, local=(4 if length <= 16 else 8) * tiles.lanes)
    return tiles
