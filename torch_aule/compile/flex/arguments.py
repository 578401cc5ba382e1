"""Arguments of a kernel of FlexAttention: buffers and sizes, as members of Params and as arguments of the call."""

from __future__ import annotations

import sympy
import torch
from torch._inductor.virtualized import V

__all__ = ["Arguments"]


class Arguments:
    """Members of Params in the order in which they are asked for.

    Attributes
    ----------
    nodes : dict of str to IRNode
        The buffers by Inductor's name.
    exprs : list of sympy.Expr
        The sizes that are known at run time only.
    """

    def __init__(self) -> None:
        self.nodes: dict = {}
        self.exprs: list[sympy.Expr] = []
        self._buffers: dict[str, tuple[str, str]] = {}  # name -> (member, access)
        self._sizes: dict[sympy.Expr, str] = {}
        self._numbers: dict[str, str] = {}  # name -> member

    def buffer(self, node, access: str = "r") -> str:
        """The address of a buffer (of the base, if it is a view) as GLSL; `access` is r, w or m."""
        name = node.get_name()
        member, before = self._buffers.get(name, (f"buffer{len(self._buffers)}", access))
        self._buffers[name] = (member, access if access == before else "m")
        self.nodes.setdefault(name, node)
        return f"p.{member}"

    def number(self, node) -> str:
        """The value of a 0-dim tensor on the CPU as GLSL of type float."""
        name = node.get_name()
        self.nodes.setdefault(name, node)
        return f"p.{self._numbers.setdefault(name, f'number{len(self._numbers)}')}"

    def size(self, expr) -> str:
        """An integer as GLSL of type int64_t."""
        expr = V.graph.sizevars.simplify(sympy.sympify(expr))
        if isinstance(expr, sympy.Integer):
            return f"{int(expr)}l"
        if expr not in self._sizes:
            self._sizes[expr] = f"size{len(self._sizes)}"
            self.exprs.append(expr)
        return f"p.{self._sizes[expr]}"

    def count(self, expr) -> str:
        """An integer below 2^31 as GLSL of type int."""
        text = self.size(expr)
        return text[:-1] if text[0].isdigit() else f"int({text})"

    def symbols(self, expr: sympy.Expr) -> sympy.Expr:
        """An index with the sizes in it replaced by members of Params, for a printer."""
        known = {
            s: sympy.Symbol(self.count(s), integer=True, nonnegative=True) for s in expr.free_symbols if is_size(s)
        }
        return expr.subs(known)

    @property
    def signature(self) -> str:
        """A letter for each member."""
        return (
            "".join(access for _, access in self._buffers.values()) + "l" * len(self.exprs) + "h" * len(self._numbers)
        )

    @property
    def bytes(self) -> int:
        """Of the struct, at most."""
        return 8 * (len(self._buffers) + len(self._sizes) + len(self._numbers))

    def params(self) -> list[str]:
        """Lines of the struct."""
        return ["struct Params {",
                *(f"  uint64_t {member};" for member, _ in self._buffers.values()),
                *(f"  int64_t {member};" for member in self._sizes.values()),
                *(f"  float {member};" for member in self._numbers.values()),
                "};"]  # fmt: skip

    def call(self, wrapper) -> list[str]:
        """Python expressions of the arguments."""
        return [*self._buffers, *(wrapper.codegen_python_sizevar(e) for e in self.exprs), *self._numbers]


def is_size(symbol: sympy.Symbol) -> bool:
    """True for a size of the graph, false for a variable of a kernel."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    return symbol_is_type(symbol, (SymT.SIZE, SymT.UNBACKED_INT, SymT.PRECOMPUTED_SIZE))


def storage_code(dtype: torch.dtype) -> str:
    """The dtype's code of dtype_codes.h, for those that attention computes in."""
    codes = {torch.float32: "AULE_DT_F32", torch.float16: "AULE_DT_F16", torch.bfloat16: "AULE_DT_BF16"}
    if dtype not in codes:
        raise NotImplementedError(f"kernels of FlexAttention have no {dtype}")
    return codes[dtype]
