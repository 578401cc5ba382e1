"""A call of FlexAttention as its kernels see it: operands, tables of blocks, and the head of their GLSL."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy
import torch
from torch._inductor import ir
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import CeilDiv, Max, Min

from torch_aule.compile import config
from torch_aule.compile.codegen import facts
from torch_aule.compile.codegen.types import literal
from torch_aule.compile.flex.arguments import Arguments, storage_code
from torch_aule.compile.flex.matrices import MOST_PUSH_BYTES, MatrixTiles, matrix_tiles
from torch_aule.compile.flex.shape import LaneRows, Tiles, fitting, tiles_for

__all__ = ["BlockMask", "Problem", "fields_of", "realized"]


def realized(node, dense_rows: bool = False):
    """`node` in memory; with `dense_rows`, neighbours of the last dimension are neighbours there."""
    if node is None or isinstance(node, (int, sympy.Expr)):
        return node
    node = ir.ExternKernel.realize_input(node)
    _freeze(node)
    if dense_rows and V.graph.sizevars.evaluate_expr(sympy.Ne(node.get_stride()[-1], 1)):
        node = ir.ExternKernel.require_contiguous(node)
    return node


def _freeze(node) -> None:
    try:
        node.freeze_layout()
    except NotImplementedError:
        pass


def fields_of(fields: tuple) -> tuple:
    """Pairs of tables, sizes of blocks and the graph of a block mask's tuple: 13 fields until torch 2.12, later 17."""
    if len(fields) not in (13, 17):
        raise NotImplementedError(f"a block mask of {len(fields)} fields")
    return [fields[i : i + 2] for i in range(2, 10, 2)], *fields[-3:]


@dataclass(frozen=True)
class BlockMask:
    """The tables of a block mask."""

    kv: tuple  # of each block of queries: (number of entries, entries) that mask_mod divides
    full_kv: tuple | None
    q: tuple  # the same for each block of keys
    full_q: tuple | None
    q_block: int
    kv_block: int
    graph: object

    @staticmethod
    def of(fields: tuple) -> BlockMask:
        """Reads the tuple."""
        pairs, q_block, kv_block, graph = fields_of(fields)
        tables = [None if pair[0] is None else tuple(realized(t, dense_rows=True) for t in pair) for pair in pairs]
        guard = V.graph.sizevars.guard_int
        return BlockMask(*tables, guard(q_block), guard(kv_block), graph)


class Problem:
    """Sizes, tiles and the beginning of the text of one kernel.

    Parameters
    ----------
    query, key, value : IRNode
        Realized, with dense rows.
    mask : BlockMask
        Its blocks.
    scale : float
        Of the scores.
    """

    def __init__(self, query, key, value, mask: BlockMask, scale: float) -> None:
        guard = V.graph.sizevars.guard_int
        self.query, self.key, self.value, self.mask = query, key, value, mask
        self.batch, heads, self.q_len, head_dim = query.get_size()
        self.kv_batch, kv_heads, self.kv_len, v_dim = value.get_size()
        self.heads, self.kv_heads, self.head_dim, self.v_dim = (guard(x) for x in (heads, kv_heads, head_dim, v_dim))
        self.scale = float(scale)
        self.dtype, self.device = query.get_dtype(), query.get_device()
        self.facts = facts.of_device(self.device)
        storage_code(self.dtype)
        if {key.get_dtype(), value.get_dtype()} != {self.dtype}:
            raise NotImplementedError("kernels of FlexAttention take query, key and value of one dtype")
        if self.heads % self.kv_heads:
            raise NotImplementedError(f"{self.heads} heads of queries and {self.kv_heads} of keys")
        decide = V.graph.sizevars.evaluate_expr
        if not decide(sympy.And(sympy.Gt(self.q_len, 0), sympy.Gt(self.kv_len, 0), sympy.Gt(self.batch, 0))):
            raise NotImplementedError("kernels of FlexAttention take tensors with elements")
        self.shares_keys = decide(sympy.Ne(self.batch, self.kv_batch))
        if self.shares_keys and not decide(sympy.Eq(self.kv_batch, 1)):
            raise NotImplementedError("the batch of keys is neither that of queries nor 1")

    def tiles(self, kind: str, length, dim: int) -> Tiles:
        """The tiles of the kernel `kind`, of `length` rows and `dim` columns of the result."""
        asked = getattr(config, f"flex_tiles_{kind}")
        tiles = tiles_for(self.facts, int(V.graph.sizevars.optimization_hint(length, fallback=1024)), asked)
        room = facts.properties_of(self.device.index or 0)["max_shared_bytes"]
        return fitting(tiles, dim, room, self.shuffles(tiles))

    def form(self, kind: str, length, dim: int) -> tuple[Tiles | LaneRows, str]:
        """The layout of the kernel `kind`, and the file that has its main()."""
        by_lane = config.flex_lane_rows and max(self.head_dim, self.v_dim) <= 128
        if self.facts.software and self.facts.shuffles and by_lane:
            return LaneRows(self.facts.subgroup_size, self.head_dim, self.v_dim), f"flex_{kind}_simd"
        return self.tiles(kind, length, dim), f"flex_{kind}"

    def matrices(self, kind: str, tensors: dict, modified: bool, masked: bool) -> MatrixTiles | None:
        """The tiles of the kernel `kind` on matrix units; None: the device, or the call, takes the portable one.

        Parameters
        ----------
        kind : str
            forward, dq or dkdv.
        tensors : dict
            As :meth:`head` takes them.
        modified, masked : bool
            Whether scores are more than a multiple of the products, and whether mask_mod hides any.
        """
        if not config.flex_matrix_units or self.dtype == torch.float32:
            return None
        if self.facts.software and not config.flex_matrix_units_in_software:
            return None
        modified = modified or not self.scale > 0  # which would make a minimum of a row's maximum
        known, decide = V.graph.sizevars.statically_known_multiple_of, V.graph.sizevars.evaluate_expr
        steps = {name: V.graph.sizevars.simplify(node.get_stride()[2]) for name, (node, _) in tensors.items()}
        passing, length, block = (steps["KEY"], steps["VALUE"]), self.kv_len, self.mask.kv_block
        if kind == "dkdv":
            passing, length, block = (steps["QUERY"], steps["GRAD_OUT"]), self.q_len, self.mask.q_block
        if not all(isinstance(step, sympy.Integer) for step in passing):
            return None  # a constant of the kernel
        rows = Max(self.q_len, self.kv_len)
        if not all(decide(sympy.Lt(rows * step, 2**30)) for step in steps.values()):
            return None  # offsets in a head have 32 bits
        layout = facts.matrices_of(self.device.index or 0, self.dtype)
        tiles = matrix_tiles(self.facts, layout, kind, (self.head_dim, self.v_dim), block, modified,
                             getattr(config, f"flex_matrix_{kind}"))  # fmt: skip
        if tiles is None:
            return None
        whole = known(length, block) or (
            known(length, tiles.entry.tile) and V.graph.sizevars.statically_known_leq(length, block)
        )
        flags = {"ALIGNED": self._vectors(tensors, 8), "WHOLE_TILES": whole, "UNMASKED": not masked,
                 "UNMODIFIED_SCORES": not modified}  # fmt: skip
        return replace(tiles, row_bytes=tuple(2 * int(step) for step in passing), flags=flags)

    def shuffles(self, tiles: Tiles) -> bool:
        """True if the lanes of a row are in one subgroup."""
        if isinstance(tiles, MatrixTiles):
            return True
        return self.facts.shuffles and self.facts.subgroup_size >= tiles.lanes

    def groups(self, tiles: Tiles, length, block: int, heads: int, dim: int):
        """Workgroups for all blocks of rows."""
        length = sympy.sympify(length)
        rows = CeilDiv(length, block) * CeilDiv(Min(length, sympy.Integer(block)), tiles.block)
        return rows * tiles.splits(dim) * heads * self.batch

    # -- GLSL

    def head(self, arguments: Arguments, tiles: Tiles, dim: int, groups, tensors: dict, tables: tuple) -> list[str]:
        """Macros that inductor/flex.glsl and the kernels ask for; `tensors` by the names that they have there."""
        count = arguments.count
        lines = [f"const int DTYPE = {storage_code(self.dtype)};", *tiles.constants(dim, self._vectors(tensors, 4))]
        values = {
            "FLEX_Q_LEN": count(self.q_len), "FLEX_KV_LEN": count(self.kv_len), "FLEX_HEADS": self.heads,
            "FLEX_KV_HEADS": self.kv_heads, "FLEX_Q_BLOCK": self.mask.q_block, "FLEX_KV_BLOCK": self.mask.kv_block,
            "FLEX_GROUPS": count(groups), "FLEX_SCALE": literal(self.scale, torch.float32),
            "FLEX_UNROLL": "[[unroll]]", "HEAD_DIM": self.head_dim, "V_DIM": self.v_dim,
            "FLEX_PARTS": 2 if tables[1] is not None else 1,
        }  # fmt: skip
        lines += [f"#define {name} {value}" for name, value in values.items()]
        if isinstance(tiles, MatrixTiles):
            kind = "bfloat16_t" if self.dtype == torch.bfloat16 else "float16_t"
            address = arguments.buffer(self.query)
            lines += [f"#define T {kind}", f"#define T_{kind}", f"#define OPAQUE_ZERO int({address} >> 63)",
                      f"#define NEVER ({address} == 0ul)"]  # fmt: skip
        for name, (node, access) in tensors.items():
            lines += self._rows(arguments, name, node, access)
        lines.append(self._table(arguments, "FLEX_TABLE", tables[0]))
        lines.append(self._table(arguments, "FLEX_FULL_TABLE", tables[1] or tables[0]))
        return lines

    def _rows(self, arguments: Arguments, name: str, node, access: str) -> list[str]:
        base, (b, h, m, _) = arguments.buffer(node, access), node.get_stride()
        known = V.graph.sizevars.statically_known_equals
        terms = [] if known(node.get_size()[0], 1) else [f"int64_t(b_) * {arguments.size(b)}"]
        terms += [f"int64_t(h_) * {arguments.size(h)}", arguments.size(node.get_layout().offset)]
        return [
            f"#define FLEX_ROWS_{name}(b_, h_) elements({base}, {' + '.join(terms)})",
            f"#define FLEX_STEP_{name} ({arguments.size(m)} * int64_t(ELEM_BYTES))",
        ]

    def _table(self, arguments: Arguments, name: str, table: tuple) -> str:
        addresses = []
        for node in table:
            if node.get_dtype() != torch.int32:
                raise NotImplementedError(f"a block mask's table of {node.get_dtype()}")
            sizes, strides = list(node.get_size()), list(node.get_stride())
            if node is table[1]:
                sizes, strides = sizes[:-1], strides[:-1]
            positions = ["b_", "h_", "i_"][3 - len(sizes) :]
            terms = [arguments.size(node.get_layout().offset)]
            for position, size, stride in zip(positions, sizes, strides, strict=True):
                term = self._position(arguments, position, size)
                if term is not None:
                    terms.append(f"int64_t({term}) * {arguments.size(stride)}")
            addresses.append(f"{arguments.buffer(node)} + uint64_t({' + '.join(terms)}) * 4ul")
        return f"#define {name}(b_, h_, i_) Table({', '.join(addresses)})"

    def _position(self, arguments: Arguments, position: str, size) -> str | None:
        """An index into a dimension of a table, which is 1 if all share it."""
        known = V.graph.sizevars.statically_known_equals
        if known(size, 1):
            return None
        if position == "i_" or known(size, self.batch if position == "b_" else self.heads):
            return f"({position})"
        return f"(({position}) % {arguments.count(size)})"

    def _vectors(self, tensors: dict, elements: int) -> bool:
        """True if all rows allow loads of this number of elements."""
        known = V.graph.sizevars.statically_known_multiple_of
        if self.head_dim % elements or self.v_dim % elements:
            return False
        for node, _ in tensors.values():
            if node.get_name() in V.graph.unaligned_buffers:
                return False
            if not all(known(sympy.sympify(x), elements) for x in (*node.get_stride()[:3], node.get_layout().offset)):
                return False
        return True

    def source(self, arguments: Arguments, tiles: Tiles, body: str, head: list[str], functions: list[str]) -> str:
        """The whole text. Everything that becomes an argument is known by now."""
        shuffles = self.shuffles(tiles)
        lines = []
        if isinstance(tiles, MatrixTiles):
            lines += ["#pragma aule inline", "#pragma aule feature cooperative_matrix", "#pragma aule feature float16"]
            if self.dtype == torch.bfloat16:
                lines.append("#pragma aule feature bfloat16")
            if 128 < arguments.bytes <= MOST_PUSH_BYTES:
                lines.append("#pragma aule params wide")
        if shuffles:
            lines.append("#pragma aule feature subgroup_shuffle")
        lines.append(f"#define SHUFFLE {int(shuffles)}")
        if any("AULE_ATOMIC_ADD_F32" in f for f in functions) and self.facts.float32_atomic_add:
            lines += ["#pragma aule feature float32_atomic_add", "#extension GL_EXT_shader_atomic_float : require"]
            lines.append("#define AULE_ATOMIC_FLOAT")
        if shuffles:
            lines += ["#extension GL_KHR_shader_subgroup_basic : require"]
            lines += ["#extension GL_KHR_shader_subgroup_shuffle : require"]
        lines += ["#define VEC_ELEMS 4", f"layout(local_size_x = {tiles.local}) in;", *arguments.params()]
        lines += ['#include "common/params.glsl"', '#include "inductor/prelude.glsl"']
        return "\n".join([*lines, *head, *functions, f'#include "inductor/{body}.glsl"', ""])
