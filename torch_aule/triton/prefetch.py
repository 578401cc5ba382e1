"""Loads of a loop's next turn are begun before the products of this one, which hide what they wait for. Pure.

A load in a loop with products moves one turn ahead: its first value is loaded before the loop and carried by it, and
the loop's body loads the next one before its first product. What its pointer and mask come of is written again with the
next turn's counter and carried values. Beyond the last turn nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_aule.triton.ir import Block, Function, Op, Type, Value
from torch_aule.triton.places import RESHAPES, is_elementwise

__all__ = ["prefetch"]

_PURE = ("arith.constant", "tt.make_range", "tt.splat", "tt.get_program_id", *RESHAPES[:4])


def _is_pure(op: Op) -> bool:
    return is_elementwise(op) or op.name in _PURE


class _Copy:
    """Operations written again with other values for some: `made` are the new ones, in their order."""

    def __init__(self, inside: set[int], known: dict[Value, Value]):
        self.inside, self.known = inside, dict(known)
        self.made: list[Op] = []

    def value(self, value: Value) -> Value:
        if value in self.known:
            return self.known[value]
        if value.op is None or id(value.op) not in self.inside:
            return value  # of before the loop
        self.op(value.op)
        return self.known[value]

    def op(self, op: Op) -> Op:
        operands = [self.value(operand) for operand in op.operands]
        copy = _op(op.name, [result.type for result in op.results], operands, op.text, op)
        copy.attributes = op.attributes
        self.known |= dict(zip(op.results, copy.results))
        self.made.append(copy)
        return copy


_counter = iter(range(1 << 62))


def _op(name: str, types: list[Type], operands: list[Value], text: str, like: Op) -> Op:
    op = Op(name, [], operands, text, "", like.place)
    op.results = [Value(f"%ahead{next(_counter)}", kind, op) for kind in types]
    return op


def _needs(values: list[Value], block: Block, inside: set[int]) -> set[Value] | None:
    """The arguments of a block that values come of by pure operations; None if they come of others too."""
    pending, seen = list(values), set(values)
    while pending:
        value = pending.pop()
        if value.op is None or id(value.op) not in inside:
            continue
        if not _is_pure(value.op):
            return None
        pending += [operand for operand in value.op.operands if operand not in seen]
        seen |= set(value.op.operands)
    return seen & set(block.arguments)


def _feeds_product(value: Value, inside: set[int]) -> bool:
    pending, seen = [value], {value}
    while pending:
        for user in pending.pop().users:
            if user.name == "tt.dot":
                return True
            if id(user) in inside and _is_pure(user):
                pending += [result for result in user.results if result not in seen]
                seen |= set(user.results)
    return False


def _movable(loop: Op, written: frozenset[Value], pointers: dict[Value, frozenset[Value]]) -> list[Op]:
    """Loads of a loop for its products, of memory that the kernel does not write, that may be begun a turn ahead."""
    block = loop.regions[0]
    inside = {id(op) for op in block.ops}
    carried = dict(zip(block.arguments[1:], block.end.operands))
    found = []
    for op in block.ops:
        if op.name != "tt.load" or not op.result.type.shape or not _feeds_product(op.result, inside):
            continue
        if not pointers.get(op.operands[0]) or pointers[op.operands[0]] & written:
            continue
        # Carried values that it needs must come of carried values, so that the next turn's are known in this one.
        needed, before = _needs(op.operands, block, inside), None
        while needed is not None and needed != before:
            before = needed
            more = _needs([carried[value] for value in needed if value in carried], block, inside)
            needed = needed | more if more is not None else None
        if needed is not None:
            found.append(op)
    return found


def _load(copy: _Copy, load: Op, in_range: Value) -> Value:
    """A load with a mask that lets nothing pass out of the loop's range."""
    operands = [copy.value(operand) for operand in load.operands]
    shape = load.result.type.shape
    wide = _op("tt.splat", [Type("i1", shape)], [in_range], "", load)
    copy.made.append(wide)
    mask = wide.result
    if len(operands) > 1:
        both = _op("arith.andi", [mask.type], [operands[1], mask], "", load)
        copy.made.append(both)
        mask = both.result
    moved = _op("tt.load", [load.result.type], [operands[0], mask, *operands[2:]], load.text, load)
    moved.attributes = load.attributes
    copy.made.append(moved)
    return moved.result


def _move(loop: Op, loads: list[Op]) -> list[Op]:
    """Moves loads of a loop ahead; the operations to write before it."""
    block = loop.regions[0]
    inside = {id(op) for op in block.ops}
    counter, low, high, step = block.arguments[0], *loop.operands[:3]
    word = "ult" if loop.attributes == "unsigned" else "slt"

    def in_range(copy: _Copy, value: Value) -> Value:
        op = _op("arith.cmpi", [Type("i1")], [value, high], f"{word}, ", loop)
        copy.made.append(op)
        return op.result

    before = _Copy(inside, {counter: low, **dict(zip(block.arguments[1:], loop.operands[3:]))})
    enters = in_range(before, low)
    first = [_load(before, load, enters) for load in loads]
    now = _Copy(inside, {argument: argument for argument in block.arguments})
    needed = _needs([operand for load in loads for operand in load.operands], block, inside) or set()
    carried = dict(zip(block.arguments[1:], block.end.operands))
    turned = {argument: now.value(carried[argument]) for argument in block.arguments[1:] if argument in needed}
    add = _op("arith.addi", [counter.type], [counter, step], "", loop)
    now.made.append(add)
    ahead = _Copy(inside, {counter: add.result, **turned})
    ahead.made = now.made
    goes_on = in_range(ahead, add.result)
    following = [_load(ahead, load, goes_on) for load in loads]
    at = next(i for i, op in enumerate(block.ops) if op.name == "tt.dot")
    block.ops[at:at] = ahead.made
    arguments = [Value(f"%ahead{next(_counter)}", load.result.type) for load in loads]
    _replace(block, {load.result: argument for load, argument in zip(loads, arguments)})
    block.ops = [op for op in block.ops if op not in loads]
    block.arguments += arguments
    block.end.operands += following
    loop.operands += first
    loop.results += [Value(f"%ahead{next(_counter)}", argument.type, loop) for argument in arguments]
    return before.made


def _replace(block: Block, new: dict[Value, Value]) -> None:
    for op in block.ops:
        op.operands = [new.get(value, value) for value in op.operands]
        for region in op.regions:
            _replace(region, new)


def _blocks(function: Function) -> Iterator[Block]:
    yield from function.blocks.values()
    for op in function.walk():
        yield from op.regions


def prefetch(function: Function, pointers: dict[Value, frozenset[Value]]) -> bool:
    """Moves loads of loops with products one turn ahead.

    Parameters
    ----------
    function : Function
        Changed in place.
    pointers : dict of Value to frozenset of Value
        What each pointer may point to (`pointer_arguments`).

    Returns
    -------
    bool
        Whether any was moved.
    """
    written = frozenset().union(*(
        pointers.get(op.operands[0], frozenset(pointers))
        for op in function.walk()
        if op.name in ("tt.store", "tt.atomic_rmw", "tt.atomic_cas")
    ))  # fmt: skip
    moved = False
    for block in list(_blocks(function)):
        for loop in [op for op in block.ops if op.name == "scf.for"]:
            if not any(op.name == "tt.dot" for op in loop.regions[0].ops):
                continue
            if loads := _movable(loop, written, pointers):
                at = block.ops.index(loop)
                block.ops[at:at] = _move(loop, loads)
                moved = True
    if moved:
        _relink(function)
    return moved


def _relink(function: Function) -> None:
    """Finds the users of each value anew."""
    for op in function.walk():
        for value in (*op.results, *op.operands, *(a for region in op.regions for a in region.arguments)):
            value.users = []
    for op in function.walk():
        for value in op.operands:
            value.users.append(op)
