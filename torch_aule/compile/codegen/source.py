"""GLSL of a generated kernel: its statements (statements.py) laid out in a form (forms.py)."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace

import sympy
import torch
from torch._inductor.codegen.common import is_buffer_removed
from torch._inductor.virtualized import V

from torch_aule.compile import config
from torch_aule.compile.codegen.arithmetic import simplified
from torch_aule.compile.codegen.forms.columns import COLUMNS, has_vector_columns
from torch_aule.compile.codegen.forms.fitting import DeviceFacts, Form, pointwise_form, reduction_form
from torch_aule.compile.codegen.forms.lanes import (
    LANES,
    VEC,
    column_load_text,
    has_lane_columns,
    has_lane_rows,
    lane_blocks,
    load_text,
    row_load_text,
    store_text,
)
from torch_aule.compile.codegen.forms.odd_rows import ROW_BASE, find_odd_rows, is_row_vector, row_words
from torch_aule.compile.codegen.forms.tile import is_tiled
from torch_aule.compile.codegen.signature import head_of, params_of
from torch_aule.compile.codegen.statements import Statement, crossing, stages_of
from torch_aule.compile.codegen.types import STORAGE, compute_type
from torch_aule.compile.codegen.unroll import loop_head

__all__ = ["INCLUDES", "Definition", "define", "is_persistent", "is_read_once"]


@dataclass(frozen=True)
class Definition:
    """What the wrapper needs of a kernel.

    Attributes
    ----------
    text : str
        GLSL, without the kernel's name.
    signature : str
        A letter for each argument (torch_aule.shader.generated).
    arguments : tuple of str
        Python expressions in the order of Params, then the number of workgroups.
    head, params, body : tuple of str
        Lines of the text: those before Params, its members, those of main().
    layout : object
        What the lines were made of.
    """

    text: str
    signature: str
    arguments: tuple[str, ...]
    head: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    layout: object = None


INCLUDES = ('#include "common/params.glsl"', '#include "inductor/prelude.glsl"')


def is_persistent(kernel) -> bool:
    """True if an invocation keeps its share of a row in registers, so that a row is read once.

    Asked before the kernel's body is known; `define` then finds how many vectors that takes.
    """
    from torch._inductor.ir import ReductionHint

    from torch_aule.compile.codegen import facts

    if not kernel.features.is_reduction() or not config.persistent_reductions:
        return False
    device = facts.of_device(V.graph.get_current_device_or_throw())
    n = kernel.features.reduction_numel
    if device.software or not isinstance(n, (int, sympy.Integer)):
        return False
    outer = kernel.features.get_reduction_hint() == ReductionHint.OUTER
    return int(n) <= _most_elements(outer)


def _most_elements(outer: bool) -> int:
    """The longest row that stays in registers."""
    return 64 if outer else 8192


def is_read_once(x: torch.Tensor, dim: int) -> bool:
    """True if a reduction over `dim` of a tensor of a graph keeps its rows in registers, or should read them again."""
    from torch_aule.compile.codegen import facts

    if facts.is_software(x.device) or x.dim() == 0:  # memory costs it less than another exponential function
        return True
    n = x.shape[dim]
    return isinstance(n, int) and n <= _most_elements(dim % x.dim() != x.dim() - 1)


def _multiple(expr: sympy.Expr, of: int) -> bool:
    """True if each term of an index is known to be a multiple of `of`."""
    expr = sympy.expand(expr)
    for term in sympy.Add.make_args(expr):
        factor, rest = term.as_coeff_Mul()
        if factor.is_Integer and int(factor) % of == 0:
            continue
        if rest.free_symbols and V.graph.sizevars.statically_known_multiple_of(term, of):
            continue
        return False
    return True


class _Layout:
    """What the lines of one kernel have in common."""

    def __init__(self, kernel, device: DeviceFacts) -> None:
        self.kernel = kernel
        self.device = device
        self.body = kernel.statements
        self.prefix = kernel.element_prefix
        self.index = kernel.index_type
        self.trees = {tree.prefix: tree for tree in kernel.range_trees}
        self.entries = kernel.entries
        self.statements = [s for s in self.body.statements if s.store is None or not is_buffer_removed(s.store.buffer)]
        if not device.software:
            self.statements = simplified(self.statements)
        self._drop_unused()
        self.element_entries = [e for e in self.entries.values() if e.prefix == self.prefix]
        self.inner = {e.name for e in self.element_entries if e.divisor == 1}
        self.origin, self.peeled = sympy.Integer(0), False
        self.row_length, self.flat, self.hoisted = 0, set(), []  # of odd_rows.py
        self.vec = self._vector_width()
        if self.vec == 1 and not is_tiled(self):
            find_odd_rows(self)
        self.lanes = lane_blocks(self) if config.vectors else 0
        if self.lanes:
            self.vec = VEC
        self.lane_columns = self.lane_rows = False
        self.columns = 1  # of an invocation
        self.kept = crossing(self.statements)
        self.stages = stages_of(self.statements)
        self.form = self._form()
        self.lines: list[str] = []

    def _drop_unused(self) -> None:
        """Variables that only removed stores used."""
        used: set[str] = set()
        alive = []
        for s in reversed(self.statements):
            if s.defines is not None and s.defines not in used:
                continue
            if s.reduction is not None and used.isdisjoint(s.reduction.names):
                continue
            used |= s.uses
            alive.append(s)
        self.statements = alive[::-1]

    # -- vectors

    def step(self, index: sympy.Expr, inner: set[str]) -> sympy.Expr:
        """How far apart in memory neighbours along the entries `inner` are."""
        symbols = [s for s in index.free_symbols if s.name in inner]
        return sympy.expand(index.subs({s: s + 1 for s in symbols}, simultaneous=True) - index)

    def is_dense(self, access, vec: int) -> bool:
        """True if `vec` elements along the element axis are one aligned vector."""
        if not STORAGE[access.dtype][1] or self.step(access.index, self.inner) != 1:
            return False
        if access.buffer in V.graph.unaligned_buffers:
            return False
        return _multiple(self.first_of_row(access) - self.origin, vec)

    @staticmethod
    def is_multiple(expr: sympy.Expr, of: int) -> bool:
        """True if each term of an index is known to be a multiple of `of`."""
        return _multiple(expr, of)

    def first_of_row(self, access) -> sympy.Expr:
        """The index where the element axis begins."""
        symbols = [s for s in access.index.free_symbols if s.name in self.inner]
        return access.index.subs({s: ROW_BASE if s.name in self.flat else 0 for s in symbols})

    def _vector_width(self) -> int:
        if not config.vectors or is_tiled(self):
            return 1
        known = V.graph.sizevars.statically_known_multiple_of
        accesses = [
            a for s in self.statements if s.per_element for a in (s.load, s.store) if a is not None and not s.atomic
        ]
        for vec in (8, 4):
            if not known(self.trees[self.prefix].numel, vec):
                continue
            if not all(known(e.length if e.divisor == 1 else e.divisor, vec) for e in self.element_entries):
                continue
            dense = [a for a in accesses if self.is_dense(a, vec)]
            if dense and (vec == 4 or max(a.dtype.itemsize for a in dense) <= 2):
                return vec
        return 1

    def _peel(self) -> None:
        """Vectors for rows that begin anywhere: those between its ends, which are taken one element at a time.

        Sets `origin`, the index where a row begins in what is aligned alike.
        """
        whole = all(e.divisor == 1 and e.length == self.trees[self.prefix].numel for e in self.element_entries)
        if not config.vectors or self.device.software or self.kernel.persistent_reduction or self.kept or not whole:
            return
        rows = {e.name for e in self.entries.values() if e.prefix == "x"} | {s.name for s in self.kernel.args.sizevars}
        accesses = [
            a for s in self.statements if s.per_element and not s.atomic and s.mask is None
            for a in (s.load, s.store) if a is not None and {v.name for v in a.index.free_symbols} <= rows | self.inner
        ]  # fmt: skip
        for vec, first in itertools.product((8, 4), accesses):
            self.origin = self.first_of_row(first)
            dense = [a for a in accesses if self.is_dense(a, vec)]
            if dense and (vec == 4 or max(a.dtype.itemsize for a in dense) <= 2):
                self.vec, self.peeled = vec, True
                return
        self.origin = sympy.Integer(0)

    # -- the form

    def _hint(self, expr) -> int:
        return int(V.graph.sizevars.optimization_hint(expr, fallback=4096))

    def _form(self) -> Form:
        numel = self.trees["x"].numel
        if not self.kernel.is_reduction:
            return Form(local=LANES, vec=VEC) if self.lanes else pointwise_form(self.device, self.vec)
        n = self.trees[self.prefix].numel
        column = self._is_column()
        if column:
            self.vec = 1
            self.lane_columns = config.vectors and not self.kept and has_lane_columns(self)
            if self.lane_columns:
                return Form(local=LANES, items=int(n), column=True)
            if has_vector_columns(self):
                self.columns = COLUMNS
        elif config.vectors and not self.kept and has_lane_rows(self):
            self.lane_rows, self.vec = True, 2
            return Form(LANES, 2, LANES, int(n) // (2 * LANES), combine="subgroup")
        elif self.vec == 1:
            self._peel()
        known = isinstance(n, (int, sympy.Integer))
        loads = [s.load for s in self.statements if s.load is not None and s.per_element]
        form = reduction_form(
            self.device,
            self._hint(numel) // self.columns,
            self._hint(n),
            known=known,
            keeps=known and self.kernel.persistent_reduction,
            vec=self.vec,
            column=column,
            loops=self.stages,
            max_items=16 if self.vec == 1 else 8,
            operands=sum(self.is_dense(load, self.vec) for load in loads),
        )
        if self.kept and form.items == 0:
            # A row that Inductor counts on having at hand: held, in however many registers that takes.
            items = -(-int(n) // (form.threads * self.vec))
            form = replace(form, items=items)
        return form

    def _is_column(self) -> bool:
        """True if neighbouring rows are neighbours in memory and neighbouring elements of a row are not."""
        if self.trees["x"].numel == 1:
            return False
        rows = {e.name for e in self.entries.values() if e.prefix == "x" and e.divisor == 1}
        along_x = along_r = 0
        for s in self.statements:
            if s.load is None or not s.per_element:
                continue
            if not rows or any(symbol.name in rows for symbol in s.load.index.free_symbols):  # else one row for all
                along_r += self.step(s.load.index, self.inner) == 1
            along_x += bool(rows) and self.step(s.load.index, rows) == 1
        return along_x > along_r

    # -- lines

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def entry_text(self, entry, base: str) -> str:
        """The value of a range's entry, with `base` for the axis' index."""
        text = self.kernel.index_to_str(entry.expr)
        return re.sub(rf"\b{entry.prefix}index\b", base, text)

    def row_statements(self, stage: int, depth: int) -> None:
        for s in self.statements:
            if s.stage == stage and not s.per_element:
                self.statement(s, depth, row_store=self.kernel.is_reduction)

    def statement(self, s: Statement, depth: int, *, row_store: bool = False) -> None:
        if s.reduction is not None:
            self.line(depth, s.reduction.take)
            return
        if s.store is not None:
            guards = []
            if self.clamps_rows:
                guards.append("row_exists")
            if row_store and self.form.threads > 1:
                guards.append("lane == 0u")
            guard = f"if ({' && '.join(guards)}) " if guards else ""
            self.line(depth, guard + self.store_text(s))
            return
        if s.defines is None:
            self.line(depth, f"if (row_exists) {{ {s.text} }}" if self.clamps_rows else s.text)
            return
        kind = compute_type(s.dtype)
        if s.mask is not None:
            self.line(depth, f"{kind} {s.defines} = {s.other};")
            self.line(depth, f"if ({s.mask}) {s.defines} = {s.text};")
            return
        self.line(depth, f"{'precise ' if s.is_arithmetic else ''}{kind} {s.defines} = {s.text};")

    def store_text(self, s: Statement) -> str:
        suffix = STORAGE[s.store.dtype][0]
        macro = "AULE_ATOMIC_ADD_" if s.atomic else "AULE_STORE_"
        return f"{macro}{suffix}(p.{s.store.argument}, {s.store.index_text}, {s.text});"

    @property
    def uses_lanes(self) -> bool:
        """True for the forms of lanes.py."""
        return bool(self.lanes) or self.lane_columns or self.lane_rows

    @property
    def clamps_rows(self) -> bool:
        """True if invocations of rows past the end stay, because others of their workgroup need them at barriers."""
        return self.kernel.is_reduction and self.form.threads > 1 and self.form.rows > 1

    def elements(self, stage: int, depth: int, base: str, item: str) -> None:
        """The statements of one vector of elements (or one element) that begins at `base`."""
        done = {id(s) for s in self.hoisted}
        statements = [s for s in self.statements if s.stage == stage and s.per_element and id(s) not in done]
        later = [n for n in self.kept if any(n in s.uses and s.stage == stage for s in statements)]
        vec, inner = self.vec, self.inner
        uniform, apart = self._split(statements) if vec > 1 else ([], statements)
        used = set().union(*(s.uses for s in statements)) if statements else set()
        for entry in self.element_entries:
            if entry.name in used and (entry.name in inner or not self.row_length):
                name = f"{entry.name}_base" if vec > 1 and entry.name in inner else entry.name
                self.line(depth, f"const {self.index} {name} = {self.entry_text(entry, base)};")
        for s in uniform:
            self.statement(s, depth)
        loads, stores = {}, {}
        if vec > 1:
            loads, stores = self._vector_accesses(uniform, apart)
        for number, s in enumerate(s for s in apart if id(s) in loads):
            loads[id(s)] = f"w{stage}_{number}"
            size = s.load.dtype.itemsize
            address = f"p.{s.load.argument} + uint64_t({self.at_base(s.load.index_text)}) * {size}ul"
            words = f"load_words({address}, {vec * size})"
            if self.uses_lanes:
                words = load_text(self, s.load) if self.lanes else row_load_text(self, s.load)
            elif self.row_length:
                words = row_words(self, s.load, address)
            if s.mask is not None:
                self.line(depth, f"Words w{stage}_{number};")
                self.line(depth, f"if ({s.mask}) w{stage}_{number} = {words};")
                continue
            self.line(depth, f"const Words w{stage}_{number} = {words};")
        for number, s in enumerate(s for s in apart if id(s) in stores):
            stores[id(s)] = f"o{stage}_{number}"
            if self._packs_together(s):
                self.line(depth, f"float o{stage}_{number}_values[{vec}];")
                continue
            self.line(depth, f"Words o{stage}_{number};")
        several = [s.reduction for s in apart if vec > 1 and s.reduction is not None and s.reduction.take_several]
        for r in several:
            self.line(depth, f"{compute_type(r.dtypes[0])} {r.names[0]}_values[{vec}];")
        inside = depth
        if vec > 1:
            self.line(depth, loop_head("v", vec))
            inside += 1
        self.line(inside, f"const {self.index} {self.prefix}index = {base}{' + v' if vec > 1 else ''};")
        for entry in self.element_entries:
            if vec > 1 and entry.name in used and entry.name in inner:
                self.line(inside, f"const {self.index} {entry.name} = {entry.name}_base + v;")
        slot = f"[{item} * {vec} + v]" if vec > 1 else f"[{item}]"
        for name in later:
            if not any(s.defines == name for s in statements):
                self.line(inside, f"{compute_type(self.kept[name])} {name} = {name}_kept{slot};")
        for s in apart:
            if id(s) in loads:
                value = f"AULE_UNPACK_{STORAGE[s.load.dtype][0]}({loads[id(s)]}, v)"
                self.statement(replace(s, load=None, text=value), inside)
            elif id(s) in stores:
                suffix = STORAGE[s.store.dtype][0]
                packed = f"{stores[id(s)]}_values[v] = {s.text};"
                if not self._packs_together(s):
                    packed = f"AULE_PACK_{suffix}({stores[id(s)]}, v, {s.text});"
                self.line(inside, packed)
            elif self.lane_columns and s.load is not None:
                self.line(inside, f"const float {s.defines} = {column_load_text(self, s.load)};")
            elif s.reduction in several:
                self.line(inside, f"{s.reduction.names[0]}_values[v] = {s.reduction.value};")
            else:
                self.statement(s, inside)
            if s.defines in self.kept:
                self.line(inside, f"{s.defines}_kept{slot} = {s.defines};")
        if vec > 1:
            self.line(depth, "}")
        for r in several:
            self.line(depth, r.take_several([f"{r.names[0]}_values[{v}]" for v in range(vec)]))
        for s in apart:
            if id(s) in stores:
                if self.lanes:
                    self.line(depth, store_text(self, s.store, stores[id(s)]))
                    continue
                size = s.store.dtype.itemsize
                address = f"p.{s.store.argument} + uint64_t({self.at_base(s.store.index_text)}) * {size}ul"
                guard = "if (row_exists) " if self.clamps_rows else ""
                words = f"pack_bf16({stores[id(s)]}_values)" if self._packs_together(s) else stores[id(s)]
                self.line(depth, f"{guard}store_words({address}, {vec * size}, {words});")

    def _packs_together(self, s: Statement) -> bool:
        return s.store.dtype == torch.bfloat16 and not self.lanes

    def at_base(self, text: str) -> str:
        """An index of the first element of a vector."""
        for name in self.inner:
            text = re.sub(rf"\b{name}\b", f"{name}_base", text)
        return text

    def _split(self, statements: list[Statement]) -> tuple[list[Statement], list[Statement]]:
        """What is the same for all elements of a vector, and the rest."""
        varying = set(self.inner) | {f"{self.prefix}index"} | set(self.kept)
        uniform, apart = [], []
        for s in statements:
            same = s.reduction is None and s.store is None and s.uses.isdisjoint(varying) and s.defines not in self.kept
            (uniform if same else apart).append(s)
            if not same and s.defines is not None:
                varying.add(s.defines)
        return uniform, apart

    def _vector_accesses(self, uniform, apart) -> tuple[dict[int, str], dict[int, str]]:
        varying = {s.defines for s in apart if s.defines is not None} | set(self.kept)
        loads, stores = {}, {}
        for s in apart:
            access = s.load or s.store
            if access is None or s.atomic:
                continue
            if self.row_length and s.load is not None:
                if s.mask in varying or not is_row_vector(self, access):
                    continue
            elif s.mask is not None or not self.is_dense(access, self.vec):
                continue
            if self.lane_rows and access.dtype != torch.float32:
                continue
            if varying.isdisjoint(re.findall(r"\w+", access.index_text)):
                (loads if s.load is not None else stores)[id(s)] = ""
        # A store that a load of the same buffer follows must be done by then, and that load comes after it.
        for i, s in enumerate(apart):
            if s.store is not None:
                later = [o for o in apart[i + 1 :] if o.load is not None and o.load.argument == s.store.argument]
                if later:
                    stores.pop(id(s), None)
                for o in later:
                    loads.pop(id(o), None)
        return loads, stores


def define(kernel, device: DeviceFacts) -> Definition:
    """The GLSL of a kernel whose statements are all there, and how it is called."""
    from torch_aule.compile.codegen.main_text import groups_text, main_lines

    layout = _Layout(kernel, device)
    main_lines(layout)
    signature, arguments, params = params_of(kernel, layout)
    head = head_of(kernel, layout)
    struct = ["struct Params {", *("  " + member for member in params), "};", *INCLUDES]
    if kernel.uses_errors:
        struct.append('#include "inductor/errors.glsl"')
    if layout.uses_lanes:
        struct.append('#include "inductor/lanes.glsl"')
    text = "\n".join([*head, *struct, *layout.shared_lines, "void main() {", *layout.lines, "}", ""])
    call = (*arguments, groups_text(layout))
    return Definition(text, signature, call, tuple(head), tuple(params), tuple(layout.lines), layout)
