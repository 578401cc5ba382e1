"""Loads, stores and atomic operations. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from torch_aule.triton import elementwise
from torch_aule.triton.checks import guarded
from torch_aule.triton.ir import BITS, Op, Type, Value
from torch_aule.triton.layout import SCALAR, Layout, blocked, log2
from torch_aule.triton.writer import Access, Writer

__all__ = ["EMITTERS", "FENCE", "Packed", "packed", "words_of", "zero_of"]

FENCE = "memoryBarrierBuffer();"
# Of memory by bytes: a GLSL type and how it is declared; elements come out of words.
_WORDS = {1: "uint8_t", 2: "uint16_t", 4: "uint", 8: "uvec2", 16: "uvec4"}
_PLAIN = {"i1": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int", "i64": "int64_t", "f16": "float16_t",
          "bf16": "uint16_t", "f32": "float", "f64": "double", "ptr": "uint64_t", "f8E4M3FN": "uint8_t",
          "f8E5M2": "uint8_t"}  # fmt: skip


def _reference(w: Writer, kind: str, align: int, coherent: bool) -> str:
    """The name of a reference to a GLSL type in memory."""
    name = f"{'Shared' if coherent else 'At'}_{kind}_{align}"
    qualifier = "coherent " if coherent else ""
    w.references[name] = (
        f"layout(buffer_reference, scalar, buffer_reference_align = {align}) {qualifier}buffer {name} {{ {kind} v; }};"
    )
    return name


def _arguments(w: Writer, pointer: Value, op: Op) -> frozenset[Value]:
    found = w.pointers.get(pointer)
    if not found:
        raise op.unsupported("memory behind a pointer that is no argument (its tensor cannot be followed)")
    return found


def _is_shared(w: Writer, pointer: Value) -> bool:
    """Whether other workgroups or invocations may read what is written here, or write what is read."""
    return bool(w.pointers[pointer] & w.exchanged)


def _layout(w: Writer, op: Op) -> Layout:
    """The layout of a memory operation's elements: with the value that it moves."""
    pointer = op.operands[0]
    if not pointer.type.shape:
        return SCALAR
    for value in (*op.results, *op.operands[1:2], pointer, *op.operands[2:]):
        if value.type.shape and value in w.layouts.of:
            return w.layouts.of[value]
    run = _run(w, pointer, None)
    return blocked(pointer.type.shape, w.threads, run)


def _run(w: Writer, pointer: Value, mask: Value | None, layout: Layout | None = None) -> int:
    """Neighbours that one access takes along the last axis that is contiguous, in registers from 0 on."""
    known, size = w.facts[pointer], BITS[pointer.type.pointee] // 8
    best = 1
    for axis in range(len(pointer.type.shape)):
        run = known.wide(axis, size)
        if mask is not None and mask.type.shape:
            run = min(run, w.facts[mask].constancy[axis])
        if layout is not None:
            run = min(run, layout.run(axis))
        best = max(best, run)
    return best


def _unpacked(kind: Type, words: str, i: int, size: int) -> str:
    """Element i, of 32 or 64 bits, of words that were loaded."""
    text = f"uvec2({words}[{2 * i}], {words}[{2 * i + 1}])" if size == 8 else f"{words}[{i}]"
    return elementwise.WORDS[kind.element][1].format(text)


def _loaded(kind: Type, text: str) -> str:
    if kind.element == "bf16":
        return f"bf16_to_float(uint({text}))"
    return f"({text} != uint8_t(0))" if kind.element == "i1" else text


def _stored(kind: Type, text: str) -> str:
    if kind.element == "bf16":
        return f"uint16_t(float_to_bf16({text}))"
    return f"uint8_t({text})" if kind.element == "i1" else text


def zero_of(kind: Type) -> str:
    """Zero as a value of a type is held."""
    return "false" if kind.element == "i1" else f"{elementwise.GLSL[kind.element]}(0)"


def load(w: Writer, op: Op) -> None:
    pointer = op.operands[0]
    mask = op.operands[1] if len(op.operands) > 1 else None
    other = op.operands[2] if len(op.operands) > 2 else None
    w.reads |= _arguments(w, pointer, op)
    layout, kind = _layout(w, op), op.result.type
    address, size = w.access(pointer, layout), kind.bytes
    condition = w.access(mask, layout) if mask is not None else None
    zero = zero_of(kind)
    instead = w.access(other, layout) if other is not None else lambda r: zero
    coherent = _is_shared(w, pointer)
    run = _run(w, pointer, mask, layout)
    if run * kind.bytes < 4:
        run = 1  # of two bytes no word is made
    condition = guarded(w, op, condition, address, run * size)
    if kind.bytes < 4 and run * kind.bytes >= 4:
        kept = _load_packed(w, kind, layout, run, address, condition, instead, coherent)
        w.bind(op.result, kept, layout)
        return
    result = w.array(kind, layout, "x")
    if run == 1:
        name = _reference(w, _PLAIN[kind.element], size, coherent)

        def lines(r: str) -> list[str]:
            text = f"{result(r)} = {_loaded(kind, f'{name}({address(r)}).v')};"
            if condition is None:
                return [text]
            return [f"if ({condition(r)}) {text} else {result(r)} = {instead(r)};"]

        w.each(layout.count, lines)
    else:
        _load_wide(w, kind, layout, run, address, condition, instead, result, coherent)
    w.bind(op.result, result, layout)


@dataclass(frozen=True)
class Packed:
    """Elements of less than 32 bits by a register's number, kept in the words in which they were loaded.

    Attributes
    ----------
    name : str
        Of an array of words.
    kind : Type
        Of an element.
    """

    name: str
    kind: Type

    def __call__(self, r: str) -> str:
        per = 4 // self.kind.bytes
        if r.isdigit():
            word, shift = f"{self.name}[{int(r) // per}]", str(int(r) % per * 8 * self.kind.bytes)
        else:
            word, shift = f"{self.name}[({r}) >> {log2(per)}]", f"((({r}) & {per - 1}) * {8 * self.kind.bytes})"
        if self.kind.element == "bf16":
            return f"bf16_to_float(bitfieldExtract({word}, {shift}, 16))"
        back = elementwise.WORDS[self.kind.element][1]
        return back.format(f"bitfieldExtract({word}, {shift}, {8 * self.kind.bytes})")


def words_of(kind: Type, access: Access, first: int, count: int) -> list[str]:
    """Registers `first` to `first + count` as words of an access, those of one word or less in a word's low bits."""
    if isinstance(access, Packed) and first * kind.bytes % 4 == 0 and count * kind.bytes >= 4:
        at = first * kind.bytes // 4
        return [f"{access.name}[{at + i}]" for i in range(count * kind.bytes // 4)]
    return packed_words(kind, [access(str(first + i)) for i in range(count)])


def _load_packed(
    w: Writer, kind: Type, layout: Layout, run: int, address: Access, condition: Access | None, instead: Access,
    coherent: bool,
) -> Packed:  # fmt: skip
    """As `_load_wide`; the words are kept."""
    size = run * kind.bytes
    name, words = _reference(w, _WORDS[size], size, coherent), w.name("x")
    per = size // 4
    w.out(f"uint {words}[{layout.count * kind.bytes // 4}];")
    for first in range(0, layout.count, run):
        at = first * kind.bytes // 4
        parts = ["words_"] if per == 1 else [f"words_[{i}]" for i in range(per)]
        take = [f"{words}[{at + i}] = {part};" for i, part in enumerate(parts)]
        loaded = f"const {_WORDS[size]} words_ = {name}({address(str(first))}).v;"
        own = packed_words(kind, [instead(str(first + i)) for i in range(run)])
        without = [f"{words}[{at + i}] = {text};" for i, text in enumerate(own)]
        w.lines += _taken(condition, first, [loaded, *take], without)
    return Packed(words, kind)


def _taken(condition: Access | None, first: int, lines: list[str], without: list[str]) -> list[str]:
    """Lines of an access from register `first` on, and what there is instead where its mask says no."""
    if condition is None:
        return ["{", *lines, "}"]
    return [f"if ({condition(str(first))}) {{", *lines, "} else {", *without, "}"]


def _load_wide(
    w: Writer, kind: Type, layout: Layout, run: int, address: Access, condition: Access | None, instead: Access,
    result: Access, coherent: bool,
) -> None:  # fmt: skip
    """Registers r to r + run by one access."""
    size = run * kind.bytes
    name = _reference(w, _WORDS[size], size, coherent)

    for first in range(0, layout.count, run):
        loaded = f"{_WORDS[size]} words_ = {name}({address(str(first))}).v;"
        take = [f"{result(str(first + i))} = {_unpacked(kind, 'words_', i, kind.bytes)};" for i in range(run)]
        without = [f"{result(str(first + i))} = {instead(str(first + i))};" for i in range(run)]
        w.lines += _taken(condition, first, [loaded, *take], without)


def store(w: Writer, op: Op) -> None:
    pointer, value = op.operands[:2]
    mask = op.operands[2] if len(op.operands) > 2 else None
    w.writes |= _arguments(w, pointer, op)
    layout, kind = _layout(w, op), pointer.type.loaded()
    address, text = w.access(pointer, layout), w.access(value, layout)
    condition = w.access(mask, layout) if mask is not None else None
    coherent = _is_shared(w, pointer)
    once = w.only_once(layout)
    run = _run(w, pointer, mask, layout)
    condition = guarded(w, op, condition, address, run * kind.bytes)
    with w.block(once):
        if run == 1:
            name = _reference(w, _PLAIN[kind.element], kind.bytes, coherent)

            def lines(r: str) -> list[str]:
                guard = f"if ({condition(r)}) " if condition is not None else ""
                return [f"{guard}{name}({address(r)}).v = {_stored(kind, text(r))};"]

            w.each(layout.count, lines)
        else:
            _store_wide(w, kind, layout, run, address, condition, text, coherent)
    if coherent:
        w.out(FENCE)
        w.barrier()


def _store_wide(
    w: Writer, kind: Type, layout: Layout, run: int, address: Access, condition: Access | None, text: Access,
    coherent: bool,
) -> None:  # fmt: skip
    size = run * kind.bytes
    name = _reference(w, _WORDS[size], size, coherent)
    for first in range(0, layout.count, run):
        guard = f"if ({condition(str(first))}) " if condition is not None else ""
        words = packed(kind, words_of(kind, text, first, run), run)
        w.out(f"{guard}{name}({address(str(first))}).v = {words};")


def packed_words(kind: Type, elements: list[str]) -> list[str]:
    """Elements as words; those of 64 bits as pairs."""
    to = elementwise.WORDS[kind.element][0]
    size = kind.bytes
    if kind.element == "bf16":
        elements = [f"float_to_bf16({text})" for text in elements]
    elif size < 4:
        mask = 0xFF if size == 1 else 0xFFFF
        elements = [f"({to.format(text)} & {mask}u)" for text in elements]
    else:
        elements = [to.format(text) for text in elements]
    per = max(1, 4 // size)
    return [
        " | ".join(f"({text} << {8 * size * i})" if i else text for i, text in enumerate(elements[at : at + per]))
        for at in range(0, len(elements), per)
    ]


def packed(kind: Type, words: list[str], count: int) -> str:
    """Words as what one access stores of `count` elements."""
    total = count * kind.bytes
    if total < 4:
        return f"{_WORDS[total]}({words[0]})"
    return words[0] if total == 4 else f"{_WORDS[total]}({', '.join(words)})"


# Atomic operations.

_NAMES = {"add": "atomicAdd", "and": "atomicAnd", "or": "atomicOr", "xor": "atomicXor", "exch": "atomicExchange",
          "max": "atomicMax", "min": "atomicMin", "umax": "atomicMax", "umin": "atomicMin"}  # fmt: skip


def _atomic_reference(w: Writer, kind: str) -> str:
    return _reference(w, kind, 4, True)


def _atomic_function(w: Writer, op: Op, word: str, kind: Type) -> str:
    """A function (address, value) that gives what was there before."""
    if word == "fadd":
        return _float_add(w, op, kind)
    if kind.element == "f32" and word == "exch":
        name = _atomic_reference(w, "uint")
        text = f"uintBitsToFloat(atomicExchange({name}(address).v, floatBitsToUint(x)))"
    elif kind.element == "i32" and word in _NAMES:
        glsl = elementwise.GLSL[kind.element]
        own = elementwise.UNSIGNED[kind.element] if word[0] == "u" else glsl
        name = _atomic_reference(w, own)
        text = f"{glsl}({_NAMES[word]}({name}(address).v, {own}(x)))"
    else:
        raise op.unsupported(f"the atomic operation {word} of {kind.element}")
    glsl = elementwise.GLSL[kind.element]
    name = f"atomic_{word}_{kind.element}"
    w.define(f"{glsl} {name}(uint64_t address, {glsl} x) {{ return {text}; }}")
    return name


def _float_add(w: Writer, op: Op, kind: Type) -> str:
    glsl = elementwise.GLSL[kind.element]
    if kind.element == "f32" and w.device.float32_atomic_add:
        w.extensions.add("GL_EXT_shader_atomic_float")
        name = _atomic_reference(w, "float")
        body = f"return atomicAdd({name}(address).v, x);"
    elif kind.element == "f32":
        name = _atomic_reference(w, "uint")
        body = (
            f"uint seen = {name}(address).v; for (;;) {{ const uint found = atomicCompSwap({name}(address).v, "
            f"seen, floatBitsToUint(uintBitsToFloat(seen) + x)); if (found == seen) return uintBitsToFloat(seen); "
            f"seen = found; }}"
        )
    elif kind.element in ("f16", "bf16"):
        name = _atomic_reference(w, "uint")
        half = kind.element == "f16"
        value = "float(uint16BitsToFloat16(uint16_t(bits)))" if half else "bf16_to_float(bits)"
        code = "float_to_f16" if half else "float_to_bf16"
        given, back = ("float(x)", "uint16BitsToFloat16(uint16_t(bits))") if half else ("x", "bf16_to_float(bits)")
        body = (
            f"const uint64_t word = address & ~uint64_t(3); const int shift = int(address & uint64_t(2)) * 8; "
            f"uint seen = {name}(word).v; for (;;) {{ const uint bits = bitfieldExtract(seen, shift, 16); "
            f"const uint next = bitfieldInsert(seen, {code}({value} + {given}), shift, 16); "
            f"const uint found = atomicCompSwap({name}(word).v, seen, next); if (found == seen) return {back}; "
            f"seen = found; }}"
        )
    else:
        raise op.unsupported(f"the atomic sum of {kind.element}")
    name = f"atomic_fadd_{kind.element}"
    w.define(f"{glsl} {name}(uint64_t address, {glsl} x) {{ {body} }}")
    return name


def _run_atomic(w: Writer, op: Op, call, mask: Value | None) -> None:
    """Each element once, its old value for all who hold it, in order with the workgroup's other accesses."""
    pointer, kind = op.operands[0], op.result.type
    arguments = _arguments(w, pointer, op)
    w.reads |= arguments
    w.writes |= arguments
    layout = _layout(w, op)
    condition = w.access(mask, layout) if mask is not None else None
    condition = guarded(w, op, condition, w.access(pointer, layout), kind.bytes)
    ordered = "relaxed" not in op.text
    if ordered:
        w.out(FENCE)
        w.barrier()
    zero = zero_of(kind)
    result = w.array(kind, layout, "a") if w.uses(op.result) else None

    def lines(r: str) -> list[str]:
        text = f"{result(r)} = {call(r, layout)};" if result is not None else f"{call(r, layout)};"
        guarded = f"if ({condition(r)}) {text}" if condition is not None else text
        return [f"{result(r)} = {zero};", guarded] if result is not None else [guarded]

    with w.block(w.only_once(layout)):
        w.each(layout.count, lines)
    if ordered:
        w.out(FENCE)
        w.barrier()
    if result is None:
        return
    if layout == SCALAR:
        w.bind_scalar(op.result, _told(w, kind, result("0")))
    elif layout.replica_mask:
        w.bind(op.result, w.moved(kind, result, layout, layout), layout)
    else:
        w.bind(op.result, result, layout)


def _told(w: Writer, kind: Type, text: str) -> str:
    """A scalar of invocation 0, for all."""
    w.need_words(2)
    w.barrier()
    with w.block("if (tid == 0)"):
        w.lines += w.store_words(kind, "0", text, 1)
    w.barrier()
    name = w.name("s")
    w.out(f"const {elementwise.GLSL[kind.element]} {name} = {w.load_words(kind, '0', 1)};")
    w.barrier()
    return name


def atomic_rmw(w: Writer, op: Op) -> None:
    word = op.text.split(",")[0].strip()
    pointer, value = op.operands[:2]
    mask = op.operands[2] if len(op.operands) > 2 else None
    function = _atomic_function(w, op, word, pointer.type.loaded())

    def call(r: str, layout: Layout) -> str:
        return f"{function}({w.access(pointer, layout)(r)}, {w.access(value, layout)(r)})"

    _run_atomic(w, op, call, mask)


def atomic_cas(w: Writer, op: Op) -> None:
    pointer, compare, value = op.operands[:3]
    kind = pointer.type.loaded()
    if kind.element != "i32":
        raise op.unsupported(f"compare and swap of {kind.element}")
    name = _atomic_reference(w, "int")

    def call(r: str, layout: Layout) -> str:
        texts = [w.access(v, layout)(r) for v in (pointer, compare, value)]
        return f"atomicCompSwap({name}({texts[0]}).v, {texts[1]}, {texts[2]})"

    _run_atomic(w, op, call, None)


EMITTERS = {"tt.load": load, "tt.store": store, "tt.atomic_rmw": atomic_rmw, "tt.atomic_cas": atomic_cas}
