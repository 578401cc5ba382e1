"""score_mod, mask_mod and the gradient of score_mod as GLSL functions.

Inductor lowers a modifier to an expression of one element. Run under the overrides of generated kernels, it becomes
statements; placeholders become the function's arguments, and captured tensors arguments of the kernel.
"""

from __future__ import annotations

import contextlib
import copy
import re

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, Kernel
from torch._inductor.ops_handler import OpsHandler  # noqa: F401  the interface that overrides implement
from torch._inductor.utils import upcast_compute_type
from torch._inductor.virtualized import OpsValue, V, ops
from torch.utils._sympy.value_ranges import ValueRanges

from torch_aule.compile.codegen.kernel import GlslCSE
from torch_aule.compile.codegen.overrides import GlslOverrides, as_dtype
from torch_aule.compile.codegen.printer import GlslPrinter
from torch_aule.compile.codegen.statements import Body, Statement
from torch_aule.compile.codegen.types import STORAGE, compute_type, literal
from torch_aule.compile.flex.arguments import Arguments

__all__ = ["Modifier", "grad_function", "mask_function", "returns_only", "score_function", "with_numbers_as_tensors"]

_POSITIONS = ("b", "h", "m", "n")


class _Overrides(GlslOverrides):
    def indirect_indexing(self, var, size, check=True, wrap_neg=True):
        return V.kernel.indirect_index_in(var, size)


class Modifier(Kernel):
    """One function: collects the statements of one or several expressions.

    Parameters
    ----------
    arguments : Arguments
        Of the kernel.
    reals : tuple of str
        Its arguments of type float, before (score) and behind (grad_score_mod) the positions.
    """

    overrides = _Overrides

    def __init__(self, arguments: Arguments, reals: tuple[str, ...]) -> None:
        super().__init__(increase_kernel_count=False)
        self.cse = GlslCSE()
        self.statements = Body()
        self.arguments = arguments
        self.reals = reals
        self.printer = GlslPrinter("int")
        self.kexpr = self.printer.doprint
        self.atomics = False

    # -- what the overrides ask a kernel for

    def get_index_dtype_as_torch_dtype(self) -> torch.dtype:
        return torch.int32

    def prepare_indexing(self, index: sympy.Expr) -> sympy.Expr:
        return self.arguments.symbols(V.graph.sizevars.simplify(index))

    def index_to_str(self, index: sympy.Expr) -> str:
        return self.printer.doprint(self.prepare_indexing(index))

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return compute_type(dtype)

    @contextlib.contextmanager
    def mask_loads(self, mask, value):
        """Loads inside read where `mask` is true."""
        prior = self._load_mask, self._load_other
        if prior[0] is not None:
            mask = ops.logical_and(mask, prior[0])
        self._load_mask, self._load_other = (mask.value if isinstance(mask, OpsValue) else mask), value
        try:
            yield self._load_mask
        finally:
            self._load_mask, self._load_other = prior

    def check_bounds(self, expr, size, lower, upper) -> None:
        """Nothing: indices are limited where they are made. One of a score that the mask hides may be anything."""

    def indirect_index_in(self, var: CSEVariable, size) -> sympy.Symbol:
        """`var` as a symbol, limited to what a dimension has."""
        last = self.index_to_str(sympy.sympify(size) - 1)
        made = self.cse.newvar(ValueRanges(0, 2**31 - 1), torch.int32, ())
        text = f"clamp({as_dtype(var, torch.int32)}, 0, {last})"
        self.statements.add(Statement(text, defines=made.name, dtype=torch.int32))
        return sympy.Symbol(made.name, integer=True, nonnegative=True)

    # -- memory

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        if name in _POSITIONS:
            bounds = ValueRanges(0, 2**31 - 1)
            return self.cse.generate(self.loads, name, bounds=bounds, dtype=torch.int32, shape=())
        if name in self.reals:
            return self.cse.generate(self.loads, name, dtype=torch.float32, shape=())
        node = _buffer(name)
        dtype = node.get_dtype()
        if node.get_device().type == "cpu" and not node.get_size() and dtype.is_floating_point:
            return self.cse.generate(self.loads, self.arguments.number(node), dtype=torch.float32, shape=())
        if node.get_device().type != "aule":
            raise NotImplementedError("a modifier captures a tensor of another device")
        if dtype == torch.float64 or dtype not in STORAGE:
            raise NotImplementedError(f"a modifier captures a tensor of {dtype}")
        _index_in_32_bits(node)
        text = f"AULE_LOAD_{STORAGE[dtype][0]}({self.arguments.buffer(node)}, {self.index_to_str(index)})"
        value_dtype = upcast_compute_type(dtype)
        if self._load_mask is None:
            return self.cse.generate(self.loads, text, dtype=value_dtype, shape=())
        other = self._load_other.item() if isinstance(self._load_other, torch.Tensor) else self._load_other
        var = self.cse.newvar(ValueRanges.unknown(), value_dtype, ())
        filled = literal(other if other is not None else 0, value_dtype)
        self.statements.add(
            Statement(text, defines=var.name, dtype=value_dtype, mask=str(self._load_mask), other=filled)
        )
        return var

    def store(self, name: str, index: sympy.Expr, value, mode=None) -> None:
        if mode != "atomic_add":
            raise NotImplementedError(f"a modifier stores with mode {mode}")
        node = _buffer(name)
        _index_in_32_bits(node)
        self.atomics = True
        suffix = STORAGE[node.get_dtype()][0]
        target = f"{self.arguments.buffer(node, 'm')}, {self.index_to_str(index)}"
        text = f"if (live) AULE_ATOMIC_ADD_{suffix}({target}, {as_dtype(value, node.get_dtype())});"
        self.statements.add(Statement(text))

    # -- text

    def expression(self, buffer: ir.ComputedBuffer):
        """Runs a lowered modifier; its result."""
        data = buffer.data
        result = data.make_loader()(()) if isinstance(data, ir.InputBuffer) else data.inner_fn(())
        return result.value if isinstance(result, OpsValue) else result

    def scatter(self, buffer: ir.ComputedBuffer) -> None:
        """Runs what adds to the gradient of a captured tensor."""

        def place(indices):
            return sum(i * stride for i, stride in zip(indices, buffer.get_stride(), strict=True))

        buffer.data.store_output(buffer.name, place, [])

    def lines(self) -> list[str]:
        """The statements as text."""
        made = []
        for s in self.statements.statements:
            if s.defines is None:
                made.append(s.text)
            elif s.mask is None:
                made.append(f"{compute_type(s.dtype)} {s.defines} = {s.text};")
            else:
                made.append(f"{compute_type(s.dtype)} {s.defines} = {s.other};")
                made.append(f"if ({s.mask}) {s.defines} = {s.text};")
        return made


def _buffer(name: str):
    node = V.graph.try_get_buffer(name)
    if node is None:
        node = V.graph.graph_inputs[name]
    return node


def _index_in_32_bits(node) -> None:
    numel = 1
    for size, stride in zip(node.get_size(), node.get_stride(), strict=True):
        numel = numel + (size - 1) * stride
    known = V.graph.sizevars.statically_known_leq
    if not known(numel, 2**31 - 1):
        V.graph.sizevars.check_leq(sympy.sympify(numel), sympy.Integer(2**31 - 1))


def _function(head: str, modifier: Modifier, result: str) -> str:
    return "\n".join([f"{head} {{", *("  " + line for line in modifier.lines()), f"  return {result};", "}"])


def returns_only(function: str, value: str) -> bool:
    """Whether that is all that a modifier's function does."""
    value = re.escape(value)
    text = rf"[^{{]*\{{\s*(?:\w+ (\w+) = {value};\s*return \1|return {value});\s*\}}"
    return re.fullmatch(text, function) is not None


def with_numbers_as_tensors(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A captured Python float that changes is `item()` of a 0-dim tensor: here it is that tensor, in float32.

    Inductor gives `item()` a symbol that it defines in the graph, and a modifier is no place for definitions.
    """
    items = [n for n in module.graph.nodes if n.target is torch.ops.aten._local_scalar_dense.default]
    if not items:
        return module
    module = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    for node in module.graph.nodes:
        if node.target is torch.ops.aten._local_scalar_dense.default:
            node.target = torch.ops.prims.convert_element_type.default
            node.args = (node.args[0], torch.float32)
    return module


def score_function(arguments: Arguments, buffer: ir.ComputedBuffer) -> str:
    """GLSL of `score_mod`."""
    with V.graph.set_current_device(buffer.get_device()), Modifier(arguments, ("score",)) as modifier:
        result = as_dtype(modifier.expression(buffer), torch.float32)
    return _function("float score_mod(float score, int b, int h, int m, int n)", modifier, result)


def mask_function(arguments: Arguments, buffer: ir.ComputedBuffer) -> str:
    """GLSL of `mask_mod`."""
    with V.graph.set_current_device(buffer.get_device()), Modifier(arguments, ()) as modifier:
        result = as_dtype(modifier.expression(buffer), torch.bool)
    return _function("bool mask_mod(int b, int h, int m, int n)", modifier, result)


def grad_function(arguments: Arguments, buffer: ir.ComputedBuffer, scatters: list[ir.ComputedBuffer]) -> str:
    """GLSL of `score_grad`, which also adds to gradients of captured tensors if `live`."""
    with V.graph.set_current_device(buffer.get_device()), Modifier(arguments, ("score", "grad_score_mod")) as modifier:
        result = as_dtype(modifier.expression(buffer), torch.float32)
        for scatter in scatters:
            modifier.scatter(scatter)
    head = "float score_grad(float score, int b, int h, int m, int n, float grad_score_mod, bool live)"
    return _function(head, modifier, result)
