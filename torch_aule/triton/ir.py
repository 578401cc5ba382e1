"""Triton's IR (TTIR) as Python objects: types, values, operations, blocks. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

__all__ = ["BITS", "Block", "Function", "Op", "Place", "Type", "Unsupported", "Value", "order_of"]

# Bits of an element of each type that TTIR has; a pointer is an address of 64 bits.
BITS = {
    "i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "ptr": 64,
    "f8E4M3FN": 8, "f8E5M2": 8,
}  # fmt: skip


class Unsupported(NotImplementedError):
    """A Triton kernel has what this backend does not serve; the text names it and its place in the user's file."""

    placed = False

    def at(self, place: Place) -> Unsupported:
        """The same with a place, unless the text has one.

        Parameters
        ----------
        place : Place
            Where the operation was written.

        Returns
        -------
        Unsupported
        """
        if self.placed:
            return self
        found = Unsupported(f"{place}: {self}")
        found.placed = True
        return found


@dataclass(frozen=True)
class Place:
    """The place where an operation was written: a file, a line, or unknown."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "an unknown place"


@dataclass(frozen=True)
class Type:
    """An element type and a shape.

    Attributes
    ----------
    element : str
        As MLIR names it: ``"f32"``, ``"i1"``; ``"ptr"`` for a pointer.
    shape : tuple of int
        Empty of a scalar.
    pointee : str
        What a pointer points to; else empty.
    """

    element: str
    shape: tuple[int, ...] = ()
    pointee: str = ""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        return self.element[0] == "f" or self.element == "bf16"

    def with_element(self, element: str) -> Type:
        return Type(element, self.shape)

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(self.element, shape, self.pointee)

    def loaded(self) -> Type:
        """Of what is loaded through pointers of this type."""
        return Type(self.pointee, self.shape)

    @property
    def bytes(self) -> int:
        return BITS[self.element] // 8


class Value:
    """A result of an operation, or an argument of a block; compared by identity."""

    __slots__ = ("name", "op", "type", "users")

    def __init__(self, name: str, type: Type, op: Op | None = None):
        self.name = name
        self.type = type
        self.op = op  # None of a block's argument
        self.users: list[Op] = []

    @property
    def made_by(self) -> Op:
        """The operation that gives it; it is no block's argument."""
        assert self.op is not None, self.name
        return self.op

    def __repr__(self) -> str:
        return self.name


@dataclass
class Block:
    """Operations in their order, the last one being what ends the block."""

    arguments: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    @property
    def end(self) -> Op:
        return self.ops[-1]


@dataclass(eq=False)
class Op:
    """An operation.

    Attributes
    ----------
    name : str
        ``"arith.addf"``.
    text : str
        What stands between the name and the types, without attributes in braces.
    attributes : str
        What stood in braces.
    regions : list of Block
        Of structured operations, one block each.
    targets : list
        Of branches: pairs of a label and the values that its block's arguments get.
    """

    name: str
    results: list[Value]
    operands: list[Value]
    text: str
    attributes: str
    place: Place
    regions: list[Block] = field(default_factory=list)
    targets: list[tuple[str, list[Value]]] = field(default_factory=list)

    @property
    def result(self) -> Value:
        return self.results[0]

    def number(self, name: str) -> int:
        """An integer among the attributes."""
        found = re.search(rf"{name} = (\d+)", self.attributes)
        if found is None:
            raise self.unsupported(f"a form without {name}")
        return int(found[1])

    def unsupported(self, why: str = "") -> Unsupported:
        return Unsupported(f"{self.name}{': ' if why else ''}{why} is not served on aule").at(self.place)


def order_of(op: Op) -> list[int]:
    """Of a transposition: axis i of the result is axis order[i] of the operand."""
    return [int(n) for n in re.findall(r"\d+", op.attributes.split("array<i32:")[1])]


@dataclass
class Function:
    """A kernel.

    Attributes
    ----------
    arguments : list of Value
        In the order of the signature, without constants.
    aligned : dict
        Of arguments by name: what each is a multiple of, in bytes for pointers.
    blocks : dict
        By label; the first one is where it begins.
    named : dict
        Of arguments by name: what each is called in the user's file.
    """

    name: str
    arguments: list[Value]
    aligned: dict[str, int]
    blocks: dict[str, Block]
    named: dict[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> Block:
        return next(iter(self.blocks.values()))

    def walk(self):
        """Every operation, each before those of its regions, in the order of the text."""
        for block in self.blocks.values():
            yield from _walk(block)


def _walk(block: Block):
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _walk(region)
