"""The lines of a kernel. A writer decides nothing: a form (forms/) calls it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_aule.compile.codegen.facts import KernelFacts
from torch_aule.compile.codegen.statements import Statement
from torch_aule.compile.codegen.types import STORAGE, compute_type

__all__ = ["Writer"]


class Writer:
    """Collects the lines of main() and the variables that its workgroup shares.

    Parameters
    ----------
    facts : KernelFacts
        Of the kernel.
    print_index : callable
        Gives the GLSL of an index. Sizes that it prints become arguments of the kernel.
    """

    def __init__(self, facts: KernelFacts, print_index: Callable[[Any], str]) -> None:
        self.facts = facts
        self.print_index = print_index
        self.lines: list[str] = []
        self.shared_lines: list[str] = []

    def line(self, depth: int, text: str) -> None:
        """A line of main()."""
        self.lines.append("  " * depth + text)

    def apart(self) -> Writer:
        """A writer of the same kernel with lines of its own; `add` brings them back."""
        return Writer(self.facts, self.print_index)

    def add(self, lines: Iterable[str]) -> None:
        """Lines that are indented already."""
        self.lines += lines

    def share(self, name: str, dtype: torch.dtype, *sizes: int) -> None:
        """An array in shared memory."""
        self.shared_lines.append(f"shared {compute_type(dtype)} {name}{''.join(f'[{size}]' for size in sizes)};")

    def numel(self, prefix: str) -> str:
        """The number of elements of an axis."""
        return self.print_index(self.facts.numels[prefix])

    def entry_text(self, entry: Any, base: str) -> str:
        """The value of a range's entry, with `base` for the axis' index."""
        text = self.print_index(entry.expr)
        return re.sub(rf"\b{entry.prefix}index\b", base, text)

    def entry(self, depth: int, entry: Any, base: str, name: str = "") -> None:
        """A constant for a range's entry, of its own name if no other is given."""
        self.line(depth, f"const {self.facts.index} {name or entry.name} = {self.entry_text(entry, base)};")

    def statement(self, s: Statement, depth: int, *, exists: str = "", once: str = "") -> None:
        """A statement.

        Parameters
        ----------
        s : Statement
            Not a vector's.
        depth : int
            Of the line.
        exists : str, optional
            The condition under which its row exists: guards what it does to memory.
        once : str, optional
            The condition that holds for one of the invocations that share the row: guards stores.
        """
        if s.reduction is not None:
            self.line(depth, s.reduction.take)
        elif s.store is not None:
            guards = [guard for guard in (exists, once) if guard]
            guard = f"if ({' && '.join(guards)}) " if guards else ""
            self.line(depth, guard + self.store_text(s))
        elif s.defines is None:
            self.line(depth, f"if ({exists}) {{ {s.text} }}" if exists else s.text)
        elif s.mask is not None:
            self.line(depth, f"{compute_type(s.dtype)} {s.defines} = {s.other};")
            self.line(depth, f"if ({s.mask}) {s.defines} = {s.text};")
        else:
            precise = "precise " if s.is_arithmetic else ""
            self.line(depth, f"{precise}{compute_type(s.dtype)} {s.defines} = {s.text};")

    @staticmethod
    def store_text(s: Statement) -> str:
        """The text of a store of one element."""
        suffix = STORAGE[s.store.dtype][0]
        macro = "AULE_ATOMIC_ADD_" if s.atomic else "AULE_STORE_"
        return f"{macro}{suffix}(p.{s.store.argument}, {s.store.index_text}, {s.text});"
