"""Operations in which elements of a block meet: reductions, scans, gathers, histograms, and new shapes. Pure.

A reduction goes from registers to lanes of a subgroup to shared memory, as far as its axis goes. A scan puts runs of an
axis into one invocation's registers first, so that only their totals pass.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from torch_aule.triton import elementwise
from torch_aule.triton.ir import Block, Op, Type
from torch_aule.triton.layout import Layout, blocked, log2, picked_bits
from torch_aule.triton.memory import zero_of
from torch_aule.triton.places import axis_of, derived
from torch_aule.triton.writer import Access, Writer

__all__ = ["EMITTERS"]


def _combine(w: Writer, block: Block) -> str:
    """The name of a function (inout a..., b...) that combines the a's with what comes after them."""
    half = len(block.arguments) // 2
    kinds = [elementwise.GLSL[value.type.element] for value in block.arguments]
    name = w.name("combine")
    outer, w.lines, scopes = w.lines, [], w.scopes
    w.scopes = [type(scopes[0])()]
    for i, value in enumerate(block.arguments):
        w.bind_scalar(value, f"a{i}" if i < half else f"b{i - half}")
    end = w.run(block)
    texts = [w.scalar(value) for value in end.operands]
    lines = [f"const {kinds[i]} n{i} = {text};" for i, text in enumerate(texts)]
    lines += [f"a{i} = n{i};" for i in range(half)]
    lines, w.lines, w.scopes = w.lines + lines, outer, scopes
    head = ", ".join([f"inout {kinds[i]} a{i}" for i in range(half)] + [f"{kinds[i]} b{i}" for i in range(half)])
    w.functions.append(f"void {name}({head}) {{\n" + "\n".join(lines) + "\n}")
    return name


def _lanes(w: Writer) -> int:
    """Bits of an invocation's number that are lanes of a subgroup."""
    return log2(min(w.device.subgroup, w.threads)) if w.device.subgroup > 1 else 0


def _expanded(layout: Layout, axis: int, rest: str, own: str) -> str:
    """A register's number from what it has along an axis and what it has along the others."""
    along = [i for i, bit in enumerate(layout.registers) if bit[0] == axis]
    other = [i for i, bit in enumerate(layout.registers) if bit[0] != axis]
    parts = [picked_bits(rest, list(enumerate(other))), picked_bits(own, list(enumerate(along)))]
    parts = [part for part in parts if part not in ("", "0")]
    if all(part.isdigit() for part in parts):
        return str(sum(map(int, parts)))
    return f"({' | '.join(parts)})" if len(parts) > 1 else parts[0]


def reduce(w: Writer, op: Op) -> None:
    axis, operands = axis_of(op), op.operands
    layout = _reduction_layout(w, op)
    sources = [w.access(value, layout) for value in operands]
    combine = _combine(w, op.regions[0])
    natural = layout.without_axis(axis)
    kinds = [value.type.with_shape(natural.shape) for value in operands]
    totals: Sequence[Access] = [w.array(kind, natural, "t") for kind in kinds]
    along = sum(1 for bit in layout.registers if bit[0] == axis)

    def serial(r: str) -> list[str]:
        lines = [f"{t(r)} = {s(_expanded(layout, axis, r, '0'))};" for t, s in zip(totals, sources)]
        if along:
            each = ", ".join([t(r) for t in totals] + [s(_expanded(layout, axis, r, "q")) for s in sources])
            lines.append(f"[[unroll]] for (int q = 1; q < {1 << along}; ++q) {combine}({each});")
        return lines

    w.each(natural.count, serial)
    lanes = _lanes(w)
    for i, bit in enumerate(layout.threads[:lanes]):
        if bit and bit[0] == axis:
            w.each(natural.count, functools.partial(_with_lane, combine, kinds, totals, i, _commutes(op)))
    high = [i for i, bit in enumerate(layout.threads) if bit and bit[0] == axis and i >= lanes]
    if high:
        totals = _across_subgroups(w, combine, kinds, totals, layout, natural, high)
    for value, total in zip(op.results, totals):
        if not value.type.shape:
            w.bind(value, total)
        else:
            w.place_result(value, total, natural)


def _reduction_layout(w: Writer, op: Op) -> Layout:
    """The layout of the operands, unless shared memory would not hold the totals that pass between subgroups."""
    axis, operands = axis_of(op), op.operands
    shape = operands[0].type.shape
    layout = next((w.layouts.of[value] for value in operands if value in w.layouts.of), blocked(shape, w.threads))
    parts = 1 << sum(1 for bit in layout.threads[_lanes(w) :] if bit and bit[0] == axis)
    words = sum(w.word_texts(value.type)[0] for value in operands) * parts * (math.prod(shape) // shape[axis])
    if parts == 1 or words * 4 <= w.device.shared_bytes // 2:
        return layout
    others = [i for i in reversed(range(len(shape))) if i != axis]
    return blocked(shape, w.threads, 1, [*others, axis])


_COMMUTATIVE = {f"arith.{name}" for name in (
    "addf", "addi", "mulf", "muli", "maxnumf", "minnumf", "maximumf", "minimumf", "maxsi", "minsi", "maxui", "minui",
    "andi", "ori", "xori",
)}  # fmt: skip


def _commutes(op: Op) -> bool:
    """Whether a reduction combines two values by one operation that gives the same both ways."""
    ops = op.regions[0].ops
    return len(ops) == 2 and ops[0].name in _COMMUTATIVE


def _with_lane(
    combine: str, kinds: list[Type], totals: Sequence[Access], bit: int, commutes: bool, r: str
) -> list[str]:
    """Combines with another lane's total; that of the lane whose bit is 0 comes first, so that both get the same."""
    lines = ["{"]
    for i, (kind, total) in enumerate(zip(kinds, totals)):
        glsl = elementwise.GLSL[kind.element]
        lines.append(f"{glsl} other{i} = {_shuffled(kind, total(r), f'subgroupShuffleXor({{}}, {1 << bit}u)')};")
    others = [f"other{i}" for i in range(len(totals))]
    own = [total(r) for total in totals]
    call = f"{combine}({', '.join([*own, *others])});"
    if not commutes:
        back = " ".join(f"{a} = {b};" for a, b in zip(own, others))
        call = f"if ((tid & {1 << bit}) == 0) {call} else {{ {combine}({', '.join([*others, *own])}); {back} }}"
    return [*lines, call, "}"]


def _shuffled(kind: Type, text: str, call: str) -> str:
    """A value of another lane: through words for types of which subgroup operations need an extension."""
    if kind.element in ("f32", "i32", "bf16"):
        return call.format(text)
    to, back = elementwise.WORDS[kind.element]
    return back.format(call.format(to.format(text)))


def _across_subgroups(
    w: Writer,
    combine: str,
    kinds: list[Type],
    totals: Sequence[Access],
    layout: Layout,
    natural: Layout,
    high: list[int],
) -> Sequence[Access]:
    """Each subgroup's totals by shared memory; every invocation combines those of its rows."""
    rows, parts = math.prod(natural.shape), 1 << len(high)
    which = w.name("part")
    w.out(f"const int {which} = {picked_bits('tid', [(bit, i) for i, bit in enumerate(high)])};")
    mask = sum(1 << i for i, b in enumerate(natural.threads) if b is None and i not in high)
    sizes = [w.word_texts(kind)[0] for kind in kinds]
    starts = [sum(sizes[:i]) * rows * parts for i in range(len(kinds))]
    w.need_words(sum(sizes) * rows * parts)
    step = rows * parts
    w.barrier()
    with w.block(f"if ((tid & {mask}) == 0)" if mask else ""):
        w.each(
            natural.count,
            lambda r: [
                line
                for kind, total, start in zip(kinds, totals, starts)
                for line in w.store_words(kind, f"{start} + {which} * {rows} + {w.flat(natural, r)}", total(r), step)
            ],
        )
    w.barrier()
    results = [w.array(kind, natural, "t") for kind in kinds]

    def gather(r: str) -> list[str]:
        index = w.flat(natural, r)
        lines = [
            f"{result(r)} = {w.load_words(kind, f'{start} + {index}', step)};"
            for kind, result, start in zip(kinds, results, starts)
        ]
        others = [w.load_words(kind, f"{start} + q * {rows} + {index}", step) for kind, start in zip(kinds, starts)]
        call = ", ".join([*(result(r) for result in results), *others])
        return [*lines, f"for (int q = 1; q < {parts}; ++q) {combine}({call});"]

    w.each(natural.count, gather)
    return results


def _copied(to: Access, source: Access, r: str) -> list[str]:
    return [f"{to(r)} = {source(r)};"]


def scan(w: Writer, op: Op) -> None:
    axis, shape = axis_of(op), op.operands[0].type.shape
    backwards = "reverse = true" in op.attributes
    order = [axis, *(i for i in reversed(range(len(shape))) if i != axis)]
    layout = blocked(shape, w.threads, max(1, math.prod(shape) // w.threads), order)
    inner = math.prod(shape[axis + 1 :])
    turned = (shape[axis] - 1) * inner

    def flipped(index: str) -> str:
        return f"(({index}) ^ {turned})"  # sizes are powers of two

    combine = _combine(w, op.regions[0])
    kinds = [value.type for value in op.operands]
    values = []
    for value in op.operands:
        home = w.home(value)
        if backwards:
            values.append(w.moved(value.type, w.access(value, home), home, layout, take=flipped))
            continue
        source, copy = w.access(value, layout), w.array(value.type, layout, "n")
        w.each(layout.count, functools.partial(_copied, copy, source))
        values.append(copy)
    _scan_registers(w, combine, kinds, values, layout, axis)
    for value, access in zip(op.results, values):
        if backwards:
            own = w.home(value)
            w.bind(value, w.moved(value.type, access, layout, own, put=flipped), own)
        else:
            w.place_result(value, access, layout)


def _scan_registers(
    w: Writer, combine: str, kinds: list[Type], values: list[Access], layout: Layout, axis: int
) -> None:
    """An inclusive scan in place: in each invocation's run, then over the totals of the runs before it."""
    run = 1 << sum(1 for bit in layout.registers if bit[0] == axis)
    rows, glsl = layout.count // run, [elementwise.GLSL[kind.element] for kind in kinds]
    for row in range(rows):
        for q in range(1, run):
            one, before = (int(_expanded_number(layout, axis, row, k)) for k in (q, q - 1))
            copies = [
                f"{elementwise.GLSL[k.element]} n{i} = {v(str(before))};" for i, (k, v) in enumerate(zip(kinds, values))
            ]
            call = ", ".join([f"n{i}" for i in range(len(kinds))] + [v(str(one)) for v in values])
            back = " ".join(f"{v(str(one))} = n{i};" for i, v in enumerate(values))
            w.out(f"{{ {' '.join(copies)} {combine}({call}); {back} }}")
    bits = sum(1 for bit in layout.threads if bit and bit[0] == axis)
    if not bits:
        return
    lanes = min(_lanes(w), bits)
    for row in range(rows):
        last = _expanded_number(layout, axis, row, run - 1)
        carry = _carry(w, combine, kinds, [v(str(last)) for v in values], bits, lanes)
        has, names = carry
        for q in range(run):
            one = _expanded_number(layout, axis, row, q)
            copies = [f"{kind} n{i} = {name};" for i, (kind, name) in enumerate(zip(glsl, names))]
            call = ", ".join([f"n{i}" for i in range(len(kinds))] + [v(str(one)) for v in values])
            back = " ".join(f"{v(str(one))} = n{i};" for i, v in enumerate(values))
            w.out(f"if ({has}) {{ {' '.join(copies)} {combine}({call}); {back} }}")


def _expanded_number(layout: Layout, axis: int, rest: int, own: int) -> int:
    return int(_expanded(layout, axis, str(rest), str(own)))


def _carry(
    w: Writer, combine: str, kinds: list[Type], totals: list[str], bits: int, lanes: int
) -> tuple[str, list[str]]:
    """Whether there is anything before an invocation's run, and the total of it."""
    glsl = [elementwise.GLSL[kind.element] for kind in kinds]
    sums, before, has = [w.name("sum") for _ in kinds], [w.name("before") for _ in kinds], w.name("has")
    for own, name, total in zip(glsl, sums, totals):
        w.out(f"{own} {name} = {total};")
    for name, own, kind in zip(before, glsl, kinds):
        w.out(f"{own} {name} = {zero_of(kind)};")
    w.out(f"bool {has} = false;")
    lane = f"(tid & {(1 << lanes) - 1})"
    for step in (1 << k for k in range(lanes)):
        w.out("{")
        for i, (kind, name) in enumerate(zip(kinds, sums)):
            w.out(f"{glsl[i]} other{i} = {_shuffled(kind, name, f'lane_before({{}}, {step})')};")
        call = ", ".join([f"other{i}" for i in range(len(kinds))] + sums)
        back = " ".join(f"{name} = other{i};" for i, name in enumerate(sums))
        w.out(f"if ({lane} >= {step}) {{ {combine}({call}); {back} }}")
        w.out("}")
    if lanes:
        for kind, name, total in zip(kinds, before, sums):
            w.out(f"{name} = {_shuffled(kind, total, 'lane_before({}, 1)')};")
        w.out(f"{has} = {lane} > 0;")
    if bits > lanes:
        _carry_subgroups(w, combine, kinds, sums, before, has, bits, lanes)
    return has, before


def _carry_subgroups(
    w: Writer, combine: str, kinds: list[Type], sums: list[str], before: list[str], has: str, bits: int, lanes: int
) -> None:
    """Adds the totals of the subgroups before, which the last lanes give."""
    glsl = [elementwise.GLSL[kind.element] for kind in kinds]
    count = w.threads >> lanes
    sizes = [w.word_texts(kind)[0] for kind in kinds]
    starts = [sum(sizes[:i]) * count for i in range(len(kinds))]
    w.need_words(sum(sizes) * count)
    w.barrier()
    with w.block(f"if ((tid & {(1 << lanes) - 1}) == {(1 << lanes) - 1})"):
        for kind, name, start in zip(kinds, sums, starts):
            w.lines += w.store_words(kind, f"{start} + (tid >> {lanes})", name, count)
    w.barrier()
    first = f"(tid >> {bits} << {bits - lanes})"
    with w.block(f"if ((tid >> {lanes}) > {first})"):
        names = [w.name("early") for _ in kinds]
        for kind, own, name, start in zip(kinds, glsl, names, starts):
            w.out(f"{own} {name} = {w.load_words(kind, f'{start} + {first}', count)};")
        others = [w.load_words(kind, f"{start} + q", count) for kind, start in zip(kinds, starts)]
        w.out(f"for (int q = {first} + 1; q < (tid >> {lanes}); ++q) {combine}({', '.join([*names, *others])});")
        w.out(f"if ({has}) {combine}({', '.join([*names, *before])});")
        for name, early in zip(before, names):
            w.out(f"{name} = {early};")
        w.out(f"{has} = true;")


# New shapes of what is held.


def reshape(w: Writer, op: Op) -> None:
    value = op.operands[0]
    layout = w.home(value)
    source = w.access(value, layout)
    natural = derived(op, layout)
    assert natural is not None, op.name
    w.place_result(op.result, source, natural)


def broadcast(w: Writer, op: Op) -> None:
    layout = w.home(op.result)
    source = w.access(op.operands[0], w.wanted(op, layout))
    w.bind(op.result, w.reindexed(op, source, layout), layout)


def join(w: Writer, op: Op) -> None:
    first = next((value for value in op.operands if value in w.layouts.of), op.operands[0])
    layout = w.home(first)
    a, b = (w.access(value, layout) for value in op.operands)

    def element(r: str) -> str:
        if r.isdigit():
            return (b if int(r) & 1 else a)(str(int(r) >> 1))
        return f"(({r} & 1) != 0 ? {b(f'({r} >> 1)')} : {a(f'({r} >> 1)')})"

    w.place_result(op.result, element, layout.joined())


def split(w: Writer, op: Op) -> None:
    value = op.operands[0]
    layout, axis = w.home(value), len(value.type.shape) - 1
    if (axis, 0) not in layout.registers:
        layout = layout.without_axis(axis).joined()
    source = w.access(value, layout)
    natural = layout.without_axis(axis)
    for which, result in enumerate(op.results):
        w.place_result(result, functools.partial(_half, source, layout, which), natural)


def _half(source: Access, layout: Layout, which: int, r: str) -> str:
    """An element of what a last axis of two has at `which`."""
    return source(_expanded(layout, len(layout.shape) - 1, r, str(which)))


def cat(w: Writer, op: Op) -> None:
    shape = op.operands[0].type.shape
    layout = next((w.home(value) for value in op.operands if value in w.layouts.of), blocked(shape, w.threads))
    a, b = (w.access(value, layout) for value in op.operands)
    half, bit = layout.count, log2(shape[0])
    whole = Layout((2 * shape[0], *shape[1:]), layout.threads, (*layout.registers, (0, bit)))

    def element(r: str) -> str:
        if r.isdigit():
            return (b if int(r) >= half else a)(str(int(r) % half))
        inner = f"({r} & {half - 1})"
        return f"({r} >= {half} ? {b(inner)} : {a(inner)})"

    w.place_result(op.result, element, whole)


# By index.


def gather(w: Writer, op: Op) -> None:
    source, indices = op.operands
    axis, shape, kind = axis_of(op), source.type.shape, source.type
    total, words = math.prod(shape), w.word_texts(kind)[0]
    step = total
    if total * words * 4 > w.device.shared_bytes:
        raise op.unsupported(f"a gather from {total} elements (more than shared memory holds)")
    w.need_words(total * words)
    have, want = w.home(source), w.home(op.result)
    values, at = w.access(source, have), w.access(indices, want)
    w.barrier()
    with w.block(w.only_once(have)):
        w.each(have.count, lambda r: w.store_words(kind, w.flat(have, r), values(r), step))
    w.barrier()
    result = w.array(kind, want, "g")
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]

    def index(r: str) -> str:
        parts = [
            f"int({at(r)}) * {strides[i]}" if i == axis else f"{w.coordinate(want, i, r)} * {strides[i]}"
            for i in range(len(shape))
        ]
        return " + ".join(parts)

    w.each(
        want.count, lambda r: [f"{{ const int e = {index(r)};", f"{result(r)} = {w.load_words(kind, 'e', step)};", "}"]
    )
    w.bind(op.result, result, want)


def histogram(w: Writer, op: Op) -> None:
    value, bins = op.operands[0], op.result.type.shape[0]
    layout, want = w.home(value), w.home(op.result)
    values = w.access(value, layout)
    mask: Callable[[str], str] | None = w.access(op.operands[1], layout) if len(op.operands) > 1 else None
    w.need_words(bins)
    w.barrier()
    w.out(f"for (int i = tid; i < {bins}; i += {w.threads}) words[i] = 0u;")
    w.barrier()
    with w.block(w.only_once(layout)):

        def lines(r: str) -> list[str]:
            guard = f" && {mask(r)}" if mask is not None else ""
            return [f"{{ const uint e = uint({values(r)});", f"if (e < {bins}u{guard}) atomicAdd(words[e], 1u);", "}"]

        w.each(layout.count, lines)
    w.barrier()
    result = w.array(op.result.type, want, "h")
    kind = elementwise.GLSL[op.result.type.element]
    w.each(want.count, lambda r: [f"{result(r)} = {kind}(words[{w.flat(want, r)}]);"])
    w.bind(op.result, result, want)


EMITTERS = {
    "tt.reduce": reduce, "tt.scan": scan, "tt.expand_dims": reshape, "tt.trans": reshape, "tt.reshape": reshape,
    "tt.broadcast": broadcast, "tt.join": join, "tt.split": split, "tt.cat": cat, "tt.gather": gather,
    "tt.histogram": histogram,
}  # fmt: skip
