"""Facts before code generation writes a line: those of the device, and of a kernel whose statements are there.

Both are values: forms (forms/) ask them and change nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import is_buffer_removed
from torch._inductor.virtualized import V

from torch_aule import _C
from torch_aule.compile import config
from torch_aule.compile.codegen.arithmetic import simplified
from torch_aule.compile.codegen.statements import Access, Statement, alive, crossing, dtypes_of, stages_of
from torch_aule.compile.codegen.types import STORAGE

__all__ = [
    "AT_ZERO",
    "ROW_BASE",
    "DeviceFacts",
    "KernelFacts",
    "Origin",
    "is_software",
    "is_whole",
    "matrices_of",
    "of_device",
    "override",
    "properties_of",
]

ROW_BASE = sympy.Symbol("row_base", integer=True)  # the position where a row begins, in kernels over flat tensors


@dataclass(frozen=True)
class DeviceFacts:
    """Facts of a device on which forms depend. ``max_loop_iterations`` is 0 where drivers run loops to their ends."""

    software: bool = False
    subgroup_size: int = 32
    shuffles: bool = True
    multiprocessors: int = 16
    max_workgroup_invocations: int = 1024
    max_loop_iterations: int = 0
    float32_atomic_add: bool = True
    architecture: str = "unknown"
    shared_bytes: int = 16384
    max_push_bytes: int = 128


@functools.cache
def properties_of(index: int) -> dict:
    """All properties of a device by name."""
    return torch.aule.get_device_properties(index).as_dict()


@functools.cache
def _facts(index: int) -> DeviceFacts:
    p = properties_of(index)
    return DeviceFacts(
        software=p["kind"] == "cpu",
        subgroup_size=p["min_subgroup_size"],
        shuffles=p["subgroup_shuffle"] and p["subgroup_basic"],
        multiprocessors=p["multiprocessors"],
        max_workgroup_invocations=p["max_workgroup_invocations"],
        max_loop_iterations=p["max_loop_iterations"],
        float32_atomic_add=p["float32_atomic_add"],
        architecture=p["architecture"],
        shared_bytes=p["max_shared_bytes"],
        max_push_bytes=p["max_push_constant_bytes"],
    )


_overridden: dict[str, Any] = {}


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[None]:
    """Code generation takes each device for another one meanwhile; calls may be nested.

    Parameters
    ----------
    **changes
        Fields of :class:`DeviceFacts` and their values.

    Raises
    ------
    TypeError
        If there is no such field.
    """
    global _overridden
    replace(DeviceFacts(), **changes)
    before = _overridden
    _overridden = {**before, **changes}
    try:
        yield
    finally:
        _overridden = before


def of_device(device: torch.device) -> DeviceFacts:
    """The facts of a device of type aule."""
    known = _facts(device.index or 0)
    return replace(known, **_overridden) if _overridden else known


@functools.cache
def matrices_of(index: int, dtype: torch.dtype) -> dict:
    """The layout of a device's matrices for a dtype of 16 bits; the first call asks the device."""
    return _C.matrix_layout(index, dtype == torch.bfloat16)


def is_software(device: torch.device) -> bool:
    """True if the device is the processor itself."""
    return of_device(device).software


def is_whole(*sizes: Any) -> bool:
    """True if all sizes are numbers, not symbols."""
    return all(isinstance(size, (int, sympy.Integer)) for size in sizes)


@dataclass(frozen=True)
class Origin:
    """The element from which the vectors of a row are counted.

    Attributes
    ----------
    index : sympy.Expr
        The index in memory at which a row begins.
    flat : frozenset of str
        Entries that count the elements of all rows: a row begins at ``ROW_BASE`` of them.
    """

    index: sympy.Expr = sympy.Integer(0)
    flat: frozenset[str] = frozenset()


AT_ZERO = Origin()


@dataclass(frozen=True, eq=False)
class KernelFacts:
    """Facts of a kernel from its statements, its entries and the device: all that its form depends on.

    Attributes
    ----------
    device : DeviceFacts
        The device.
    statements : tuple of Statement
        Without those whose results nobody uses.
    entries : tuple of IterationRangesEntry
        Parts of the axes' indices, as Inductor divides them.
    numels : mapping of str to sympy.Expr
        How many elements each axis has, by its prefix.
    prefix : str
        Of the element axis.
    index : str
        GLSL type of indices.
    is_reduction, persistent : bool
        Whether something is reduced, and whether Inductor counts on having a row at hand.
    uses_errors : bool
        Whether a statement reports an error.
    host_scalars : mapping of str to torch.dtype
        Members of Params that are numbers of the host.
    sizes : frozenset of str
        Symbols of sizes that are arguments.
    unaligned : frozenset of str
        Buffers that may begin anywhere.
    vectors : bool
        Whether vector accesses are allowed.
    """

    device: DeviceFacts
    statements: tuple[Statement, ...]
    entries: tuple[Any, ...]
    numels: Mapping[str, Any]
    prefix: str = "x"
    index: str = "int"
    is_reduction: bool = False
    persistent: bool = False
    uses_errors: bool = False
    host_scalars: Mapping[str, torch.dtype] = field(default_factory=dict)
    sizes: frozenset[str] = frozenset()
    unaligned: frozenset[str] = frozenset()
    vectors: bool = True

    @classmethod
    def of(cls, kernel: Any, device: DeviceFacts) -> KernelFacts:
        """The facts of a kernel whose statements are all there."""
        statements = [
            s for s in kernel.statements.statements if s.store is None or not is_buffer_removed(s.store.buffer)
        ]
        if not device.software:
            statements = simplified(statements)
        return cls(
            device=device,
            statements=tuple(alive(statements)),
            entries=tuple(kernel.entries.values()),
            numels={tree.prefix: tree.numel for tree in kernel.range_trees},
            prefix=kernel.element_prefix,
            index=kernel.index_type,
            is_reduction=kernel.is_reduction,
            persistent=kernel.persistent_reduction,
            uses_errors=kernel.uses_errors,
            host_scalars=dict(kernel.host_scalars),
            sizes=frozenset(symbol.name for symbol in kernel.args.sizevars),
            unaligned=frozenset(V.graph.unaligned_buffers),
            vectors=config.vectors,
        )

    # -- axes

    @property
    def numel(self) -> Any:
        """The number of elements of the element axis."""
        return self.numels[self.prefix]

    @property
    def is_tiled(self) -> bool:
        """True for a pointwise kernel over two axes."""
        return not self.is_reduction and "y" in self.numels

    @functools.cached_property
    def element_entries(self) -> tuple[Any, ...]:
        """Entries of the element axis."""
        return tuple(e for e in self.entries if e.prefix == self.prefix)

    @functools.cached_property
    def inner(self) -> frozenset[str]:
        """Entries that count elements one by one."""
        return frozenset(e.name for e in self.element_entries if e.divisor == 1)

    @functools.cached_property
    def row_entries(self) -> tuple[Any, ...]:
        """Entries of the axis of rows."""
        return tuple(e for e in self.entries if e.prefix == "x")

    @functools.cached_property
    def inner_rows(self) -> frozenset[str]:
        """Entries that count rows one by one."""
        return frozenset(e.name for e in self.row_entries if e.divisor == 1)

    @functools.cached_property
    def is_column(self) -> bool:
        """True if neighbouring rows are neighbours in memory and neighbouring elements of a row are not."""
        if not self.is_reduction or self.numels["x"] == 1:
            return False
        rows = self.inner_rows
        along_x = along_r = 0
        for s in self.statements:
            if s.load is None or not s.per_element:
                continue
            if not rows or any(symbol.name in rows for symbol in s.load.index.free_symbols):  # else one row for all
                along_r += self.step(s.load.index, self.inner) == 1
            along_x += bool(rows) and self.step(s.load.index, rows) == 1
        return along_x > along_r

    # -- statements

    @functools.cached_property
    def kept(self) -> dict[str, torch.dtype]:
        """Elements' variables that a later stage uses."""
        return crossing(self.statements)

    @functools.cached_property
    def stages(self) -> int:
        """The number of stages."""
        return stages_of(self.statements)

    @functools.cached_property
    def dtypes(self) -> set[torch.dtype | None]:
        """Of all that is computed, loaded, stored and given by the host."""
        return dtypes_of(self.statements) | set(self.host_scalars.values())

    @functools.cached_property
    def made(self) -> frozenset[str]:
        """Variables that statements define."""
        return frozenset(s.defines for s in self.statements if s.defines is not None)

    # -- memory

    def known_multiple(self, expr: Any, of: int) -> bool:
        """True if a size is known to be a multiple of `of`."""
        if is_whole(expr):
            return int(expr) % of == 0
        return V.graph.sizevars.statically_known_multiple_of(expr, of)

    def is_multiple(self, expr: Any, of: int) -> bool:
        """True if each term of an index is known to be a multiple of `of`."""
        expr = sympy.expand(expr)
        for term in sympy.Add.make_args(expr):
            factor, rest = term.as_coeff_Mul()
            if factor.is_Integer and int(factor) % of == 0:
                continue
            if rest.free_symbols and self.known_multiple(term, of):
                continue
            return False
        return True

    def hint(self, expr: Any) -> int:
        """A size, or what it is likely to be."""
        if is_whole(expr):
            return int(expr)
        return int(V.graph.sizevars.optimization_hint(expr, fallback=4096))

    @staticmethod
    def step(index: sympy.Expr, inner: frozenset[str]) -> sympy.Expr:
        """The distance in memory of neighbours along the entries `inner`."""
        symbols = [s for s in index.free_symbols if s.name in inner]
        return sympy.expand(index.subs({s: s + 1 for s in symbols}, simultaneous=True) - index)

    def first_of_row(self, access: Access, origin: Origin = AT_ZERO) -> sympy.Expr:
        """The index where the element axis begins."""
        symbols = [s for s in access.index.free_symbols if s.name in self.inner]
        return access.index.subs({s: ROW_BASE if s.name in origin.flat else 0 for s in symbols})

    def is_dense(self, access: Access, vec: int, origin: Origin = AT_ZERO) -> bool:
        """True if `vec` elements along the element axis are one vector, aligned as those of `origin`."""
        if not STORAGE[access.dtype][1] or self.step(access.index, self.inner) != 1:
            return False
        if access.buffer in self.unaligned:
            return False
        return self.is_multiple(self.first_of_row(access, origin) - origin.index, vec)

    @functools.cached_property
    def vec(self) -> int:
        """Elements of a vector access along the element axis that begins aligned; 1: none."""
        if not self.vectors or self.is_tiled:
            return 1
        accesses = [
            a for s in self.statements if s.per_element for a in (s.load, s.store) if a is not None and not s.atomic
        ]
        for vec in (8, 4):
            if not self.known_multiple(self.numel, vec):
                continue
            sizes = (e.length if e.divisor == 1 else e.divisor for e in self.element_entries)
            if not all(self.known_multiple(size, vec) for size in sizes):
                continue
            if self.is_worth(vec, [a for a in accesses if self.is_dense(a, vec)]):
                return vec
        return 1

    @staticmethod
    def is_worth(vec: int, dense: list[Access]) -> bool:
        """True if dense accesses profit by vectors so long: of 8 elements only if all have at most 2 bytes."""
        return bool(dense) and (vec == 4 or max(a.dtype.itemsize for a in dense) <= 2)
