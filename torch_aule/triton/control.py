"""Loops, branches, and what a program asks of its grid. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from torch_aule.triton import elementwise, products
from torch_aule.triton.ir import Block, Op, Value
from torch_aule.triton.layout import Layout
from torch_aule.triton.memory import FENCE, Packed, words_of, zero_of
from torch_aule.triton.writer import Access, Registers, Writer

__all__ = ["EMITTERS", "body"]


def _assign(w: Writer, to: Access, source: Access, layout: Layout) -> None:
    if to("0") == source("0"):
        return
    if isinstance(to, Packed):
        per = 4 // to.kind.bytes
        for i in range(layout.count // per):
            w.out(f"{to.name}[{i}] = {words_of(to.kind, source, i * per, per)[0]};")
        return
    if isinstance(to, Registers) and isinstance(source, Registers) and to.of_matrix and source.of_matrix:
        w.out(f"{to.name} = {source.name};")
        return
    w.each(layout.count, lambda r: [f"{to(r)} = {source(r)};"])


def _assign_all(w: Writer, pairs: Sequence[tuple[Value, Access]], values: list[Value]) -> None:
    """Assigns values to variables at once: all are computed before the first is changed."""
    changing = {getattr(to, "name", "") for _, to in pairs}
    kept = []
    for (variable, to), value in zip(pairs, values):
        layout = w.home(variable)
        source = w.access(value, layout)
        apart = isinstance(source, (Packed, Registers)) and source.name not in changing
        if len(pairs) > 1 and not apart:
            copy = _like(w, variable, source)
            _assign(w, copy, source, layout)
            source = copy
        kept.append((to, source, layout))
    for to, source, layout in kept:
        _assign(w, to, source, layout)


def _like(w: Writer, value: Value, source: Access) -> Access:
    """A variable that is held as what it begins with: elements, or the words in which they were loaded."""
    layout = w.home(value)
    if isinstance(source, Packed):
        name = w.name("c")
        w.out(f"uint {name}[{layout.count * value.type.bytes // 4}];")
        return Packed(name, value.type)
    return w.array(value.type, layout, "c")


def _carried(w: Writer, inner: list[Value], first: list[Value]) -> Sequence[tuple[Value, Access]]:
    """Variables that a loop carries, with what they begin with."""
    pairs = []
    for value, start in zip(inner, first):
        layout = w.home(value)
        source = w.access(start, layout)
        variable = _like(w, value, source)
        _assign(w, variable, source, layout)
        pairs.append((value, variable))
    return pairs


def _bind(w: Writer, value: Value, variable: Access) -> None:
    w.bind(value, variable, w.home(value))


def loop(w: Writer, op: Op) -> None:
    block = op.regions[0]
    counter, inner = block.arguments[0], block.arguments[1:]
    low, high, step = (w.scalar(value) for value in op.operands[:3])
    pairs = _carried(w, inner, op.operands[3:])
    products.stage_ahead(w, op)
    name, kind = w.name("i"), elementwise.GLSL[counter.type.element]
    if op.attributes == "unsigned":
        u = elementwise.UNSIGNED[counter.type.element]
        condition = f"{u}({name}) < {u}({high})"
    else:
        condition = f"{name} < {high}"
    with w.block(f"for ({kind} {name} = {low}; {condition}; {name} += {step})"):
        w.bind_scalar(counter, name)
        for value, variable in pairs:
            _bind(w, value, variable)
        end = w.run(block)
        _assign_all(w, pairs, end.operands)
    for (_, variable), result in zip(pairs, op.results):
        _bind(w, result, variable)


def while_loop(w: Writer, op: Op) -> None:
    before, after = op.regions
    pairs = _carried(w, before.arguments, op.operands)
    passed = before.end.operands[1:]
    results = [(value, w.array(value.type, w.home(value), "c")) for value in op.results]
    with w.block("for (;;)"):
        for value, variable in pairs:
            _bind(w, value, variable)
        end = w.run(before)
        condition = w.scalar(end.operands[0])
        _assign_all(w, results, passed)
        w.out(f"if (!({condition})) break;")
        for value, (_, variable) in zip(after.arguments, results):
            _bind(w, value, variable)
        last = w.run(after)
        _assign_all(w, pairs, last.operands)
    for value, variable in results:
        _bind(w, value, variable)


def branch(w: Writer, op: Op) -> None:
    pairs = [(value, w.array(value.type, w.home(value), "c")) for value in op.results]
    for i, region in enumerate(op.regions):
        with w.block(f"if ({w.scalar(op.operands[0])})" if i == 0 else "else"):
            end = w.run(region)
            _assign_all(w, pairs, end.operands)
    for value, variable in pairs:
        _bind(w, value, variable)


def body(w: Writer, block: Block, depth: int = 0) -> None:
    """A block of the function and those that it leads to, which return early or go on."""
    end = w.run(block)
    if end.name == "tt.return":
        if depth:
            w.out("return;")
        return
    if depth > 16 or end.name not in ("cf.br", "cf.cond_br"):
        raise end.unsupported("this jump")
    if end.name == "cf.br":
        _jump(w, end.targets[0], depth)
        return
    with w.block(f"if ({w.scalar(end.operands[0])})"):
        _jump(w, end.targets[0], depth)
    with w.block("else"):
        _jump(w, end.targets[1], depth)


def _jump(w: Writer, target: tuple[str, list[Value]], depth: int) -> None:
    label, values = target
    block = w.function.blocks[label]
    for argument, value in zip(block.arguments, values):
        layout = w.home(argument)
        w.bind(argument, w.access(value, layout), layout)
    body(w, block, depth + 1)


def program_id(w: Writer, op: Op) -> None:
    w.bind_scalar(op.result, f"int(program.{op.text[0]})")


def num_programs(w: Writer, op: Op) -> None:
    w.bind_scalar(op.result, {"x": "int(p.grid_x)", "y": "int(p.grid_y)", "z": "int(p.grid_z)"}[op.text[0]])


def barrier(w: Writer, op: Op) -> None:
    w.out(FENCE)
    w.barrier()


def unsplat(w: Writer, op: Op) -> None:
    value = op.operands[0]
    w.bind(op.result, w.access(value, w.home(value)))


def poison(w: Writer, op: Op) -> None:
    zero = zero_of(op.result.type)
    w.bind(op.result, lambda r: zero, w.home(op.result))


def nothing(w: Writer, op: Op) -> None:
    """A promise to the compiler."""


def constant(w: Writer, op: Op) -> None:
    """Scalars are written where they are used."""


EMITTERS = {
    "scf.for": loop, "scf.while": while_loop, "scf.if": branch, "tt.get_program_id": program_id,
    "tt.get_num_programs": num_programs, "ttg.barrier": barrier, "gpu.barrier": barrier,
    "tt.unsplat": unsplat, "ub.poison": poison, "llvm.intr.assume": nothing, "arith.constant": constant,
}  # fmt: skip
