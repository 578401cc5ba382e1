"""Reads SPIR-V: the layout of `struct Params` as the compiler chose it, and what no shader may contain."""

from __future__ import annotations

import array
import sys
from collections.abc import Iterator
from dataclasses import dataclass

SPIRV_MAGIC = 0x07230203
OP_NAME, OP_MEMBER_NAME = 5, 6
OP_TYPE_INT, OP_TYPE_FLOAT, OP_TYPE_ARRAY, OP_TYPE_STRUCT = 21, 22, 28, 30
OP_CONSTANT, OP_FUNCTION, OP_FUNCTION_END, OP_DECORATE, OP_MEMBER_DECORATE = 43, 54, 56, 71, 72
OP_EXT_INST, OP_TYPE_VECTOR = 12, 23
OP_LOAD, OP_STORE, MEMORY_ALIGNED = 61, 62, 2
OP_CONSTANT_TRUE, OP_SPEC_CONSTANT_OP = 41, 52
OP_TYPE_BOOL, OP_SPEC_CONSTANT_TRUE, OP_SPEC_CONSTANT_FALSE, OP_SPEC_CONSTANT = 20, 48, 49, 50
COMPOSITES = (79, 81, 82)  # shuffle, extract, insert: their operands are literals too
DECORATION_SPEC_ID, DECORATION_ARRAY_STRIDE, DECORATION_OFFSET = 1, 6, 35
OP_KILL, OP_TERMINATE_INVOCATION = 252, 4416
DECORATION_DESCRIPTOR_SET = 34
MIN_MAX_CLAMP = (38, 39, 41, 42, 44, 45)  # UMin SMin UMax SMax UClamp SClamp of GLSL.std.450


# OpCapability -> `#pragma aule feature`: what a device must have for it (csrc/core/capabilities.def).
OP_CAPABILITY = 17
CAPABILITY_FEATURES = {
    9: "float16", 10: "float64", 22: "int16", 39: "int8",
    62: "subgroup_shuffle",  # votes, which that feature includes
    63: "subgroup_arithmetic", 64: "subgroup_ballot", 65: "subgroup_shuffle", 5116: "bfloat16", 5118: "bfloat16",
    6016: "int_dot_product", 6018: "int_dot_product", 6019: "int_dot_product", 6022: "cooperative_matrix",
    6033: "float32_atomic_add",
}  # fmt: skip
# Every device has: compute, 64-bit integers, subgroups, 8 and 16 bits in memory, the memory model, addresses.
BASELINE_CAPABILITIES = {1, 11, 61, 4433, 4448, 5345, 5347}


class ShaderError(RuntimeError):
    """A message that already carries file:line."""


@dataclass(frozen=True)
class Member:
    name: str
    cpp_type: str
    offset: int
    elem_bytes: int
    count: int  # 0: not an array

    @property
    def bytes(self) -> int:
        return self.elem_bytes * max(self.count, 1)


@dataclass(frozen=True)
class Constant:
    """A specialization constant: `layout(constant_id = number) const type name = default`, the default as 32 bits."""

    number: int
    name: str
    type: str  # int, uint, bool or float
    default: int


def literal_string(words: array.array) -> str:
    return words.tobytes().split(b"\0", 1)[0].decode()


def spirv_words(spirv: bytes, where: str) -> array.array:
    words = array.array("I", spirv)
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] != SPIRV_MAGIC:
        raise ShaderError(f"{where}: this is no SPIR-V")
    return words


def short_function_names(spirv: bytes, where: str) -> bytes:
    """SPIR-V with `name` where glslang wrote `name(types of its parameters`: some of its types are addresses.

    So the same source gives the same bytes in each build.
    """
    words = spirv_words(spirv, where)
    out, at = words[:5], 5
    while at < len(words) and (op := words[at] & 0xFFFF) != OP_FUNCTION:
        count = words[at] >> 16
        instruction = words[at : at + count]
        if op == OP_NAME and (name := literal_string(instruction[2:])).find("(") > 0:
            text = name.split("(")[0].encode()
            instruction = array.array("I", [0, instruction[1]])
            instruction.frombytes(text + bytes(4 - len(text) % 4))  # at least one byte of zero ends it
            instruction[0] = len(instruction) << 16 | OP_NAME
        out.extend(instruction)
        at += count
    return (out + words[at:]).tobytes()


def check_words(spirv: bytes, where: str) -> None:
    """Refuses what is no sequence of instructions; for SPIR-V that this package's compiler has not written."""
    words = spirv_words(spirv, where) if len(spirv) > 20 and len(spirv) % 4 == 0 else [0]
    at, last = 5, 0
    while at < len(words) and words[at] >> 16 != 0:
        last = words[at] & 0xFFFF
        at += words[at] >> 16
    if at != len(words) or last != OP_FUNCTION_END:
        raise ShaderError(f"{where}: this is no SPIR-V, or not all of it")


def instructions(spirv: bytes, where: str) -> Iterator[tuple[int, array.array]]:
    """Opcode and words of each instruction, the word with opcode and count among them."""
    words = spirv_words(spirv, where)
    at = 5
    while at < len(words):
        count = words[at] >> 16
        yield words[at] & 0xFFFF, words[at : at + count]
        at += count


def reflect_params(spirv: bytes, where: str) -> list[Member]:
    names: dict[int, str] = {}
    member_names: dict[tuple[int, int], str] = {}
    offsets: dict[tuple[int, int], int] = {}
    strides: dict[int, int] = {}
    scalars: dict[int, tuple[str, int]] = {}
    constants: dict[int, int] = {}
    arrays: dict[int, tuple[int, int]] = {}
    structs: dict[int, list[int]] = {}
    for op, w in instructions(spirv, where):
        if op == OP_NAME:
            names[w[1]] = literal_string(w[2:])
        elif op == OP_MEMBER_NAME:
            member_names[w[1], w[2]] = literal_string(w[3:])
        elif op == OP_MEMBER_DECORATE and w[3] == DECORATION_OFFSET:
            offsets[w[1], w[2]] = w[4]
        elif op == OP_DECORATE and w[2] == DECORATION_ARRAY_STRIDE:
            strides[w[1]] = w[3]
        elif op == OP_TYPE_INT:
            scalars[w[1]] = (f"{'' if w[3] else 'u'}int{w[2]}_t", w[2] // 8)
        elif op == OP_TYPE_FLOAT:
            scalars[w[1]] = ({32: "float", 64: "double"}.get(w[2], ""), w[2] // 8)
        elif op == OP_CONSTANT:
            constants[w[2]] = w[3]
        elif op == OP_TYPE_ARRAY:
            arrays[w[1]] = (w[2], w[3])
        elif op == OP_TYPE_STRUCT:
            structs[w[1]] = list(w[2:])
        elif op == OP_FUNCTION:
            break
    # glslang also emits an undecorated twin for function-local copies; the one in a block carries offsets.
    found = [s for s in structs if names.get(s) == "Params" and (s, 0) in offsets]
    if not found:
        raise ShaderError(
            f'{where}: no `struct Params`; declare it, include "common/params.glsl" after it and read `p.member`'
        )
    struct = found[0]
    members = []
    for index, type_id in enumerate(structs[struct]):
        name, offset = member_names[struct, index], offsets[struct, index]
        count = 0
        if type_id in arrays:
            stride = strides.get(type_id, 0)
            type_id, length = arrays[type_id]
            count = constants.get(length, 0)
            if count == 0 or type_id not in scalars or stride != scalars[type_id][1]:
                raise ShaderError(f"{where}: Params::{name}: an array needs a fixed length, scalars and no padding")
        cpp_type, elem_bytes = scalars.get(type_id, ("", 0))
        if cpp_type not in ("uint64_t", "int64_t", "uint32_t", "int32_t", "float", "double"):
            raise ShaderError(
                f"{where}: Params::{name}: only uint64_t, int64_t, uint, int, float, double and arrays of them"
            )
        members.append(Member(name, cpp_type, offset, elem_bytes, count))
    return members


def reflect_constants(spirv: bytes, where: str) -> list[Constant]:
    names: dict[int, str] = {}
    numbers: dict[int, int] = {}
    types: dict[int, str] = {}
    found: dict[int, Constant] = {}
    for op, w in instructions(spirv, where):
        if op == OP_NAME:
            names.setdefault(w[1], literal_string(w[2:]))  # `const int A = B` names B's id once more
        elif op == OP_DECORATE and w[2] == DECORATION_SPEC_ID:
            numbers[w[1]] = w[3]
        elif op == OP_TYPE_BOOL:
            types[w[1]] = "bool"
        elif op == OP_TYPE_INT and w[2] == 32:
            types[w[1]] = "int" if w[3] else "uint"
        elif op == OP_TYPE_FLOAT and w[2] == 32:
            types[w[1]] = "float"
        elif op in (OP_SPEC_CONSTANT_TRUE, OP_SPEC_CONSTANT_FALSE, OP_SPEC_CONSTANT) and w[2] in names:
            # Constants without a name are glslang's own twins of those that `local_size_x_id` refers to.
            number = numbers[w[2]]
            if w[1] not in types:
                raise ShaderError(f"{where}: constant {names[w[2]]}: only bool, int, uint and float of 32 bits")
            if number in found:
                raise ShaderError(f"{where}: constants {found[number].name} and {names[w[2]]} have one constant_id")
            default = w[3] if op == OP_SPEC_CONSTANT else int(op == OP_SPEC_CONSTANT_TRUE)
            found[number] = Constant(number, names[w[2]], types[w[1]], default)
        elif op == OP_FUNCTION:
            break
    unnamed = sorted(set(numbers.values()) - found.keys())
    if unnamed:
        raise ShaderError(f"{where}: constant_id {unnamed[0]} has no name: declare it beside local_size_x_id")
    return [found[number] for number in sorted(found)]


def reflect_features(spirv: bytes, where: str) -> set[str]:
    """The features of a device without which this SPIR-V is invalid there, whatever the source says."""
    features = set()
    for op, w in instructions(spirv, where):
        if op != OP_CAPABILITY:  # they come first
            return features
        if w[1] in CAPABILITY_FEATURES:
            features.add(CAPABILITY_FEATURES[w[1]])
        elif w[1] not in BASELINE_CAPABILITIES:
            raise ShaderError(f"{where}: no feature of a device stands for the SPIR-V capability {w[1]} (spirv.py)")
    return features


def check_builtins(spirv: bytes, where: str) -> None:
    """Refuses what drivers fail on.

    Min, max and clamp of 64-bit integers: one driver's clamp gave wrong values. Constants that are none: where the
    right side of `&&` or `||` is more than one comparison of constants, glslang branches around it, and a constant made
    of the result is invalid (a crash in one driver, a refusal in another).
    """
    wide: set[int] = set()
    constants: set[int] = set()
    for op, w in instructions(spirv, where):
        if op == OP_TYPE_INT and w[2] == 64 or op == OP_TYPE_VECTOR and w[2] in wide:
            wide.add(w[1])
        elif OP_CONSTANT_TRUE <= op <= OP_SPEC_CONSTANT_OP:
            constants.add(w[2])
            if op == OP_SPEC_CONSTANT_OP and w[3] not in COMPOSITES:
                if not constants.issuperset(w[4:]):
                    raise ShaderError(f"{where}: a constant of && or || with more than a comparison on its right")
        elif op == OP_EXT_INST and w[1] in wide and w[4] in MIN_MAX_CLAMP:
            raise ShaderError(f"{where}: min, max or clamp of 64-bit integers; use comparisons (common/indexing.glsl)")


def check_alignment(spirv: bytes, where: str) -> None:
    """Refuses accesses by address that promise less alignment than their largest scalar has.

    Vulkan forbids them (VUID-StandaloneSpirv-PhysicalStorageBuffer64-06314): `buffer_reference_align` is too small.
    """
    largest: dict[int, int] = {}  # type -> bytes of its largest scalar
    type_of: dict[int, int] = {}
    for op, w in instructions(spirv, where):
        if op in (OP_TYPE_INT, OP_TYPE_FLOAT):
            largest[w[1]] = w[2] // 8
        elif op in (OP_TYPE_VECTOR, OP_TYPE_ARRAY):
            largest[w[1]] = largest.get(w[2], 0)
        elif op == OP_TYPE_STRUCT:
            largest[w[1]] = max((largest.get(member, 0) for member in w[2:]), default=0)
        elif op in (OP_LOAD, OP_STORE):
            if op == OP_LOAD:
                type_of[w[2]] = w[1]
            access = 4 if op == OP_LOAD else 3
            kind = w[1] if op == OP_LOAD else type_of.get(w[2])
            if len(w) > access + 1 and w[access] & MEMORY_ALIGNED and largest.get(kind, 0) > w[access + 1]:
                raise ShaderError(
                    f"{where}: {largest[kind]}-byte scalars through a buffer_reference_align of {w[access + 1]}"
                )
        elif len(w) > 2 and w[1] in largest:  # an instruction with a result of that type
            type_of[w[2]] = w[1]


def check_guard(spirv: bytes, where: str) -> None:
    """Refuses what would blind the guard against loops that a driver ends early (csrc/vulkan/spirv_loop_guard.h).

    The guard calls `main` and then looks whether loops still run, so every invocation must come back from `main`; and
    descriptor set 0 is the guard's.
    """
    for op, w in instructions(spirv, where):
        if op in (OP_KILL, OP_TERMINATE_INVOCATION) or op == OP_DECORATE and w[2] == DECORATION_DESCRIPTOR_SET:
            raise ShaderError(f"{where}: the guard of long loops allows no descriptor set and no end but main's")
