"""Shared by the forms that walk along the element axis: the text of one element, and of a vector of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import torch

from torch_aule.compile.codegen.forms.form import Form
from torch_aule.compile.codegen.statements import Access, Statement
from torch_aule.compile.codegen.types import STORAGE, compute_type
from torch_aule.compile.codegen.unroll import loop_head
from torch_aule.compile.codegen.writer import Writer

__all__ = ["ElementForm"]


class ElementForm(Form):
    """A form whose invocations take the elements one by one or by vectors."""

    packs_bfloat16: ClassVar[bool] = True  # a vector's results together, once all are known

    # -- for the forms to say otherwise

    def statement(self, writer: Writer, s: Statement, depth: int) -> None:
        """A statement of an element."""
        writer.statement(s, depth)

    def row_statements(self, writer: Writer, stage: int, depth: int) -> None:
        """The statements of a stage that do not depend on the element."""
        for s in self.facts.statements:
            if s.stage == stage and not s.per_element:
                writer.statement(s, depth)

    def element_statements(self, stage: int) -> list[Statement]:
        """The statements of a stage that depend on the element."""
        return [s for s in self.facts.statements if s.stage == stage and s.per_element]

    def entries_of(self, used: set[str]) -> list[Any]:
        """Entries that elements need."""
        return [e for e in self.facts.element_entries if e.name in used]

    def is_vector(self, s: Statement, access: Access, varying: set[str]) -> bool:
        """True if a vector's elements of an access are one vector in memory."""
        return s.mask is None and self.is_dense(access)

    def is_dense(self, access: Access) -> bool:
        """True if a vector's elements of an access are one aligned vector."""
        return self.facts.is_dense(access, self.work.vec)

    def load_words(self, writer: Writer, access: Access, address: str) -> str:
        """The text that loads a vector."""
        return f"load_words({address}, {self.work.vec * access.dtype.itemsize})"

    def store_words(self, access: Access, address: str, words: str) -> str:
        """The text that stores a vector."""
        return f"store_words({address}, {self.work.vec * access.dtype.itemsize}, {words});"

    def fetch(self, writer: Writer, statements: list[Statement], stage: int, depth: int, slot: str) -> None:
        """Elements' variables of earlier stages, which are in `slot`; pointwise kernels have none."""

    def keep(self, writer: Writer, s: Statement, depth: int, slot: str) -> None:
        """An element's variable that a later stage uses goes to `slot`."""

    # -- one element

    def one(self, writer: Writer, depth: int, base: str, stage: int = 0, item: str = "0") -> None:
        """The statements of the element at `base`."""
        statements = self.element_statements(stage)
        for entry in self.entries_of(_used(statements)):
            writer.entry(depth, entry, base)
        writer.line(depth, f"const {self.facts.index} {self.facts.prefix}index = {base};")
        slot = f"[{item}]"
        self.fetch(writer, statements, stage, depth, slot)
        for s in statements:
            self.statement(writer, s, depth)
            self.keep(writer, s, depth, slot)

    # -- a vector

    def elements(self, writer: Writer, depth: int, base: str, stage: int = 0, item: str = "0") -> None:
        """The statements of the vector that begins at `base`, or of one element in a kernel without vectors."""
        vec, facts = self.work.vec, self.facts
        if vec == 1:
            self.one(writer, depth, base, stage, item)
            return
        statements = self.element_statements(stage)
        uniform, apart = self._split(statements)
        entries = self.entries_of(_used(statements))
        for entry in entries:
            writer.entry(depth, entry, base, f"{entry.name}_base" if entry.name in facts.inner else "")
        for s in uniform:
            self.statement(writer, s, depth)
        loads, stores = self._vector_accesses(apart)
        words = {id(s): f"w{stage}_{number}" for number, s in enumerate(loads)}
        words |= {id(s): f"o{stage}_{number}" for number, s in enumerate(stores)}
        for s in loads:
            self._load(writer, s, words[id(s)], depth)
        for s in stores:
            name = words[id(s)]
            writer.line(depth, f"float {name}_values[{vec}];" if self._packs_together(s) else f"Words {name};")
        several = [s.reduction for s in apart if s.reduction is not None and s.reduction.take_several]
        for r in several:
            writer.line(depth, f"{compute_type(r.dtypes[0])} {r.names[0]}_values[{vec}];")
        writer.line(depth, loop_head("v", vec))
        writer.line(depth + 1, f"const {facts.index} {facts.prefix}index = {base} + v;")
        for entry in entries:
            if entry.name in facts.inner:
                writer.line(depth + 1, f"const {facts.index} {entry.name} = {entry.name}_base + v;")
        slot = f"[{item} * {vec} + v]"
        self.fetch(writer, statements, stage, depth + 1, slot)
        for s in apart:
            self._element_of_vector(writer, s, words.get(id(s), ""), depth + 1)
            self.keep(writer, s, depth + 1, slot)
        writer.line(depth, "}")
        for r in several:
            writer.line(depth, r.take_several([f"{r.names[0]}_values[{v}]" for v in range(vec)]))
        for s in stores:
            self._store(writer, s, words[id(s)], depth)

    def _element_of_vector(self, writer: Writer, s: Statement, words: str, depth: int) -> None:
        """A statement of element v; `words` names the vector that it reads or writes, if there is one."""
        if words and s.load is not None:
            value = f"AULE_UNPACK_{STORAGE[s.load.dtype][0]}({words}, v)"
            self.statement(writer, replace(s, load=None, text=value), depth)
        elif words and self._packs_together(s):
            writer.line(depth, f"{words}_values[v] = {s.text};")
        elif words:
            writer.line(depth, f"AULE_PACK_{STORAGE[s.store.dtype][0]}({words}, v, {s.text});")
        elif s.reduction is not None and s.reduction.take_several:
            writer.line(depth, f"{s.reduction.names[0]}_values[v] = {s.reduction.value};")
        else:
            self.statement(writer, s, depth)

    def _load(self, writer: Writer, s: Statement, name: str, depth: int) -> None:
        words = self.load_words(writer, s.load, self._address(s.load))
        if s.mask is not None:
            writer.line(depth, f"Words {name};")
            writer.line(depth, f"if ({s.mask}) {name} = {words};")
            return
        writer.line(depth, f"const Words {name} = {words};")

    def _store(self, writer: Writer, s: Statement, name: str, depth: int) -> None:
        words = f"pack_bf16({name}_values)" if self._packs_together(s) else name
        writer.line(depth, self.store_words(s.store, self._address(s.store), words))

    def _packs_together(self, s: Statement) -> bool:
        return s.store.dtype == torch.bfloat16 and self.packs_bfloat16

    def _address(self, access: Access) -> str:
        """Of the first element of a vector."""
        text = access.index_text
        for name in self.facts.inner:
            text = re.sub(rf"\b{name}\b", f"{name}_base", text)
        return f"p.{access.argument} + uint64_t({text}) * {access.dtype.itemsize}ul"

    def _split(self, statements: list[Statement]) -> tuple[list[Statement], list[Statement]]:
        """The statements that are the same for all elements of a vector, and the rest."""
        kept = self.facts.kept
        varying = {f"{self.facts.prefix}index", *self.facts.inner, *kept}
        uniform, apart = [], []
        for s in statements:
            same = s.reduction is None and s.store is None and s.uses.isdisjoint(varying) and s.defines not in kept
            (uniform if same else apart).append(s)
            if not same and s.defines is not None:
                varying.add(s.defines)
        return uniform, apart

    def _vector_accesses(self, apart: list[Statement]) -> tuple[list[Statement], list[Statement]]:
        """Loads and stores that are vectors."""
        varying = {s.defines for s in apart if s.defines is not None} | set(self.facts.kept)
        found: list[Statement] = []
        for s in apart:
            access = s.load or s.store
            if access is None or s.atomic or not self.is_vector(s, access, varying):
                continue
            if varying.isdisjoint(re.findall(r"\w+", access.index_text)):
                found.append(s)
        # A store that a load of the same buffer follows must be done by then, and that load comes after it.
        dropped: set[int] = set()
        for i, s in enumerate(apart):
            if s.store is not None:
                later = [o for o in apart[i + 1 :] if o.load is not None and o.load.argument == s.store.argument]
                if later:
                    dropped |= {id(s), *map(id, later)}
        found = [s for s in found if id(s) not in dropped]
        return [s for s in found if s.load is not None], [s for s in found if s.store is not None]


def _used(statements: Iterable[Statement]) -> set[str]:
    return set().union(*(s.uses for s in statements))
