"""`tl.dot`: operands through shared memory, the result in registers, of cooperative matrices where they are. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_aule.triton import elementwise
from torch_aule.triton.ir import Op, Value
from torch_aule.triton.layout import Layout, log2, picked_bits
from torch_aule.triton.matrices import EXTENSIONS, Matrix, tiled
from torch_aule.triton.memory import packed, words_of
from torch_aule.triton.writer import Device, Registers, Writer

__all__ = ["EMITTERS", "product_layout", "stage_ahead"]

_TILE = 2  # bits of rows and of columns of an invocation's tile, at most


def product_layout(op: Op, threads: int, device: Device, by_rows: bool) -> tuple[Layout, Matrix | None]:
    """The layout of a product's elements, and the matrices that compute it, if any do.

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


@dataclass(frozen=True)
class Staged:
    """An operand in shared memory.

    Attributes
    ----------
    array : str
    run : int
        Elements of a word of the array.
    pitch : int
        Words from a row to the next.
    turned : bool
        Whether the first axis is the one that lies close.
    """

    array: str
    run: int
    pitch: int
    turned: bool


def _planned(w: Writer, value: Value, name: str) -> tuple[Staged, int]:
    """The staging of an operand of 16 bits, in words as wide as its registers run, and the words of its array."""
    layout, shape = w.home(value), value.type.shape
    turned = layout.run(0) > layout.run(1)
    fast = 0 if turned else 1
    run = min(layout.run(fast), 8)
    pitch = (shape[fast] + 8) // run  # eight more: rows begin in different banks, and at multiples of 16 bytes
    kind = {1: "uint16_t", 2: "uint", 4: "uvec2", 8: "uvec4"}[run]
    return Staged(f"{name}_{kind}", run, pitch, turned), pitch * shape[1 - fast]


def _put(w: Writer, value: Value, name: str) -> Staged:
    """Puts an operand into shared memory, unless it is there since before the loop."""
    for scope in reversed(w.scopes):
        if value in scope.staged:
            return scope.staged[value]
    staged, words = _planned(w, value, name)
    w.arrays[staged.array] = max(w.arrays.get(staged.array, 0), words)
    layout = w.home(value)
    access = w.access(value, layout)
    fast = 0 if staged.turned else 1

    def element(at: int) -> str:
        text = access(str(at))
        return f"uint16_t(float_to_bf16({text}))" if value.type.element == "bf16" else f"float16BitsToUint16({text})"

    with w.block(w.only_once(layout)):
        for first in range(0, layout.count, staged.run):
            slow, quick = (w.coordinate(layout, axis, str(first)) for axis in (1 - fast, fast))
            text = element(first)
            if staged.run > 1:
                text = packed(value.type, words_of(value.type, access, first, staged.run), staged.run)
            w.out(f"{staged.array}[{slow} * {staged.pitch} + ({quick}) / {staged.run}] = {text};")
    return staged


def stage_ahead(w: Writer, loop: Op) -> None:
    """Before a loop, stages operands of its products that are the same in each turn, if shared memory holds them."""
    products = [op for op in _inside(loop) if op.name == "tt.dot" and w.home(op.result) in w.matrices]
    inner = {value for op in _inside(loop) for value in (*op.results, *(a for r in op.regions for a in r.arguments))}
    inner |= {argument for region in loop.regions for argument in region.arguments}
    same: dict[Value, int] = {}
    others = {"left": 0, "right": 0}
    for op in products:
        for value, name in zip(op.operands[:2], others):
            if name == "left" and _held_as_operand(w, value, w.matrices[w.home(op.result)]):
                continue
            staged, words = _planned(w, value, name)
            bytes_ = words * staged.run * 2
            if value in inner:
                others[name] = max(others[name], bytes_)
            else:
                same[value] = bytes_
    if not same or sum(same.values()) + sum(others.values()) > w.device.shared_bytes:
        return
    w.barrier()
    for value in same:
        w.scopes[-1].staged[value] = _put(w, value, w.name("kept"))
    w.barrier()


def _inside(op: Op):
    for region in op.regions:
        for inner in region.ops:
            yield inner
            yield from _inside(inner)


def _held_as_operand(w: Writer, value: Value, matrix: Matrix) -> bool:
    """Whether a left operand is in the lanes that want it: it has the layout of accumulators of whole rows."""
    layout = w.layouts.of.get(value)
    if layout is None or not matrix.operand or w.matrices.get(layout) != matrix:
        return False
    lanes = log2(matrix.subgroup)
    return all(bit is None or bit[0] == 0 for bit in layout.threads[lanes:])


def _dot_matrices(w: Writer, op: Op, layout: Layout, matrix: Matrix) -> None:
    """Each subgroup's tiles, over the inner axis in steps of a matrix."""
    a, b, c = op.operands[:3]
    w.extensions |= {*EXTENSIONS, *(["GL_EXT_bfloat16"] if matrix.element == "bf16" else [])}
    start = w.access(c, layout)
    own = _held_as_operand(w, a, matrix)
    w.barrier()
    left = None if own else _put(w, a, "left")
    right = _put(w, b, "right")
    w.barrier()
    bits = len(matrix.elements)
    result = w.array(op.result.type, layout, "d")
    if isinstance(start, Registers) and start.of_matrix:
        w.out(f"{result.name} = {start.name};")
    else:
        w.each(layout.count, lambda r: [f"{result(r)} = {start(r)};"])
    columns = 1 << sum(1 for bit in layout.registers[bits:] if bit[0] == 1)
    rows = (layout.count >> bits) // columns
    steps = a.type.shape[1] // matrix.n
    with w.block(f"[[unroll]] for (int k = 0; k < {steps}; ++k)"):
        w.out(f"{matrix.glsl('A')} a[{rows}];")
        if left is None:
            _take_own(w, a, matrix, rows, steps)
        else:
            row = _corner(w, layout, 0, "i", bits + log2(columns), rows)
            at = _load("a[i]", left, row, f"k * {matrix.n}")
            w.out(f"[[unroll]] for (int i = 0; i < {rows}; ++i) {at}")
        with w.block(f"[[unroll]] for (int j = 0; j < {columns}; ++j)"):
            w.out(f"{matrix.glsl('B')} b;")
            w.out(_load("b", right, f"k * {matrix.n}", _corner(w, layout, 1, "j", bits, columns)))
            at = f"{result.name}[i * {columns} + j]"
            w.out(f"[[unroll]] for (int i = 0; i < {rows}; ++i) {at} = coopMatMulAdd(a[i], b, {at});")
    w.bind(op.result, result, layout)


def _take_own(w: Writer, value: Value, matrix: Matrix, rows: int, steps: int) -> None:
    """The left operand's elements from the lanes' own registers: tile k of a row of tiles."""
    layout = w.layouts.of[value]
    access, count = w.access(value, layout), 1 << len(matrix.elements)
    kind = {"f16": "float16_t", "bf16": "bfloat16_t"}[matrix.element]
    with w.block(f"[[unroll]] for (int i = 0; i < {rows}; ++i)"):
        for e, at in enumerate(matrix.operand):
            w.out(f"a[i][{at}] = {kind}({access(f'((i * {steps} + k) * {count} + {e})')});")


def _corner(w: Writer, layout: Layout, axis: int, tile: str, shift: int, count: int) -> str:
    """The first row or column of a subgroup's tile."""
    lanes = log2(w.device.subgroup)
    group = picked_bits("tid", [
        (i, bit[1]) for i, bit in enumerate(layout.threads) if i >= lanes and bit and bit[0] == axis
    ])  # fmt: skip
    own = layout.register_part(axis, f"({tile} << {shift})") if count > 1 else ""
    return " + ".join(f"({part})" for part in (group, own) if part not in ("", "0")) or "0"


def _load(to: str, staged: Staged, row: str, column: str) -> str:
    slow, quick = (column, row) if staged.turned else (row, column)
    order = "Column" if staged.turned else "Row"
    at = f"uint(({slow}) * {staged.pitch} + ({quick}) / {staged.run})"
    return f"coopMatLoad({to}, {staged.array}, {at}, {staged.pitch}u, gl_CooperativeMatrixLayout{order}Major);"


def _steps(shape: tuple[int, ...]) -> list[int]:
    """Steps along the axes of an operand in shared memory, with an element more a row: columns in different banks."""
    pitch = shape[-1] + 1
    return [math.prod(shape[i + 1 : -1]) * pitch for i in range(len(shape) - 1)] + [1]


def _count(shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-1]) * (shape[-1] + 1)


def _part(shape: tuple[int, ...], axis: int, pieces: int) -> tuple[int, ...]:
    return tuple(n // pieces if i == axis else n for i, n in enumerate(shape))


def _pieces(op: Op, size: int, device: Device) -> int:
    """In how many pieces of the inner axis the operands pass, so that they take three quarters of shared memory."""
    a, b = (value.type.shape for value in op.operands[:2])
    pieces = 1
    while pieces < a[-1] // 8:
        elements = _count(_part(a, len(a) - 1, pieces)) + _count(_part(b, len(b) - 2, pieces))
        if elements * size <= device.shared_bytes * 3 // 4:
            break
        pieces *= 2
    return pieces


def _staged(w: Writer, value: Value, array: str, kind: str, axis: int, piece: int, pieces: int) -> None:
    """Puts a piece of an operand, along an axis, into shared memory."""
    shape = _part(value.type.shape, axis, pieces)
    steps = _steps(shape)
    w.arrays[array] = max(w.arrays.get(array, 0), _count(shape))
    layout = w.home(value)
    access = w.access(value, layout)

    def lines(r: str) -> list[str]:
        own = [w.coordinate(layout, i, r) for i in range(len(shape))]
        guard = ""
        if pieces > 1:
            guard = f"if ({own[axis]} >> {log2(shape[axis])} == {piece}) "
            own[axis] = f"({own[axis]} & {shape[axis] - 1})"
        at = " + ".join(f"{coordinate} * {step}" for coordinate, step in zip(own, steps))
        text = elementwise.float_to(value.type.element, "f32", access(r)) if kind == "float" else access(r)
        return [f"{guard}{array}[{at}] = {text};"]

    with w.block(w.only_once(layout)):
        w.each(layout.count, lines)


def dot(w: Writer, op: Op) -> None:
    a, b, c = op.operands[:3]
    layout, kind = w.home(op.result), op.result.type
    if (matrix := w.matrices.get(layout)) is not None and _matrix_for(op, w.device) == matrix:
        _dot_matrices(w, op, layout, matrix)
        return
    shared, computed = _types(op)
    start = w.access(c, layout)
    sums, count, rank = w.name("d"), layout.count, len(kind.shape)
    w.out(f"{computed} {sums}[{count}];")
    w.out(f"[[unroll]] for (int r = 0; r < {count}; ++r) {sums}[r] = {computed}({start('r')});")
    pieces = _pieces(op, elementwise.SIZES[shared], w.device)
    for piece in range(pieces):
        w.barrier()
        _staged(w, a, f"left_{shared}", shared, rank - 1, piece, pieces)
        _staged(w, b, f"right_{shared}", shared, rank - 2, piece, pieces)
        w.barrier()
        _multiply(w, op, layout, sums, computed, shared, pieces)
    w.barrier()
    result = f"{sums}[{{}}]"
    to = kind.element
    if computed == "float" and to != "f32":
        w.keep(op.result, lambda r: elementwise.float_to("f32", to, result.format(r)), layout)
    else:
        w.bind(op.result, lambda r: result.format(r), layout)


def _multiply(w: Writer, op: Op, layout: Layout, sums: str, computed: str, shared: str, pieces: int) -> None:
    """Adds the products of what is in shared memory to an invocation's tile."""
    rank = len(layout.shape)
    left, right = (value.type.shape for value in op.operands[:2])
    rows, columns = _distinct(layout, rank - 1), _distinct(layout, rank - 2)
    sides = (
        ("row", f"left_{shared}", _steps(_part(left, rank - 1, pieces)), rank - 2, rank - 1, rows),
        ("column", f"right_{shared}", _steps(_part(right, rank - 2, pieces)), rank - 1, rank - 2, columns),
    )
    with w.block(f"for (int k = 0; k < {left[-1] // pieces}; ++k)"):
        for name, array, steps, axis, inner, picks in sides:
            n = 1 << len(picks)
            at = picked_bits("i", list(enumerate(picks)))
            r = f"({at})" if n > 1 else "0"
            own = [f"{w.coordinate(layout, i, r)} * {steps[i]}" for i in (*range(rank - 2), axis)]
            text = " + ".join([*own, f"k * {steps[inner]}"])
            w.out(f"{computed} {name}[{n}];")
            w.out(f"[[unroll]] for (int i = 0; i < {n}; ++i) {name}[i] = {computed}({array}[{text}]);")
        one = picked_bits("r", [(place, i) for i, place in enumerate(rows)])
        two = picked_bits("r", [(place, i) for i, place in enumerate(columns)])
        w.out(f"[[unroll]] for (int r = 0; r < {layout.count}; ++r) {sums}[r] += row[{one or 0}] * column[{two or 0}];")


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
