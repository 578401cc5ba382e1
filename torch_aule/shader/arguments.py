"""Arguments of a shader, read from its SPIR-V: the members of its push constants, workgroup size, built-ins."""

from __future__ import annotations

import array
from collections.abc import Sequence
from dataclasses import dataclass

from torch_aule.glsl.spirv import (
    DECORATION_ARRAY_STRIDE,
    DECORATION_OFFSET,
    DECORATION_SPEC_ID,
    OP_CONSTANT,
    OP_DECORATE,
    OP_FUNCTION,
    OP_LOAD,
    OP_MEMBER_DECORATE,
    OP_MEMBER_NAME,
    OP_NAME,
    OP_SPEC_CONSTANT,
    OP_STORE,
    OP_TYPE_ARRAY,
    OP_TYPE_FLOAT,
    OP_TYPE_INT,
    OP_TYPE_STRUCT,
    OP_TYPE_VECTOR,
    ShaderError,
    instructions,
    literal_string,
)

OP_ACCESS_CHAIN, OP_IN_BOUNDS_ACCESS_CHAIN = 65, 66
OP_ENTRY_POINT, OP_EXECUTION_MODE, OP_EXECUTION_MODE_ID = 15, 16, 331
OP_TYPE_RUNTIME_ARRAY, OP_TYPE_POINTER, OP_VARIABLE = 29, 32, 59
OP_CONSTANT_COMPOSITE, OP_SPEC_CONSTANT_COMPOSITE = 44, 51
MODEL_COMPUTE, MODE_LOCAL_SIZE, MODE_LOCAL_SIZE_ID = 5, 17, 38
STORAGE_PUSH_CONSTANT, STORAGE_PHYSICAL = 9, 5349
DECORATION_BUILTIN, DECORATION_NON_WRITABLE, DECORATION_NON_READABLE = 11, 24, 25
BUILTIN_NUM_WORKGROUPS, BUILTIN_WORKGROUP_SIZE = 24, 25
_UNKNOWN: tuple[int, Sequence[int]] = (0, ())  # of a type that is none of ours
NUMBERS = ("int64_t", "uint64_t", "int32_t", "uint32_t", "float", "double")


@dataclass(frozen=True)
class Element:
    """The scalar that a block is made of."""

    kind: str  # float, bfloat, int, uint
    bits: int
    lanes: int  # of the vector that it is in

    @property
    def align(self) -> int:
        return self.bits // 8 * (self.lanes if self.lanes in (2, 4) else 1)


@dataclass(frozen=True)
class Argument:
    """A member of the push constants."""

    name: str
    cpp_type: str  # one of NUMBERS; uint64_t for an address
    offset: int
    count: int  # of an array; 0: no array
    access: str | None = None  # of a buffer_reference: read, write, read_write
    element: Element | None = None  # of its last member, if that has scalars

    @property
    def bytes(self) -> int:
        return (8 if self.cpp_type in ("int64_t", "uint64_t", "double") else 4) * max(self.count, 1)


@dataclass(frozen=True)
class SizeId:
    """A specialization constant, by number, that is the size of a workgroup along an axis."""

    number: int


@dataclass
class Interface:
    """A shader's interface for its callers."""

    arguments: list[Argument]
    params_bytes: int
    size: tuple[int | SizeId, ...]  # invocations of a workgroup along x, y, z


class _Uses:
    """The pointers of the push constants through which a shader loads and stores.

    A pointer is followed from its load through access chains. One that is used in another way (kept in a variable,
    handed to a function, an atomic's) has escaped: nothing is known of it.
    """

    def __init__(self) -> None:
        self.chains: dict[int, int] = {}  # pointers into the push constants -> the struct that they point to
        self.members: dict[int, tuple[int, int]] = {}  # pointers to one of its members -> struct, number
        self.derived: dict[int, tuple[int, int]] = {}  # what was made of a loaded pointer -> its member
        self.reads: set[tuple[int, int]] = set()
        self.writes: set[tuple[int, int]] = set()
        self.escaped: set[tuple[int, int]] = set()
        self.all_escaped = False  # the block was copied as a whole

    def instruction(self, op: int, w: array.array, module: _Module) -> None:
        if op in (OP_ACCESS_CHAIN, OP_IN_BOUNDS_ACCESS_CHAIN):
            if w[3] in self.chains:
                self._into_block(w[2], self.chains[w[3]], w[4:], module)
            elif w[3] in self.derived:
                self.derived[w[2]] = self.derived[w[3]]
        elif op == OP_LOAD:
            if w[3] in self.derived:
                self.reads.add(self.derived[w[3]])
            elif w[3] in self.members:
                self.derived[w[2]] = self.members[w[3]]
            self.all_escaped |= w[3] in self.chains
        elif op == OP_STORE:
            if w[1] in self.derived:
                self.writes.add(self.derived[w[1]])
            if w[2] in self.derived:
                self.escaped.add(self.derived[w[2]])
        else:
            self.escaped.update(self.derived[word] for word in w[1:] if word in self.derived)
            self.all_escaped |= any(word in self.chains for word in w[1:])

    def _into_block(self, result: int, struct: int, path: array.array, module: _Module) -> None:
        for depth, index in enumerate(path):
            number = module.constants.get(index)
            members = module.types[struct][1]
            if number is None or number >= len(members):
                self.all_escaped = True
                return
            op, operands = module.types.get(members[number], (0, ()))
            if op == OP_TYPE_STRUCT:
                struct = members[number]
            elif op == OP_TYPE_POINTER and depth + 1 == len(path):
                self.members[result] = (struct, number)
                return
            else:
                return  # a number
        self.chains[result] = struct

    def access(self, member: tuple[int, int]) -> str | None:
        """read, write, read_write; None: unknown."""
        if self.all_escaped or member in self.escaped:
            return None
        if member in self.writes:
            return "read_write" if member in self.reads else "write"
        return "read"


class _Module:
    """The declarations of a SPIR-V module that say something of its interface."""

    def __init__(self, spirv: bytes, where: str) -> None:
        self.where = where
        self.names: dict[int, str] = {}
        self.member_names: dict[tuple[int, int], str] = {}
        self.decorations: dict[tuple[int, int], array.array] = {}  # (id, decoration) -> operands
        self.members: dict[tuple[int, int, int], array.array] = {}  # (struct, member, decoration) -> operands
        self.types: dict[int | None, tuple[int, Sequence[int]]] = {}  # id -> opcode, operands
        self.constants: dict[int, int] = {}
        self.composites: dict[int, array.array] = {}
        self.modes: list[array.array] = []
        self.push: int | None = None  # the block of push constants
        self.entries: list[str] = []
        self.builtins: set[int] = set()
        self.uses = _Uses()
        in_functions = False
        for op, w in instructions(spirv, where):
            in_functions |= op == OP_FUNCTION
            if in_functions:
                self.uses.instruction(op, w, self)
            else:
                self._declare(op, w)

    def _declare(self, op: int, w: array.array) -> None:
        if op == OP_NAME:
            self.names[w[1]] = literal_string(w[2:])
        elif op == OP_MEMBER_NAME:
            self.member_names[w[1], w[2]] = literal_string(w[3:])
        elif op == OP_DECORATE:
            self.decorations[w[1], w[2]] = w[3:]
            if w[2] == DECORATION_BUILTIN:
                self.builtins.add(w[3])
        elif op == OP_MEMBER_DECORATE:
            self.members[w[1], w[2], w[3]] = w[4:]
        elif op == OP_ENTRY_POINT:
            self.entries.append(literal_string(w[3:]) if w[1] == MODEL_COMPUTE else "")
        elif op in (OP_EXECUTION_MODE, OP_EXECUTION_MODE_ID):
            self.modes.append(w)
        elif op in (OP_CONSTANT, OP_SPEC_CONSTANT):
            self.constants[w[2]] = w[3]
        elif op in (OP_CONSTANT_COMPOSITE, OP_SPEC_CONSTANT_COMPOSITE):
            self.composites[w[2]] = w[3:]
        elif op == OP_VARIABLE and w[3] == STORAGE_PUSH_CONSTANT:
            self.push = self.types[w[1]][1][1]
            self.uses.chains[w[2]] = self.push
        elif OP_TYPE_INT <= op <= OP_TYPE_POINTER:
            self.types[w[1]] = (op, w[2:])

    def element(self, struct: int) -> Element | None:
        op, operands = self.types.get(struct, _UNKNOWN)
        kind, lanes = (operands[-1] if op == OP_TYPE_STRUCT and operands else None), 1
        while kind in self.types and self.types[kind][0] in (OP_TYPE_VECTOR, OP_TYPE_ARRAY, OP_TYPE_RUNTIME_ARRAY):
            if self.types[kind][0] == OP_TYPE_VECTOR:
                lanes = self.types[kind][1][1]
            kind = self.types[kind][1][0]
        op, operands = self.types.get(kind, _UNKNOWN)
        if op == OP_TYPE_INT:
            return Element("int" if operands[1] else "uint", operands[0], lanes)
        if op == OP_TYPE_FLOAT:
            return Element("bfloat" if len(operands) > 1 else "float", operands[0], lanes)
        return None

    def declared(self, struct: int) -> str | None:
        """The access that `readonly` and `writeonly` of a buffer_reference block allow."""
        members = range(len(self.types[struct][1])) if struct in self.types else ()
        if members and all((struct, i, DECORATION_NON_WRITABLE) in self.members for i in members):
            return "read"
        if members and all((struct, i, DECORATION_NON_READABLE) in self.members for i in members):
            return "write"
        return None

    def access(self, name: str, block: int, member: tuple[int, int]) -> str:
        declared, used = self.declared(block), self.uses.access(member)
        # glslang lets a kernel store through the pointer of a readonly block.
        if declared == "read" and member in self.uses.writes:
            raise ShaderError(f"{self.where}: {name} is readonly, and it is written")
        if declared == "write" and member in self.uses.reads:
            raise ShaderError(f"{self.where}: {name} is writeonly, and it is read")
        return declared or used or "read_write"

    def argument(self, struct: int, number: int, base: int) -> Argument:
        name = self.member_names.get((struct, number), f"number {number}")
        offset = base + self.members[struct, number, DECORATION_OFFSET][0]
        kind, count = self.types[struct][1][number], 0
        op, operands = self.types.get(kind, _UNKNOWN)
        if op == OP_TYPE_ARRAY:
            stride = self.decorations[kind, DECORATION_ARRAY_STRIDE][0]
            kind, count = operands[0], self.constants.get(operands[1], 0)
            op, operands = self.types.get(kind, _UNKNOWN)
            if op not in (OP_TYPE_INT, OP_TYPE_FLOAT) or stride != operands[0] // 8 or count == 0:
                raise ShaderError(f"{self.where}: argument {name}: an array needs a length, numbers and no padding")
        if op == OP_TYPE_POINTER and operands[0] == STORAGE_PHYSICAL:
            access = self.access(name, operands[1], (struct, number))
            return Argument(name, "uint64_t", offset, 0, access, self.element(operands[1]))
        cpp_type = ""
        if op == OP_TYPE_INT:
            cpp_type = f"{'' if operands[1] else 'u'}int{operands[0]}_t"
        elif op == OP_TYPE_FLOAT:
            cpp_type = {32: "float", 64: "double"}.get(operands[0], "")
        if cpp_type not in NUMBERS:
            raise ShaderError(
                f"{self.where}: argument {name}: takes a buffer_reference, uint64_t (an address), int64_t, int, uint, "
                "float, double or an array of numbers"
            )
        return Argument(name, cpp_type, offset, count)

    def arguments(self) -> list[Argument]:
        struct, base = self.push, 0
        if struct is None:
            return []
        while True:
            members = self.types[struct][1]
            inner = self.types.get(members[0], _UNKNOWN) if len(members) == 1 else _UNKNOWN
            if inner[0] == OP_TYPE_STRUCT:  # `uniform Push { Params p; }`
                base += self.members[struct, 0, DECORATION_OFFSET][0]
                struct = members[0]
            elif inner[0] == OP_TYPE_POINTER and self.names.get(inner[1][1]) == "ParamsRef":  # the parameter ring
                struct, base, self.uses.all_escaped = inner[1][1], 0, True
            else:
                break
        return [self.argument(struct, number, base) for number in range(len(self.types[struct][1]))]

    def size(self) -> tuple[int | SizeId, ...]:
        ids = next((w[3:6] for w in self.modes if w[2] == MODE_LOCAL_SIZE_ID), None)
        for (target, decoration), operands in self.decorations.items():  # which wins over the execution mode
            if decoration == DECORATION_BUILTIN and operands[0] == BUILTIN_WORKGROUP_SIZE and target in self.composites:
                ids = self.composites[target]
        if ids is None:
            return next((tuple(w[3:6]) for w in self.modes if w[2] == MODE_LOCAL_SIZE), (1, 1, 1))
        numbers = [self.decorations.get((x, DECORATION_SPEC_ID)) for x in ids]
        return tuple(SizeId(n[0]) if n else self.constants[x] for n, x in zip(numbers, ids))


def reflect_interface(spirv: bytes, where: str) -> Interface:
    """Arguments in the order of their declaration, and the workgroup size."""
    module = _Module(spirv, where)
    if module.entries != ["main"]:
        raise ShaderError(f"{where}: a kernel has one entry point, of compute, with the name main")
    if BUILTIN_NUM_WORKGROUPS in module.builtins:
        raise ShaderError(f"{where}: no gl_NumWorkGroups: a long grid is dispatched in parts. Pass a number instead")
    arguments = module.arguments()
    if not any(a.access is not None or a.cpp_type == "uint64_t" for a in arguments):
        raise ShaderError(
            f"{where}: it takes no tensor: declare `params {{ ... }};` with a member of a buffer_reference type or "
            "uint64_t"
        )
    align = max(8 if a.cpp_type in ("int64_t", "uint64_t", "double") else 4 for a in arguments)
    end = max(a.offset + a.bytes for a in arguments)
    return Interface(arguments, -(-end // align) * align, module.size())
