"""Writes a kernel's GLSL: where values are, how they are named, and elements of blocks as text. Pure.

A block's element is asked for by `access`, which gives a function from a register's number, as text, to an expression.
What happens once and cheaply is an expression where it is used; the rest are arrays of registers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch_aule.triton import elementwise
from torch_aule.triton.facts import Facts
from torch_aule.triton.ir import Function, Op, Type, Unsupported, Value
from torch_aule.triton.layout import SCALAR, Layout, blocked, log2, picked_bits
from torch_aule.triton.matrices import Matrix
from torch_aule.triton.places import Layouts, is_elementwise, wanted

__all__ = ["Access", "Device", "Registers", "Writer"]

Access = Callable[[str], str]
_CHEAP = 2  # operations that are written again at each use rather than kept


@dataclass(frozen=True)
class Device:
    """The options on which a kernel's text depends.

    Attributes
    ----------
    subgroup : int
        Invocations of a subgroup; 0 if they cannot exchange values.
    shared_bytes : int
        Of a workgroup.
    threads : int
        Most invocations of a workgroup.
    float32_atomic_add : bool
        Of memory.
    matrices : tuple of Matrix
        Cooperative matrices whose layouts are known.
    """

    subgroup: int = 32
    shared_bytes: int = 16384
    threads: int = 1024
    float32_atomic_add: bool = False
    matrices: tuple[Matrix, ...] = ()


@dataclass(frozen=True)
class Registers:
    """Elements of a block by a register's number.

    Attributes
    ----------
    name : str
        Of an array, or of a variable if there is one register.
    count : int
        Registers.
    of_matrix : int
        Bits of a register's number that count within a cooperative matrix; 0: there is none.
    """

    name: str
    count: int
    of_matrix: int = 0

    def __call__(self, r: str) -> str:
        if self.of_matrix:
            if r.isdigit():
                return f"{self.name}[{int(r) >> self.of_matrix}][{int(r) & (1 << self.of_matrix) - 1}]"
            return f"{self.name}[({r}) >> {self.of_matrix}][({r}) & {(1 << self.of_matrix) - 1}]"
        return f"{self.name}[{r}]" if self.count > 1 else self.name


@dataclass
class Scope:
    """Names that are visible in a block of GLSL."""

    scalars: dict[Value, str] = field(default_factory=dict)
    blocks: dict[tuple[Value, Layout], Access] = field(default_factory=dict)
    staged: dict = field(default_factory=dict)  # operands of products in shared memory (products.Staged)


class Writer:
    """The text of a kernel as it grows.

    Attributes
    ----------
    lines : list of str
        Of main(), or of a function that is being written.
    functions : list of str
        Before main().
    words : int
        32-bit words of shared memory that values pass through.
    """

    def __init__(
        self,
        function: Function,
        facts: dict[Value, Facts],
        layouts: Layouts,
        pointers: dict,
        device: Device,
        threads: int,
    ):
        self.function, self.facts, self.layouts = function, facts, layouts
        self.pointers, self.device, self.threads = pointers, device, threads
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.head: list[str] = []  # what main() begins with
        self.words = 0
        self.arrays: dict[str, int] = {}  # shared memory beside, elements by GLSL type and name
        self.scopes = [Scope()]
        self.used = 0
        self.reads: set[Value] = set()
        self.writes: set[Value] = set()
        self.parts: dict[tuple[Layout, int], str] = {}
        self.references: dict[str, str] = {}
        self.asserts = False
        self.check_bounds = False
        self.sites: list[str] = []  # texts of checks that the kernel makes
        self.exchanged: frozenset[Value] = frozenset()  # arguments whose memory is read and written
        self.extensions: set[str] = set()
        self.matrices: dict[Layout, Matrix] = {}  # layouts of accumulators
        self.parents = {id(op): block for block in self._blocks() for op in block.ops}

    def _blocks(self):
        yield from self.function.blocks.values()
        for op in self.function.walk():
            yield from op.regions

    # Text.

    def out(self, text: str) -> None:
        self.lines.append(text)

    def name(self, prefix: str = "v") -> str:
        self.used += 1
        return f"{prefix}{self.used}"

    def define(self, function: str) -> None:
        """Writes a function before main(), once."""
        if function not in self.functions:
            self.functions.append(function)

    def barrier(self) -> None:
        if self.lines and self.lines[-1] == "barrier();":
            return
        self.out("barrier();")

    @contextmanager
    def block(self, head: str, end: str = "}"):
        """Lines in braces; what is declared in them is forgotten behind."""
        self.out(f"{head} {{")
        self.scopes.append(Scope())
        yield
        self.scopes.pop()
        self.out(end)

    def each(self, count: int, body: Callable[[str], list[str]]) -> None:
        """For each register of an invocation."""
        if count == 1:
            self.lines += body("0")
            return
        self.out(f"[[unroll]] for (int r = 0; r < {count}; ++r) {{")
        self.lines += body("r")
        self.out("}")

    # Values.

    def array(self, kind: Type, layout: Layout, prefix: str = "v") -> Registers:
        """Declares registers of a block; sums of products, and float32 where they are, are matrices."""
        name, count = self.name(prefix), layout.count
        matrix = self.matrices.get(layout) if kind.element == "f32" else None
        if matrix is not None:
            bits = len(matrix.elements)
            self.out(f"{matrix.glsl('Accumulator')} {name}[{count >> bits}];")
            return Registers(name, count, bits)
        self.out(f"{elementwise.GLSL[kind.element]} {name}{f'[{count}]' if count > 1 else ''};")
        return Registers(name, count)

    def bind(self, value: Value, access: Access, layout: Layout = SCALAR) -> None:
        """From here on, in this block of GLSL, `value` is there."""
        if value.type.shape:
            self.scopes[-1].blocks[value, layout] = access
        else:
            self.scopes[-1].scalars[value] = access("0")

    def bind_scalar(self, value: Value, text: str) -> None:
        """As `bind`, of a scalar."""
        self.scopes[-1].scalars[value] = text

    def scalar(self, value: Value) -> str:
        for scope in reversed(self.scopes):
            if value in scope.scalars:
                return scope.scalars[value]
        if value.op is not None and value.op.name == "arith.constant":
            return str(elementwise.constant(value.op))
        raise Unsupported(f"{value.name}: a value from outside of its region is not served on aule")

    def home(self, value: Value) -> Layout:
        """The layout in which a value is held; of a free one, a usual one."""
        if not value.type.shape:
            return SCALAR
        return self.layouts.of.get(value) or blocked(value.type.shape, self.threads)

    def coordinate(self, layout: Layout, axis: int, r: str) -> str:
        """The coordinate of a register's element along an axis."""
        part = self.thread_part(layout, axis)
        own = layout.register_part(axis, r)
        if own in ("", "0"):
            return part
        return own if part == "0" else f"({part} + ({own}))"

    def thread_part(self, layout: Layout, axis: int) -> str:
        key = layout, axis
        if key not in self.parts:
            text = layout.thread_part(axis)
            if text in ("", "0"):
                self.parts[key] = "0"
            else:
                self.parts[key] = self.name("at")
                self.head.append(f"const int {self.parts[key]} = {text};")
        return self.parts[key]

    def flat(self, layout: Layout, r: str) -> str:
        """The row-major index of a register's element."""
        return layout.flat(r, [self.thread_part(layout, axis) for axis in range(len(layout.shape))])

    def access(self, value: Value, layout: Layout) -> Access:
        """Elements of a value where `layout` has them; of a scalar, the scalar.

        Moves or computes what is not there.
        """
        if not value.type.shape:
            text = self.scalar(value)
            return lambda r: text
        for scope in reversed(self.scopes):
            if (value, layout) in scope.blocks:
                return scope.blocks[value, layout]
        if value in self.layouts.free:
            return self._free(value, layout)
        own = self.home(value)
        source = self.access(value, own) if own != layout else None
        if source is None:
            raise Unsupported(f"{value.name} is used before it is there, which is not served on aule")
        if own.threads == layout.threads and set(own.registers) == set(layout.registers):
            return lambda r: source(layout.register_of(own, r))
        moved = self.moved(value.type, source, own, layout)
        self.bind(value, moved, layout)
        return moved

    def _free(self, value: Value, layout: Layout) -> Access:
        access, cost = self._computed(value, layout)
        if cost <= _CHEAP or self.uses(value) < 2:
            return access
        kept = self.array(value.type, layout, "f")
        self.each(layout.count, lambda r: [f"{kept(r)} = {access(r)};"])
        self.bind(value, kept, layout)
        return kept

    def uses(self, value: Value) -> int:
        return sum(op.operands.count(value) for op in set(value.users))

    def _computed(self, value: Value, layout: Layout) -> tuple[Access, int]:
        """A free value's elements as expressions, and how many operations they are."""
        op = value.made_by
        if op.name == "arith.constant":
            return self._constant(op, layout), 0
        if op.name == "tt.make_range":
            start = op.number("start")
            add = f" + {start}" if start else ""
            return (lambda r: f"({self.coordinate(layout, 0, r)}{add})"), 0
        if op.name == "tt.splat":
            return self.access(op.operands[0], SCALAR), 0
        if is_elementwise(op):
            return self.combined(op, layout), 1 + sum(
                self._cost(operand, layout) for operand in op.operands if operand.type.shape
            )
        inner = self.wanted(op, layout)
        source = self.access(op.operands[0], inner)
        cost = self._cost(op.operands[0], inner)
        return self.reindexed(op, source, layout), cost

    def _cost(self, value: Value, layout: Layout) -> int:
        for scope in self.scopes:
            if (value, layout) in scope.blocks:
                return 0
        op = value.op
        if op is None or value not in self.layouts.free or op.name in ("arith.constant", "tt.make_range", "tt.splat"):
            return 0
        inner = layout if is_elementwise(op) else self.wanted(op, layout)
        own = [self._cost(operand, inner) for operand in op.operands if operand.type.shape]
        return sum(own) + is_elementwise(op)

    @staticmethod
    def wanted(op: Op, layout: Layout) -> Layout:
        """From where an operation's operand gives the result there, without moves."""
        found = wanted(op, layout)
        if found is None:
            raise op.unsupported()
        return found

    def _constant(self, op: Op, layout: Layout) -> Access:
        text = elementwise.constant(op)
        if isinstance(text, str):
            return lambda r: text
        name = self.name("table")
        kind = elementwise.GLSL[op.result.type.element]
        self.functions.append(f"const {kind} {name}[{len(text)}] = {kind}[]({', '.join(text)});")
        return lambda r: f"{name}[{self.flat(layout, r)}]"

    def combined(self, op: Op, layout: Layout) -> Access:
        """An elementwise operation as an expression."""
        operands = [self.access(operand, layout) for operand in op.operands]
        return lambda r: elementwise.expression(op, [operand(r) for operand in operands])

    def reindexed(self, op: Op, source: Access, layout: Layout) -> Access:
        """Of a broadcast, a transposition, a reshape: the operand's element that is the result's."""
        if op.name != "tt.broadcast":
            return source
        small = op.operands[0].type.shape
        kept = [i for i, bit in enumerate(layout.registers) if small[bit[0]] > 1]
        if len(kept) == len(layout.registers):
            return source
        return lambda r: source(picked_bits(r, [(place, i) for i, place in enumerate(kept)]))

    # Moves.

    def word_texts(self, kind: Type) -> tuple[int, str, str]:
        """Words of an element, and the templates that give and take them."""
        to, back = elementwise.WORDS[kind.element]
        return (2 if kind.bytes == 8 else 1), to, back

    def store_words(self, kind: Type, at: str, text: str, step: int) -> list[str]:
        """Lines that put an element into shared memory; the second word is `step` words further on."""
        words, to, _ = self.word_texts(kind)
        if words == 1:
            return [f"words[{at}] = {to.format(text)};"]
        return [f"{{ const uvec2 two = {to.format(text)}; words[{at}] = two.x; words[{at} + {step}] = two.y; }}"]

    def load_words(self, kind: Type, at: str, step: int) -> str:
        words, _, back = self.word_texts(kind)
        return back.format(f"words[{at}]" if words == 1 else f"uvec2(words[{at}], words[{at} + {step}])")

    def need_words(self, count: int) -> None:
        self.words = max(self.words, count)

    @staticmethod
    def padded(index: str) -> str:
        """With a word more after each 32, so that columns are in different banks."""
        return f"spread({index})"

    def moved(
        self,
        kind: Type,
        source: Access,
        have: Layout,
        want: Layout,
        take: Callable[[str], str] | None = None,
        put: Callable[[str], str] | None = None,
    ) -> Access:
        """Through shared memory to other invocations.

        `take` and `put` change the index of an element where it is read and written.
        """
        total = math.prod(have.shape)
        words = self.word_texts(kind)[0]
        piece = total
        while (piece + piece // 32) * words * 4 > self.device.shared_bytes // 2 and piece > 1:
            piece //= 2
        step = piece + piece // 32
        self.need_words(step * words)
        result = self.array(kind, want, "m")

        def stored(part: int, r: str) -> list[str]:
            index = (put or str)(self.flat(have, r))
            return self._within(
                index, part, piece, total, lambda at: self.store_words(kind, self.padded(at), source(r), step)
            )

        def loaded(part: int, r: str) -> list[str]:
            index = (take or str)(self.flat(want, r))
            return self._within(
                index, part, piece, total, lambda at: [f"{result(r)} = {self.load_words(kind, self.padded(at), step)};"]
            )

        for part in range(total // piece):
            self.barrier()
            with self.block(self.only_once(have)):
                self.each(have.count, functools.partial(stored, part))
            self.barrier()
            self.each(want.count, functools.partial(loaded, part))
        return result

    @staticmethod
    def _within(index: str, part: int, piece: int, total: int, lines: Callable[[str], list[str]]) -> list[str]:
        """Lines for an element, if it is in a part of the block."""
        if piece == total:
            return [f"{{ const int e = {index};", *lines("e"), "}"]
        return [f"{{ const int e = {index};", f"if (e >> {log2(piece)} == {part}) {{",
                *lines(f"(e & {piece - 1})"), "} }"]  # fmt: skip

    def only_once(self, layout: Layout) -> str:
        """The condition under which an element's first holder goes on."""
        if layout == SCALAR:
            return "if (tid == 0)"
        mask = layout.replica_mask
        return f"if ((tid & {mask}) == 0)" if mask else ""

    # Operations.

    def run(self, block) -> Op:
        """Writes the operations of a block but its last one, which it gives."""
        for op in block.ops[:-1]:
            try:
                self.op(op)
            except Unsupported as error:
                raise error.at(op.place) from error.__cause__
        return block.end

    def op(self, op: Op) -> None:
        from torch_aule.triton import checks, control, exchanges, memory, products

        if op.results and op.result in self.layouts.free:
            return
        for module in (memory, control, exchanges, products, checks):
            emit = module.EMITTERS.get(op.name)
            if emit is not None:
                emit(self, op)
                return
        if not is_elementwise(op):
            raise op.unsupported()
        if op.results:
            self.emit_elementwise(op)

    def emit_elementwise(self, op: Op) -> None:
        value = op.result
        if not value.type.shape:
            name = self.name("s")
            self.out(f"const {elementwise.GLSL[value.type.element]} {name} = {self.combined(op, SCALAR)('0')};")
            self.bind_scalar(value, name)
            return
        layout = self.home(value)
        access = self.combined(op, layout)
        if self.uses(value) == 1 and self.used_here(op, layout):
            self.bind(value, access, layout)
            return
        self.keep(value, access, layout)

    def used_here(self, op: Op, layout: Layout) -> bool:
        """The only user stands in the same block, so that nothing is computed again in a loop, and wants it so."""
        (user,) = set(op.result.users)
        if self.parents.get(id(user)) is not self.parents.get(id(op)) or user.regions:
            return False
        return (
            is_elementwise(user) and bool(user.results) and self.home(user.result) == layout or user.name == "tt.store"
        )

    def keep(self, value: Value, access: Access, layout: Layout) -> Access:
        """Computes a block into registers."""
        kept = self.array(value.type, layout)
        self.each(layout.count, lambda r: [f"{kept(r)} = {access(r)};"])
        self.bind(value, kept, layout)
        return kept

    def place_result(self, value: Value, access: Access, natural: Layout) -> None:
        """Binds a result that came out in a layout, in its own one."""
        own = self.home(value)
        self.bind(value, access, natural)
        if own == natural:
            return
        if own.threads == natural.threads and set(own.registers) == set(natural.registers):
            self.bind(value, lambda r: access(own.register_of(natural, r)), own)
        else:
            self.bind(value, self.moved(value.type, access, natural, own), own)
