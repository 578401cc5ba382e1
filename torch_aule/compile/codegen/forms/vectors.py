"""Pointwise kernels: an invocation computes one vector, or one element."""

from __future__ import annotations

from torch._inductor.codegen.common import PythonPrinter

from torch_aule.compile.codegen.facts import KernelFacts, is_whole
from torch_aule.compile.codegen.forms.elements import ElementForm
from torch_aule.compile.codegen.forms.fitting import pointwise_work
from torch_aule.compile.codegen.writer import Writer

__all__ = ["Vectors", "divided"]


def divided(numel, per_group: int) -> str:
    """The number of groups of `per_group` in `numel`, as a Python expression."""
    if is_whole(numel):
        return str(-(-int(numel) // per_group))
    return f"-(-({PythonPrinter().doprint(numel)}) // {per_group})"


class Vectors(ElementForm):
    """For every pointwise kernel over one axis."""

    is_part = True

    @classmethod
    def fits(cls, facts: KernelFacts) -> Vectors | None:
        """A vector is as long as the sizes allow."""
        if facts.is_reduction or facts.is_tiled:
            return None
        return cls(facts, pointwise_work(facts.device, facts.vec))

    def groups(self) -> str:
        """Each has a vector for each of its invocations."""
        return divided(self.facts.numel, self.work.local * self.work.vec)

    def lines(self, writer: Writer) -> None:
        """The body of main()."""
        kind, vec, numel = self.facts.index, self.work.vec, writer.numel("x")
        first = f"{kind}(linear_invocation())" + (f" * {vec}" if vec > 1 else "")
        writer.line(1, f"const {kind} xbase = {first};")
        writer.line(1, f"if (linear_invocation() * {vec}ul >= uint64_t({numel})) return;")
        self.row_statements(writer, 0, 1)
        self.elements(writer, 1, "xbase")
