"""Index expressions of Inductor as GLSL. All integers have one type, the kernel's index type (int or int64_t)."""

from __future__ import annotations

import sympy
from sympy.printing.precedence import PRECEDENCE
from torch.utils._sympy import functions
from torch.utils._sympy.printers import ExprPrinter
from torch.utils._sympy.symbol import SymT, symbol_is_type

__all__ = ["GlslPrinter", "is_real"]

_REAL = (functions.FloatPow, functions.FloatTrueDiv, functions.IntTrueDiv, functions.ToFloat, functions.TruncToFloat)
_REAL += (functions.OpaqueUnaryFn_log2, functions.OpaqueUnaryFn_sqrt, sympy.Float)
_INTEGER = (functions.TruncToInt, functions.FloorToInt, functions.CeilToInt, functions.RoundToInt, functions.FloorDiv)
_INTEGER += (functions.ModularIndexing, sympy.floor, sympy.ceiling, sympy.logic.boolalg.Boolean)


def is_real(expr: sympy.Expr) -> bool:
    """Whether the printed expression is a float: a quotient of sizes, say. sympy takes 0.0 for an integer."""
    if isinstance(expr, (*_INTEGER, sympy.Integer)):
        return False
    if isinstance(expr, (*_REAL, sympy.Rational)):
        return True
    if isinstance(expr, sympy.Symbol):
        return symbol_is_type(expr, (SymT.FLOAT, SymT.UNBACKED_FLOAT))
    return any(map(is_real, expr.args))


class GlslPrinter(ExprPrinter):
    """Prints an expression.

    Parameters
    ----------
    index_type : str
        ``int`` or ``int64_t``.
    """

    def __init__(self, index_type: str = "int") -> None:
        super().__init__()
        self.index_type = index_type

    def _atom(self, expr: sympy.Expr) -> str:
        return self.parenthesize(expr, PRECEDENCE["Atom"] - 0.5)

    def _print_Integer(self, expr):
        value = int(expr)
        suffix = "l" if self.index_type == "int64_t" else ""
        if value == -(1 << 63):
            return "(-9223372036854775807l - 1l)"
        if not -(1 << 31) <= value < 1 << 31:
            suffix = "l"
        return f"{value}{suffix}"

    _print_Zero = _print_One = _print_NegativeOne = _print_Integer

    def _print_FloorDiv(self, expr):
        # Unsigned division truncates as floor does, and takes a GPU fewer instructions.
        a, b = expr.args
        if expr.is_integer and a.is_nonnegative and b.is_positive:
            return f"{self.index_type}({self._unsigned(a)} / {self._unsigned(b)})"
        return f"floor_div({self._print(a)}, {self._print(b)})"

    def _unsigned(self, expr: sympy.Expr) -> str:
        return f"u{self.index_type}({self._print(expr)})"

    def _print_ModularIndexing(self, expr):
        x, divisor, modulus = expr.args
        kind = self.index_type
        if x.is_nonnegative and divisor.is_positive and modulus.is_positive:
            text = self._unsigned(x)
            if divisor != 1:
                text += f" / {self._unsigned(divisor)}"
            return f"{kind}({text} % {self._unsigned(modulus)})"
        text = self._print(x) if divisor == 1 else f"floor_div({self._print(x)}, {self._print(divisor)})"
        return f"floor_mod({text}, {self._print(modulus)})"

    def _print_Mod(self, expr):
        return f"floor_mod({self._print(expr.args[0])}, {self._print(expr.args[1])})"

    _print_PythonMod = _print_Mod

    def _print_Where(self, expr):
        c, a, b = (self._print(x) for x in expr.args)
        return f"(({c}) ? ({a}) : ({b}))"

    def _print_Piecewise(self, expr):
        text = None
        for value, condition in reversed(expr.args):
            if text is None and condition == True:  # noqa: E712  a sympy truth
                text = self._print(value)
            else:
                text = f"(({self._print(condition)}) ? ({self._print(value)}) : ({text or 0}))"
        return text

    def _extreme(self, args, compare: str) -> str:
        # Comparisons: the built-in 64-bit min and max are wrong on a driver that is in use (common/indexing.glsl).
        text = self._print(args[0])
        for arg in args[1:]:
            other = self._print(arg)
            text = f"(({text}) {compare} ({other}) ? ({text}) : ({other}))"
        return text

    def _print_Min(self, expr):
        return self._extreme(expr.args, "<")

    def _print_Max(self, expr):
        return self._extreme(expr.args, ">")

    def _print_Abs(self, expr):
        return f"abs({self._print(expr.args[0])})"

    def _print_And(self, expr):
        return "(" + " && ".join(f"({self._print(a)})" for a in expr.args) + ")"

    def _print_Or(self, expr):
        return "(" + " || ".join(f"({self._print(a)})" for a in expr.args) + ")"

    def _print_Not(self, expr):
        return f"!({self._print(expr.args[0])})"

    def _print_BooleanTrue(self, expr):
        return "true"

    def _print_BooleanFalse(self, expr):
        return "false"

    def _print_Relational(self, expr):
        return f"(({self._print(expr.lhs)}) {expr.rel_op} ({self._print(expr.rhs)}))"

    def _print_Equality(self, expr):
        return f"(({self._print(expr.lhs)}) == ({self._print(expr.rhs)}))"

    def _print_Unequality(self, expr):
        return f"(({self._print(expr.lhs)}) != ({self._print(expr.rhs)}))"

    def _print_LShift(self, expr):
        return f"({self._atom(expr.args[0])} << int({self._print(expr.args[1])}))"

    def _print_RShift(self, expr):
        return f"({self._atom(expr.args[0])} >> int({self._print(expr.args[1])}))"

    def _print_PowByNatural(self, expr):
        base, exponent = expr.args
        if isinstance(exponent, sympy.Integer):
            return "(" + (" * ".join([self._atom(base)] * int(exponent)) or "1") + ")"
        return f"pow_({self.index_type}({self._print(base)}), {self.index_type}({self._print(exponent)}))"

    # Real numbers are rare in indices: they come from interpolation and from sizes that are floats.
    def _print_Float(self, expr):
        text = repr(float(expr))
        return f"({text})" if text.startswith("-") else text

    def _print_Rational(self, expr):
        return f"({float(expr.p)} / {float(expr.q)})"

    def _print_ToFloat(self, expr):
        return f"float({self._print(expr.args[0])})"

    def _print_FloatTrueDiv(self, expr):
        return f"(float({self._print(expr.args[0])}) / float({self._print(expr.args[1])}))"

    _print_IntTrueDiv = _print_FloatTrueDiv

    def _print_FloatPow(self, expr):
        return f"pow_(float({self._print(expr.args[0])}), float({self._print(expr.args[1])}))"

    def _print_TruncToFloat(self, expr):
        return f"trunc({self._print(expr.args[0])})"

    def _to_int(self, function: str, expr) -> str:
        return f"{self.index_type}({function}(float({self._print(expr.args[0])})))"

    def _print_TruncToInt(self, expr):
        return self._to_int("trunc", expr)

    def _print_floor(self, expr):
        return self._to_int("floor", expr)

    _print_FloorToInt = _print_floor

    def _print_ceiling(self, expr):
        return self._to_int("ceil", expr)

    _print_CeilToInt = _print_ceiling

    def _print_RoundToInt(self, expr):
        return self._to_int("roundEven", expr)

    def _print_Infinity(self, expr):
        return "INF"

    def _print_NegativeInfinity(self, expr):
        return "(-INF)"

    def _print_OpaqueUnaryFn_sqrt(self, expr):
        return f"sqrt(float({self._print(expr.args[0])}))"

    def _print_OpaqueUnaryFn_log2(self, expr):
        return f"log2_(float({self._print(expr.args[0])}))"
