"""`tl.dot`: operands through shared memory, the result in registers, of cooperative matrices where they are. Pure."""

from __future__ import annotations

import math

from torch_aule.triton import elementwise
from torch_aule.triton.ir import Op, Value
from torch_aule.triton.layout import Layout, log2, picked_bits
from torch_aule.triton.matrices import EXTENSIONS, Matrix, tiled
from torch_aule.triton.memory import packed
from torch_aule.triton.writer import Device, Registers, Writer

__all__ = ["EMITTERS", "product_layout"]

_TILE = 2  # bits of rows and of columns of an invocation's tile, at most


def product_layout(op: Op, threads: int, device: Device, by_rows: bool) -> tuple[Layout, Matrix | None]:
    """Where the elements of a product are, and the matrices that compute it, if any do.

    Without them an invocation has tiles of 4 x 4, and neighbours along rows are in neighbouring threads.

    Parameters
    ----------
    op : Op
        A `tt.dot`.
    threads : int
        Of a workgroup.
    device : Device
    by_rows : bool
        As `torch_aule.triton.matrices.tiled` takes it.
    """
    shape = op.result.type.shape
    matrix = _matrix_for(op, device)
    if matrix is not None and (layout := tiled(matrix, shape, threads, by_rows)) is not None:
        return layout, matrix
    rank = len(shape)
    spare = max(0, log2(math.prod(shape)) - log2(threads))
    columns = min(_TILE, spare, log2(shape[-1]))
    rows = min(_TILE, spare - columns, log2(shape[-2]))
    registers = [(rank - 1, i) for i in range(columns)] + [(rank - 2, i) for i in range(rows)]
    rest = [(rank - 1, i) for i in range(columns, log2(shape[-1]))]
    rest += [(rank - 2, i) for i in range(rows, log2(shape[-2]))]
    for axis in reversed(range(rank - 2)):
        rest += [(axis, i) for i in range(log2(shape[axis]))]
    own: list = rest[: log2(threads)]
    own += [None] * (log2(threads) - len(own))
    return Layout(shape, tuple(own), (*registers, *rest[log2(threads) :])), None


def _matrix_for(op: Op, device: Device) -> Matrix | None:
    """Matrices of the operands' type, if the product has two axes, sums in float32, and whole steps."""
    a, b = (value.type for value in op.operands[:2])
    if len(a.shape) != 2 or op.result.type.element != "f32" or a.element != b.element:
        return None
    for matrix in device.matrices:
        if matrix.element == a.element and matrix.subgroup == device.subgroup and a.shape[1] % matrix.n == 0:
            return matrix
    return None


def _staged_words(w: Writer, value: Value, name: str) -> tuple[str, int, int, bool]:
    """Puts an operand of 16 bits into shared memory in words as wide as its registers run.

    Gives the array's name, its elements' size in operand's elements, its pitch in its elements, and whether it lies
    transposed.
    """
    layout, shape = w.home(value), value.type.shape
    turned = layout.run(0) > layout.run(1)
    fast = 0 if turned else 1
    run = min(layout.run(fast), 8)
    pitch = (shape[fast] + 8) // run  # eight more: rows begin in different banks, and at multiples of 16 bytes
    array = f"{name}_{ {1: 'uint16_t', 2: 'uint', 4: 'uvec2', 8: 'uvec4'}[run] }"
    w.arrays[array] = max(w.arrays.get(array, 0), pitch * shape[1 - fast])
    access = w.access(value, layout)

    def element(at: int) -> str:
        text = access(str(at))
        if run > 1:
            return text
        return f"uint16_t(float_to_bf16({text}))" if value.type.element == "bf16" else f"float16BitsToUint16({text})"

    with w.block(w.only_once(layout)):
        for first in range(0, layout.count, run):
            slow, quick = (w.coordinate(layout, axis, str(first)) for axis in (1 - fast, fast))
            text = packed(value.type, [element(first + i) for i in range(run)]) if run > 1 else element(first)
            w.out(f"{array}[{slow} * {pitch} + ({quick}) / {run}] = {text};")
    return array, run, pitch, turned


def _dot_matrices(w: Writer, op: Op, layout: Layout, matrix: Matrix) -> None:
    """Each subgroup's tiles, over the inner axis in steps of a matrix."""
    a, b, c = op.operands[:3]
    w.extensions |= {*EXTENSIONS, *(["GL_EXT_bfloat16"] if matrix.element == "bf16" else [])}
    start = w.access(c, layout)
    w.barrier()
    left, right = _staged_words(w, a, "left"), _staged_words(w, b, "right")
    w.barrier()
    bits = len(matrix.elements)
    result = w.array(op.result.type, layout, "d")
    if isinstance(start, Registers) and start.of_matrix:
        w.out(f"{result.name} = {start.name};")
    else:
        w.each(layout.count, lambda r: [f"{result(r)} = {start(r)};"])
    columns = 1 << sum(1 for bit in layout.registers[bits:] if bit[0] == 1)
    rows = (layout.count >> bits) // columns
    with w.block(f"[[unroll]] for (int k = 0; k < {a.type.shape[1]}; k += {matrix.n})"):
        w.out(f"{matrix.glsl('A')} a[{rows}];")
        row = _corner(w, layout, 0, "i", bits + log2(columns), rows)
        w.out(f"[[unroll]] for (int i = 0; i < {rows}; ++i) {_load('a[i]', left, row, 'k')}")
        with w.block(f"[[unroll]] for (int j = 0; j < {columns}; ++j)"):
            w.out(f"{matrix.glsl('B')} b;")
            w.out(_load("b", right, "k", _corner(w, layout, 1, "j", bits, columns)))
            at = f"{result.name}[i * {columns} + j]"
            w.out(f"[[unroll]] for (int i = 0; i < {rows}; ++i) {at} = coopMatMulAdd(a[i], b, {at});")
    w.bind(op.result, result, layout)


def _corner(w: Writer, layout: Layout, axis: int, tile: str, shift: int, count: int) -> str:
    """The first row or column of a subgroup's tile."""
    lanes = log2(w.device.subgroup)
    group = picked_bits("tid", [
        (i, bit[1]) for i, bit in enumerate(layout.threads) if i >= lanes and bit and bit[0] == axis
    ])  # fmt: skip
    own = layout.register_part(axis, f"({tile} << {shift})") if count > 1 else ""
    return " + ".join(f"({part})" for part in (group, own) if part not in ("", "0")) or "0"


def _load(to: str, staged: tuple[str, int, int, bool], row: str, column: str) -> str:
    array, run, pitch, turned = staged
    slow, quick = (column, row) if turned else (row, column)
    order = "Column" if turned else "Row"
    at = f"uint(({slow}) * {pitch} + ({quick}) / {run})"
    return f"coopMatLoad({to}, {array}, {at}, {pitch}u, gl_CooperativeMatrixLayout{order}Major);"


def _staged(w: Writer, value: Value, name: str, kind: str) -> tuple[str, list[int]]:
    """Puts an operand into shared memory; its name there, and the steps along its axes."""
    shape = value.type.shape
    pitch = shape[-1] + 1  # columns in different banks
    steps = [math.prod(shape[i + 1 : -1]) * pitch for i in range(len(shape) - 1)] + [1]
    array = f"{name}_{kind}"
    w.arrays[array] = max(w.arrays.get(array, 0), math.prod(shape[:-1]) * pitch)
    layout = w.home(value)
    access = w.access(value, layout)

    def lines(r: str) -> list[str]:
        at = " + ".join(f"{w.coordinate(layout, i, r)} * {step}" for i, step in enumerate(steps))
        text = elementwise.float_to(value.type.element, "f32", access(r)) if kind == "float" else access(r)
        return [f"{array}[{at}] = {text};"]

    with w.block(w.only_once(layout)):
        w.each(layout.count, lines)
    return array, steps


def dot(w: Writer, op: Op) -> None:
    a, b, c = op.operands[:3]
    layout, kind = w.home(op.result), op.result.type
    if (matrix := w.matrices.get(layout)) is not None and _matrix_for(op, w.device) == matrix:
        _dot_matrices(w, op, layout, matrix)
        return
    shared, computed = _types(op)
    start = w.access(c, layout)
    w.barrier()
    (left, left_steps), (right, right_steps) = _staged(w, a, "left", shared), _staged(w, b, "right", shared)
    w.barrier()
    rank, inner = len(kind.shape), a.type.shape[-1]
    sums = w.name("d")
    count = layout.count
    w.out(f"{computed} {sums}[{count}];")
    w.out(f"[[unroll]] for (int r = 0; r < {count}; ++r) {sums}[r] = {computed}({start('r')});")
    rows = _distinct(layout, rank - 1)
    columns = _distinct(layout, rank - 2)

    def address(steps: list[int], axes: list[int], r: str, k_axis: int) -> str:
        own = [f"{w.coordinate(layout, axis, r)} * {steps[axis]}" for axis in axes]
        return " + ".join([*own, f"k * {steps[k_axis]}"])

    batch = list(range(rank - 2))
    with w.block(f"for (int k = 0; k < {inner}; ++k)"):
        for name, array, steps, axis, k_axis, picks in (
            ("row", left, left_steps, rank - 2, rank - 1, rows),
            ("column", right, right_steps, rank - 1, rank - 2, columns),
        ):  # fmt: skip
            n = 1 << len(picks)
            at = picked_bits("i", list(enumerate(picks)))
            w.out(f"{computed} {name}[{n}];")
            text = address(steps, [*batch, axis], f"({at})" if n > 1 else "0", k_axis)
            w.out(f"[[unroll]] for (int i = 0; i < {n}; ++i) {name}[i] = {computed}({array}[{text}]);")
        one = picked_bits("r", [(place, i) for i, place in enumerate(rows)])
        two = picked_bits("r", [(place, i) for i, place in enumerate(columns)])
        w.out(f"[[unroll]] for (int r = 0; r < {count}; ++r) {sums}[r] += row[{one or 0}] * column[{two or 0}];")
    w.barrier()
    result = f"{sums}[{{}}]"
    to = kind.element
    if computed == "float" and to != "f32":
        w.keep(op.result, lambda r: elementwise.float_to("f32", to, result.format(r)), layout)
    else:
        w.bind(op.result, lambda r: result.format(r), layout)


def _distinct(layout: Layout, not_axis: int) -> list[int]:
    """Bits of a register's number that are not along an axis."""
    return [i for i, bit in enumerate(layout.registers) if bit[0] != not_axis]


def _types(op: Op) -> tuple[str, str]:
    """GLSL types of operands in shared memory, and of sums."""
    kind = op.operands[0].type.element
    if kind == "f64":
        return "double", "double"
    if kind in ("i8", "i32", "i16"):
        return elementwise.GLSL[kind], "int"
    return ("float16_t" if kind == "f16" else "float"), "float"


EMITTERS = {"tt.dot": dot}
