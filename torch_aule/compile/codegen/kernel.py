"""A generated kernel: Inductor's operations become statements, and these GLSL in one of the forms of forms.py."""

from __future__ import annotations

import itertools

import sympy
import torch
from torch._inductor.codegen.common import CSE, CSEVariable, DeferredLineBase
from torch._inductor.codegen.simd import IterationRangesEntry, SIMDKernel
from torch._inductor.codegen.triton_utils import should_unwrap_unspec_arg
from torch._inductor.utils import upcast_compute_type
from torch._inductor.virtualized import OpsValue, V
from torch.utils._sympy.value_ranges import ValueRanges

from torch_aule.compile.codegen import facts, source
from torch_aule.compile.codegen.overrides import GlslOverrides, as_dtype
from torch_aule.compile.codegen.printer import GlslPrinter
from torch_aule.compile.codegen.reductions import make_reduction
from torch_aule.compile.codegen.statements import Access, Body, Statement, stages_of
from torch_aule.compile.codegen.types import STORAGE, compute_type, literal

__all__ = ["GlslKernel"]


class GlslCSE(CSE):
    """Variables with a type: an assignment becomes a statement of the kernel instead of a line of text."""

    def generate(
        self,
        buffer,
        expr,
        *,
        bounds=ValueRanges.unknown(),  # noqa: B008  as the base class has it
        write=True,
        assignment=True,
        dtype=None,
        shape=None,
    ):
        if isinstance(expr, OpsValue):
            expr = expr.value
        if isinstance(expr, CSEVariable):
            expr.bounds = expr.bounds.tighten(bounds)
            expr.use_count += 1
            return expr
        text = expr.line if isinstance(expr, DeferredLineBase) else str(expr)
        key = f"{dtype}:{text}"
        var = self.try_get(key)
        if var is not None:
            var.bounds = var.bounds.tighten(bounds)
            var.use_count += 1
            return var
        var = self.newvar(bounds, dtype, shape if shape is not None else ())
        self.put(key, var)
        if assignment:
            V.kernel.statements.add(Statement(text, defines=var.name, dtype=dtype))
        else:
            V.kernel.statements.add(Statement(f"{text};"))
        return var


class GlslKernel(SIMDKernel):
    """Collects statements; `codegen_kernel` lays them out and returns the module's definition of the kernel."""

    overrides = GlslOverrides
    kexpr = None  # made in __init__: it depends on the index type

    def __init__(self, tiling, **kwargs) -> None:
        super().__init__(tiling, **kwargs)
        self.cse = GlslCSE()
        self.statements = Body()
        self.uses_errors = False
        self.host_scalars: dict[str, torch.dtype] = {}  # members of Params -> dtype
        self.entries: dict[str, IterationRangesEntry] = {}
        self.index_vars: dict[str, CSEVariable] = {}  # clamped index -> the variable that it was made from
        self.kexpr = GlslPrinter(self.index_type).doprint
        self.names = itertools.count()
        self.definition: source.Definition | None = None

    # -- types and the element axis

    @property
    def index_type(self) -> str:
        return "int64_t" if self.get_index_dtype_as_torch_dtype() == torch.int64 else "int"

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return compute_type(dtype)

    @property
    def is_reduction(self) -> bool:
        return self.features.is_reduction()

    @property
    def element_prefix(self) -> str:
        """The prefix of the axis along which an invocation walks."""
        if not self.is_reduction:
            return "x"
        return next(t.prefix for t in self.range_trees if t.is_reduction)

    def should_use_persistent_reduction(self) -> bool:
        return source.is_persistent(self)

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        if entry.name not in self.entries:
            self.entries[entry.name] = entry
            self.rename_indexing(entry.expr)  # sizes in it become arguments
            if entry.prefix == self.element_prefix:
                self.statements.element_names.add(entry.name)

    def new_name(self) -> str:
        return f"acc{next(self.names)}"

    # -- memory

    def _access(self, name: str, argument: str, index: sympy.Expr) -> Access:
        index = self.prepare_indexing(index)
        dtype = V.graph.get_dtype(name)
        return Access(name, argument, index, self.index_to_str(index), dtype)

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        argument = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        if should_unwrap_unspec_arg(name):
            # A tensor of one element on the CPU: its value is a parameter.
            self.host_scalars[argument] = dtype
            text = f"to_bool(p.{argument})" if dtype == torch.bool else f"p.{argument}"
            return self.cse.generate(self.loads, text, dtype=upcast_compute_type(dtype), shape=())
        access = self._access(name, argument, index)
        mask = str(self._load_mask) if self._load_mask is not None else None
        value_dtype = upcast_compute_type(dtype)
        other = ""
        if mask is not None:
            fill = self._load_other.item() if isinstance(self._load_other, torch.Tensor) else self._load_other
            other = literal(fill if fill is not None else 0, value_dtype)
        key = f"load:{argument}:{access.index_text}:{mask}:{other}"
        var = self.cse.try_get(key)
        if var is not None:
            var.use_count += 1
            return var
        var = self.cse.newvar(ValueRanges.unknown(), value_dtype, ())
        self.cse.put(key, var)
        text = f"AULE_LOAD_{STORAGE[dtype][0]}(p.{argument}, {access.index_text})"
        self.statements.add(Statement(text, defines=var.name, dtype=value_dtype, load=access, mask=mask, other=other))
        return var

    def store(self, name: str, index: sympy.Expr, value, mode=None) -> None:
        argument = self.args.output(name)
        access = self._access(name, argument, index)
        text = as_dtype(value, access.dtype)
        if mode not in (None, "atomic_add"):
            raise NotImplementedError(f"generated kernels have no store mode {mode}")
        self.statements.add(Statement(text, store=access, atomic=mode == "atomic_add"))

    def store_reduction(self, name: str, index: sympy.Expr, value) -> None:
        self.store(name, index, value)

    # -- reductions

    def reduction(self, dtype, src_dtype, reduction_type, value):
        assert self.inside_reduction and not self._load_mask
        if reduction_type == "welford_reduce" and self.persistent_reduction:
            return self.welford_reduce_fallback(dtype, value)
        if reduction_type == "online_softmax_reduce" and self.persistent_reduction and not isinstance(value, tuple):
            return self.prepare_softmax_twopass_fallback(dtype, value)
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            self.cse.reduction_cache[key] = self._reduce(dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def _reduce(self, dtype, reduction_type, value):
        reduction = make_reduction(reduction_type, dtype, value, self.new_name, self.element_index)
        self.statements.add(Statement(reduction=reduction))
        results = tuple(
            self.cse.namedvar(name, dtype=made, shape=())
            for name, made in zip(reduction.names, reduction.dtypes, strict=True)
        )
        if reduction_type in ("argmax", "argmin"):
            index = self.cse.generate(
                self.compute, as_dtype(results[1], upcast_compute_type(dtype)), dtype=dtype, shape=()
            )
            return (results[0], index) if isinstance(value, tuple) else index
        return results if len(results) > 1 else results[0]

    @property
    def element_index(self) -> str:
        """The position along the element axis."""
        return f"{self.element_prefix}index"

    def codegen_body(self) -> None:
        """Ends a loop over elements: what depends on them is not there in the next one."""
        if not self.is_reduction or self.persistent_reduction:
            return
        self.statements.segment = stages_of(self.statements.statements) - 1
        names = self.statements.element_names
        keep = {v for v in self.cse.varname_map.values() if v.name not in names}
        self.cse.invalidate(keep)

    # -- checks

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if not (lower or upper):
            return
        clamped = str(expr)
        value = self.index_vars.get(clamped)
        given = str(value) if value is not None else self.index_to_str(self.prepare_indexing(expr))
        bound = self.index_to_str(size)
        bad = " || ".join([f"{given} < 0"] * lower + [f"{given} >= {bound}"] * upper)
        if self._load_mask is not None:
            bad = f"{self._load_mask} && ({bad})"
        self.uses_errors = True
        text = f"if ({bad}) {{ report_index(int64_t({given}), int64_t({bound})); "
        text += f"{clamped} = 0; }}" if value is not None else "}"
        self.statements.add(Statement(text))

    def device_assert_async(self, cond, msg: str) -> None:
        self.uses_errors = True
        self.statements.add(Statement(f"if (!{as_dtype(cond, torch.bool)}) report_assert();"))

    def indirect_index(self, var: CSEVariable) -> sympy.Symbol:
        """`var`, a loaded index, as a symbol of the kernel's index type."""
        index_dtype = self.get_index_dtype_as_torch_dtype()
        made = self.cse.newvar(var.bounds, index_dtype, ())
        self.statements.add(Statement(as_dtype(var, index_dtype), defines=made.name, dtype=index_dtype))
        self.index_vars[made.name] = var
        return sympy.Symbol(made.name, integer=True, nonnegative=True)

    # -- text

    def codegen_kernel(self, name=None) -> str:
        self.definition = source.define(self, facts.of_device(V.graph.get_current_device_or_throw()))
        return self.definition.text

    def call_kernel(self, name: str, node=None, deallocate_ws: bool = True) -> None:
        wrapper = V.graph.wrapper_code
        for size in self.args.sizevars:
            wrapper.ensure_size_computed(size)
        wrapper.generate_kernel_call(
            name,
            list(self.definition.arguments),
            triton=False,
            device=V.graph.get_current_device_or_throw(),
        )
