"""The Python module that calls generated kernels: allocations and launches that cost little."""

from __future__ import annotations

from torch._inductor.codegen.common import DeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen

from torch_aule.compile.doors.user_kernels import UserKernels

__all__ = ["AuleDeviceOpOverrides", "AuleSubgraphWrapper", "AuleWrapper"]


class _Mixin(UserKernels):
    def write_header(self) -> None:
        super().write_header()
        self.header.splice("from torch_aule.compile.doors.launch import aule_kernel, empty_strided_aule")

    def _define_kernel_helper(self, kernel_name, kernel_body, metadata=None, gpu=True, cpp_definition=None):
        # One of a GPU goes into a block too that measures Inductor's own kernels of Triton while it compiles.
        super()._define_kernel_helper(kernel_name, kernel_body, metadata=metadata, gpu=False)

    def _generate_kernel_call_helper(self, kernel_name, call_args, *, device=None, triton=True, **kwargs):
        if device is None or device.type != "aule":
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, triton=triton, **kwargs)
            return
        if triton:  # those of the code generator say that they are not
            self.call_user_kernel(kernel_name, call_args)
        else:
            self.writeline(self.wrap_kernel_call(kernel_name, call_args))

    def make_allocation(self, name, device, dtype, shape, stride, allocation_shape=None, is_pinned=False):
        if device.type != "aule":
            return super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)
        allocation_shape = shape if allocation_shape is None else allocation_shape
        size, strides = (self.codegen_python_shape_tuple(x) for x in (allocation_shape, stride))
        line = f"{name} = empty_strided_aule({size}, {strides}, {dtype}, {device.index})"
        wanted = self.codegen_python_shape_tuple(shape)
        return line if wanted == size else f"{line}.as_strided({wanted}, {strides})"


class AuleSubgraphWrapper(_Mixin, SubgraphPythonWrapperCodegen):
    """For the bodies of control flow and of partitions."""


class AuleWrapper(_Mixin, PythonWrapperCodegen):
    """For a graph."""

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        """Inductor's way to make one."""
        if is_subgraph:
            return AuleSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return AuleWrapper()


class AuleDeviceOpOverrides(DeviceOpOverrides):
    """Python text that a generated module uses for the device."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"from torch_aule.compile.doors.launch import raw_stream as {name}"

    def set_device(self, device_idx: int) -> str:
        return f"torch.aule.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.aule.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.aule.device({device_idx})"

    def current_stream(self) -> str:
        return "torch.aule.current_stream()"

    def stream_handle(self, stream_name: str) -> str:
        return f"{stream_name}.stream_id"
