"""Tiles of the kernels of FlexAttention on matrix units: the constants of attention/parts/coopmat.glsl. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch_aule.compile.codegen.facts import DeviceFacts

__all__ = ["MOST_PUSH_BYTES", "Entry", "MatrixTiles", "matrix_tiles"]

# Architectures with registers for the shapes that were measured on an H200.
_NVIDIA = {"turing", "ampere", "ada", "hopper", "blackwell", "nvidia"}
MOST_PUSH_BYTES = 256


@dataclass(frozen=True)
class Entry:
    """A line of a table.

    Attributes
    ----------
    dim : int
        The larger padded head size, at most.
    subgroups, row_blocks : int
        Of a workgroup; blocks of rows of a subgroup.
    tile : int
        Rows of the operands that pass, in shared memory.
    in_flight : int
        Of these, 16 each, whose scores are in registers.
    stages : int
        Tiles in shared memory.
    motion_barriers : int
        Where the compiler moves nothing: MOTION_BARRIERS of attention/parts/coopmat.glsl.
    """

    dim: int
    subgroups: int
    row_blocks: int
    tile: int
    in_flight: int
    stages: int
    motion_barriers: int = 0


# As of the eager kernels (csrc/ops/attention/family/tuning_table.cpp), with at most 128 rows of a workgroup: a block of
# a mask has as many. Backward: one subgroup has all columns of its rows, for which registers suffice up to 128.
_TABLES = {
    "forward": (Entry(32, 4, 2, 32, 2, 1), Entry(64, 4, 2, 64, 2, 1), Entry(80, 4, 2, 32, 1, 1),
                Entry(96, 4, 2, 32, 2, 1), Entry(128, 4, 2, 32, 1, 1), Entry(192, 8, 1, 32, 2, 1, 1),
                Entry(256, 8, 1, 16, 1, 2, 2)),
    "forward modified": (Entry(64, 4, 2, 32, 2, 1), Entry(80, 4, 2, 32, 1, 1), Entry(96, 4, 2, 32, 2, 1),
                         Entry(128, 4, 2, 32, 1, 1), Entry(192, 8, 1, 32, 2, 1), Entry(256, 8, 1, 16, 1, 2)),
    "dq": (Entry(64, 4, 2, 64, 1, 1), Entry(128, 8, 1, 64, 1, 1)),
    "dkdv": (Entry(64, 4, 2, 64, 1, 1), Entry(128, 8, 1, 64, 1, 1)),
}  # fmt: skip
_TABLES_UNKNOWN = {
    "forward": (Entry(64, 4, 2, 64, 4, 1), Entry(128, 4, 1, 32, 1, 1), Entry(192, 4, 1, 16, 1, 1)),
    "dq": (Entry(64, 4, 1, 64, 1, 1), Entry(96, 4, 1, 32, 1, 1)),
    "dkdv": (Entry(64, 4, 1, 32, 1, 1), Entry(96, 4, 1, 32, 1, 1)),
}  # fmt: skip


@dataclass(frozen=True)
class MatrixTiles:
    """The shape of a workgroup's work, and what is known of its operands.

    Attributes
    ----------
    layout : mapping
        Of the device's matrices, as `_C.matrix_layout` tells it.
    entry : Entry
        From a table; its tile divides the blocks of the mask.
    head_dim, v_dim : int
        Sizes of heads.
    row_bytes : tuple of int
        From row to row of the two operands that pass.
    flags : mapping
        ALIGNED, WHOLE_TILES, UNMASKED and UNMODIFIED_SCORES of attention/parts/coopmat.glsl.
    """

    layout: Mapping[str, int] = field(hash=False)
    entry: Entry
    head_dim: int
    v_dim: int
    row_bytes: tuple[int, int] = (0, 0)
    flags: Mapping[str, bool] = field(default_factory=dict, hash=False)

    @property
    def local(self) -> int:
        """Invocations of a workgroup."""
        return self.entry.subgroups * self.layout["subgroup"]

    @property
    def block(self) -> int:
        """Rows of a workgroup."""
        return self.entry.subgroups * self.entry.row_blocks * self.layout["m"]

    @property
    def padded(self) -> tuple[int, int]:
        """Sizes of heads as the matrices have them."""
        return -(-self.head_dim // 16) * 16, -(-self.v_dim // 16) * 16

    def splits(self, dim: int) -> int:
        """Workgroups that share the columns of a block of rows."""
        return 1

    @property
    def in_flight(self) -> int:
        """Blocks of n rows whose scores are in registers."""
        return min(self.entry.in_flight * 16, self.entry.tile) // self.layout["n"]

    def shared_bytes(self, kind: str) -> int:
        """Shared memory of a workgroup, as the kernel `kind` declares it."""
        e, (d, dv), m = self.entry, self.padded, self.layout["m"]
        staging = e.subgroups * m * (min(max(d, dv), 128) // 8 + 1)
        tiles = e.stages * e.tile * (d // 8 + 1 + dv // 8 + 1)
        scratch = 16 if self.layout["acc_is_a_operand"] else 2 * e.subgroups * 2 * m * 24
        own = {"forward": 16, "dq": 0, "dkdv": 8 * e.stages * e.tile}[kind]
        return 16 * max(tiles, staging) + scratch + own

    def constants(self, dim: int, vectors: bool) -> list[str]:
        """Lines of GLSL."""
        e, (d, dv), layout = self.entry, self.padded, self.layout
        numbers = {
            "LOCAL": self.local, "MAT_M": layout["m"], "MAT_N": layout["n"], "SUBGROUP": layout["subgroup"],
            "LANES_PER_ROW": layout["lane_div"], "LANE_ROW_STEP": layout["lane_row"],
            "LANE_COL_STEP": layout["lane_col"], "LANE_ROWS": layout["lane_rows"], "ELEM_ROWS": layout["rows"],
            "ELEM_COLS": layout["cols"], "ELEM_OF_A": layout["a_elem"], "ELEM_LANE_ROWS": layout["elem_lane_rows"],
            "LANE_ROW_OFFSETS": layout["lane_row_offsets"], "D": d, "DV": dv, "TILE": e.tile,
            "ROW_BLOCKS": e.row_blocks, "BLOCKS_IN_FLIGHT": self.in_flight, "STAGES": e.stages,
            "A_ROW_BYTES": self.row_bytes[0], "B_ROW_BYTES": self.row_bytes[1], "ROLE_SPLIT": 1,
            "MOTION_BARRIERS": e.motion_barriers,
        }  # fmt: skip
        flags = {
            "PADDED": (d, dv) != (self.head_dim, self.v_dim), "ACC_IS_A_OPERAND": layout["acc_is_a_operand"],
            "TRUNCATES": layout["truncates"], "DROPOUT": False, "WHOLE_CELLS": False, "DS_TRIANGLE": False,
            **self.flags,
        }  # fmt: skip
        signed = {name: x - 2**32 if x >= 2**31 else x for name, x in numbers.items()}
        return [*(f"const int {name} = {x};" for name, x in signed.items()),
                *(f"const bool {name} = {str(bool(x)).lower()};" for name, x in flags.items()),
                "#define FLEX_COOPMAT"]  # fmt: skip


def matrix_tiles(
    device: DeviceFacts,
    layout: Mapping[str, int],
    kind: str,
    dims: tuple[int, int],
    passing_block: int,
    modified: bool = False,
    asked: str = "",
) -> MatrixTiles | None:
    """The tiles of the kernel `kind`, or None where the portable kernels serve.

    Parameters
    ----------
    device : DeviceFacts
        Of the device.
    layout : mapping
        Of its matrices for the dtype, as `_C.matrix_layout` tells it.
    kind : str
        forward, dq or dkdv.
    dims : tuple of int
        Head sizes of query and value.
    passing_block : int
        Rows of the mask's blocks along the operands that pass.
    modified : bool, default False
        Whether scores are anything but a multiple of the products.
    asked : str, optional
        The numbers of the entry from `subgroups` on, for measurements.

    Returns
    -------
    MatrixTiles or None
        Without what is known of the operands.
    """
    if not layout["known"] or device.max_push_bytes < MOST_PUSH_BYTES:
        return None
    tables = _TABLES if device.architecture in _NVIDIA else _TABLES_UNKNOWN
    entries = tables.get(f"{kind} modified", tables.get(kind, ())) if modified else tables.get(kind, ())
    widest = -(-max(dims) // 16) * 16
    entry = next((e for e in entries if widest <= e.dim), None)
    if entry is None:
        return None
    if asked:
        entry = Entry(entry.dim, *(int(x) for x in asked.split(",")))
    tile = entry.tile
    while passing_block % tile:
        tile //= 2
    if tile < layout["n"]:
        return None
    tiles = MatrixTiles(layout, Entry(**{**vars(entry), "tile": tile}), *dims)
    fits = tiles.shared_bytes(kind) <= device.shared_bytes and tiles.local <= device.max_workgroup_invocations
    divides = tile % layout["n"] == 0 and tile // layout["n"] % tiles.in_flight == 0
    return tiles if fits and divides else None
