"""Inductor chooses the nodes that share a kernel; here a kernel gets its name and its place in the module."""

from __future__ import annotations

import ast

from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.simd_kernel_features import NodeScheduleMarker, SIMDKernelFeatures
from torch._inductor.utils import Placeholder, get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from torch_aule.compile.codegen.combo import batches, combined, is_part
from torch_aule.compile.codegen.facts import is_software
from torch_aule.compile.codegen.kernel import GlslKernel
from torch_aule.shader.generated import start_compiling

__all__ = ["GlslScheduling"]


class GlslScheduling(SIMDScheduling):
    """Inductor's backend for device aule."""

    kernel_type = GlslKernel
    backend_features = OrderedSet(
        [BackendFeature.INPLACE_BUFFERS, BackendFeature.MASKED_SCATTER_WITH_INDEX, BackendFeature.FOREACH]
    )

    def get_backend_features(self, device):
        """Features that Inductor may ask of generated kernels."""
        return self.backend_features

    @classmethod
    def get_tiling_and_scores(cls, node_schedule, numel, reduction_numel=1, coalesce_analysis=None):
        """One axis for what is kept and one for what is reduced; two axes for pointwise kernels that transpose."""
        devices = [node.get_device() for node in NodeScheduleMarker.only_nodes(node_schedule)]
        if reduction_numel == 1 and not is_software(devices[0]):
            tiling, _ = super().get_tiling_and_scores(node_schedule, numel, reduction_numel, None)
            if "z" not in tiling:
                return tiling, None
        return cls.create_tiling([numel], [reduction_numel]), None

    def define_kernel(self, src_code, node_schedule, kernel) -> str:
        """Put the kernel into the module, once for each text."""
        wrapper = V.graph.wrapper_code
        key = (src_code, kernel.definition.signature)
        if key in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[key]
        fused = get_fused_kernel_name(node_schedule, "original_aten")
        kind = "red" if kernel.is_reduction else "poi"
        name = "_".join(part for part in ("aule", kind, fused, wrapper.next_kernel_suffix()) if part)
        wrapper.src_to_kernel[key] = name
        origins, detailed = get_kernel_metadata(node_schedule, wrapper)
        text = f"'''\n{src_code}'''".replace(str(Placeholder.KERNEL_NAME), name)
        signature = kernel.definition.signature
        wrapper.define_kernel(name, f"aule_kernel({name!r}, {signature!r}, {text})", f"{origins}\n{detailed}")
        # While the rest of the graph is generated.
        device = V.graph.get_current_device_or_throw()
        start_compiling(ast.literal_eval(text), name=name, signature=signature, device_index=device.index or 0)
        return name

    def codegen_combo_kernel(self, combo_kernel_node) -> None:
        """Nodes that do not depend on each other: few launches for the pointwise ones, one for each of the others."""
        kernels = [self._generated(node.get_nodes()) for node in combo_kernel_node.get_subkernel_nodes()]
        for kernel in kernels:
            V.graph.removed_buffers |= kernel.removed_buffers
            V.graph.inplaced_to_remove |= kernel.inplaced_to_remove
        owners = {id(kernel.definition): kernel for kernel in kernels}
        parts = [kernel.definition for kernel in kernels if is_part(kernel)]
        launches = [(owners[id(batch[0])], combined(batch) if len(batch) > 1 else batch[0]) for batch in batches(parts)]
        launches += [(kernel, kernel.definition) for kernel in kernels if not is_part(kernel)]
        schedule = list(NodeScheduleMarker.only_nodes(combo_kernel_node.get_nodes()))
        for kernel, definition in launches:
            kernel.definition = definition
            with V.set_kernel_handler(kernel):
                name = self.define_kernel(definition.text, schedule, kernel)
                self.codegen_comment(combo_kernel_node.snodes, name)
                kernel.call_kernel(name)
        self.free_buffers_in_scheduler()

    def _generated(self, nodes) -> GlslKernel:
        """The kernel of one node, with its definition, not yet launched."""
        _, (numel, rnumel) = max(nodes, key=lambda node: int(node.is_reduction())).group
        schedule = self.generate_node_schedule(nodes, numel, rnumel)
        tiling, _ = self.get_tiling_and_scores(schedule, numel, rnumel)
        kernel = self.kernel_type(tiling, features=SIMDKernelFeatures(schedule, numel, rnumel))
        self.codegen_node_schedule_with_kernel(schedule, kernel)
        with V.set_kernel_handler(kernel):
            kernel.codegen_kernel()
            for node in NodeScheduleMarker.only_nodes(schedule):
                node.mark_run()
        return kernel

    def codegen_template(self, *args, **kwargs):
        raise NotImplementedError("torch.compile on aule has no kernel templates")
