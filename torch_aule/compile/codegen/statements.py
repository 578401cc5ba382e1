"""The body of a generated kernel: statements in the order in which Inductor emits them, and where each of them runs.

A kernel's element axis is the reduced one, or x if nothing is reduced. A statement that depends on the position along
it runs for each element, the others once for each row. A reduction ends a stage: what uses its result runs in the next
one. So a kernel is rows' statements of stage 0, a loop over elements, rows' statements of stage 1, a loop, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sympy
import torch

__all__ = ["Access", "Body", "Reduction", "Statement", "alive", "crossing", "dtypes_of", "stages_of"]

_NAME = re.compile(r"[A-Za-z_]\w*")
_INFIX = re.compile(r"\S+( [-+*/] \S+)+")


def names_in(text: str) -> set[str]:
    """Identifiers of a piece of GLSL."""
    return set(_NAME.findall(text))


@dataclass(frozen=True)
class Access:
    """One element of a buffer, as a load or store has it."""

    buffer: str  # Inductor's name
    argument: str  # member of Params
    index: sympy.Expr
    index_text: str
    dtype: torch.dtype


@dataclass(frozen=True)
class Reduction:
    """Texts of a reduction's accumulators: they begin, take a value, take another invocation's (`{n}_other`).

    `take_several`, if there is one, gives the text that takes several values at once for less than one after another.
    """

    kind: str
    names: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    identity: tuple[str, ...]
    take: str
    combine: str
    value: str = ""  # of `take`
    take_several: Callable[[list[str]], str] | None = None


@dataclass
class Statement:
    """`defines = text`, a load, a store, a reduction, or an effect (`text` is then whole)."""

    text: str = ""
    defines: str | None = None
    dtype: torch.dtype | None = None
    load: Access | None = None
    store: Access | None = None
    atomic: bool = False
    reduction: Reduction | None = None
    mask: str | None = None
    other: str = ""  # of a masked load
    # Found by Body.
    uses: set[str] = field(default_factory=set)
    stage: int = 0
    per_element: bool = False

    def __post_init__(self) -> None:
        self.uses = names_in(self.text)
        for access in (self.load, self.store):
            if access is not None:
                self.uses |= names_in(access.index_text)
        if self.reduction is not None:
            self.uses |= names_in(self.reduction.take) - set(self.reduction.names)
        if self.mask is not None:
            self.uses |= names_in(self.mask)
        self.uses.discard(self.defines)

    @property
    def is_arithmetic(self) -> bool:
        """True for sums and products of real numbers: compilers shall not reorder them, nor take x - x for 0."""
        return self.dtype is not None and self.dtype.is_floating_point and _INFIX.fullmatch(self.text) is not None


class Body:
    """Statements, each with its stage and level from the moment that it is added."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self.element_names: set[str] = set()  # entries of the element axis, and variables that depend on them
        self.segment = 0  # loops that Inductor closed so far
        self._stage: dict[str, int] = {}
        self._last_load: dict[str, int] = {}  # argument -> stage

    def add(self, statement: Statement) -> None:
        """Append a statement."""
        s = statement
        s.stage = max([self.segment, *(self._stage.get(name, 0) for name in s.uses)])
        s.per_element = s.reduction is not None or not s.uses.isdisjoint(self.element_names)
        if s.load is not None:
            argument = s.load.argument
            self._last_load[argument] = max(s.stage, self._last_load.get(argument, 0))
        if s.store is not None:  # after the loads of what it overwrites
            s.stage = max(s.stage, self._last_load.get(s.store.argument, 0))
        if s.reduction is not None:
            for name in s.reduction.names:
                self._stage[name] = s.stage + 1
        elif s.defines is not None:
            self._stage[s.defines] = s.stage
            if s.per_element:
                self.element_names.add(s.defines)
        self.statements.append(s)


def alive(statements: Sequence[Statement]) -> list[Statement]:
    """The statements without variables that nobody uses: only stores that were removed did."""
    used: set[str] = set()
    found = []
    for s in reversed(statements):
        if s.defines is not None and s.defines not in used:
            continue
        if s.reduction is not None and used.isdisjoint(s.reduction.names):
            continue
        used |= s.uses
        found.append(s)
    return found[::-1]


def stages_of(statements: Sequence[Statement]) -> int:
    """The number of stages, with the one that uses the last reductions."""
    return 1 + max((s.stage + (s.reduction is not None) for s in statements), default=0)


def crossing(statements: Sequence[Statement]) -> dict[str, torch.dtype]:
    """Elements' variables that a later stage uses: they are kept."""
    made = {s.defines: s for s in statements if s.per_element and s.defines is not None}
    return {
        name: made[name].dtype
        for s in statements
        for name in sorted(s.uses & made.keys())
        if s.stage > made[name].stage
    }


def dtypes_of(statements: Sequence[Statement]) -> set[torch.dtype | None]:
    """Of all that is computed, loaded and stored."""
    found = {s.dtype for s in statements}
    found |= {access.dtype for s in statements for access in (s.load, s.store) if access is not None}
    return found.union(*(s.reduction.dtypes for s in statements if s.reduction is not None))
