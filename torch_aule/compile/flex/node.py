"""A kernel of FlexAttention in Inductor's graph: an operation that writes buffers which exist already."""

from __future__ import annotations

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

from torch_aule.compile.flex.arguments import Arguments
from torch_aule.shader.generated import start_compiling

__all__ = ["GlslTemplate", "outputs"]


def outputs(sizes, strides, dtype: torch.dtype, device: torch.device) -> ir.TensorBox:
    """A buffer without values, for a kernel to write."""
    from torch._inductor.lowering import empty_strided

    return empty_strided(sizes, strides, dtype=dtype, device=device)


class GlslTemplate(ir.ExternKernel):
    """A launch of a kernel whose text is known.

    Parameters
    ----------
    kind : str
        Part of the kernel's name.
    source : str
        GLSL.
    arguments : Arguments
        Of the kernel.
    groups : sympy.Expr
        Workgroups.
    written : list of IRNode
        The buffers that the kernel writes.
    """

    def __init__(self, kind: str, source: str, arguments: Arguments, groups, written: list) -> None:
        device = written[0].get_device()
        inputs = [ir.InputsKernel.unwrap_storage_for_input(node) for node in arguments.nodes.values()]
        super().__init__(None, ir.NoneLayout(device=device), inputs, (*arguments.exprs, groups))
        self.kind, self.source, self.arguments_, self.groups = kind, source, arguments, groups
        self.device_ = device
        self.mutation_outputs = [ir.MutationOutput(ir.NoneLayout(device=device), node, self) for node in written]
        V.graph.register_operation(self)

    def get_device(self):
        """The device of the call."""
        return self.device_

    def get_outputs(self) -> list:
        """The buffers that it writes, as Inductor sees them afterwards."""
        return list(self.mutation_outputs)

    def get_unbacked_symbol_defs(self):
        """None."""
        return type(self.get_free_symbol_uses())()

    def codegen(self, wrapper) -> None:
        """Define the kernel, once for each text, and call it."""
        key = (self.source, self.arguments_.signature)
        name = wrapper.src_to_kernel.get(key)
        if name is None:
            name = f"aule_flex_{self.kind}_{wrapper.next_kernel_suffix()}"
            wrapper.src_to_kernel[key] = name
            signature = self.arguments_.signature
            body = f"aule_kernel({name!r}, {signature!r}, '''\n{self.source}''')"
            wrapper.define_kernel(name, body, f"# flex_attention: {self.kind}")
            # While the rest of the graph is generated.
            start_compiling("\n" + self.source, name=name, signature=signature, device_index=self.device_.index or 0)
        for expr in (*self.arguments_.exprs, self.groups):
            for symbol in expr.free_symbols:
                wrapper.ensure_size_computed(symbol)
        call = [*self.arguments_.call(wrapper), wrapper.codegen_python_sizevar(self.groups)]
        wrapper.generate_kernel_call(name, call, triton=False, device=self.device_)
