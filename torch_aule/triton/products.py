"""`tl.dot`: operands through shared memory, a tile of the result in each invocation's registers. Pure."""

from __future__ import annotations

import math

from torch_aule.triton import elementwise
from torch_aule.triton.ir import Op, Value
from torch_aule.triton.layout import Layout, log2, picked_bits
from torch_aule.triton.writer import Device, Writer

__all__ = ["EMITTERS", "product_layout"]

_TILE = 2  # bits of rows and of columns of an invocation's tile, at most


def product_layout(op: Op, threads: int, device: Device) -> Layout:
    """Where the elements of a product are: tiles of 4 x 4 in registers, neighbours along rows in neighbouring threads.

    Parameters
    ----------
    op : Op
        A `tt.dot`.
    threads : int
        Of a workgroup.
    device : Device

    Returns
    -------
    Layout
    """
    shape = op.result.type.shape
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
    return Layout(shape, tuple(own), (*registers, *rest[log2(threads) :]))


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
