"""Operators whose generic lowering is wrong or impossible here: on aule they stay calls of the eager kernels."""

from __future__ import annotations

import functools

import torch
from torch._inductor import decomposition, ir, lowering
from torch._inductor.codegen.common import OpOverrides, pointwise_overrides_data
from torch._inductor.ir import IRNode

from torch_aule.compile.codegen.overrides import FLOAT32_BINARY, FLOAT32_FUNCTIONS, GlslOverrides

__all__ = ["index_put", "install_lowerings", "scatter_fallback"]

aten = torch.ops.aten

# The index of a reduction over several dimensions would be that of the loop, which Inductor may have reordered.
_INDEX_OVER_SEVERAL = (aten.argmax.default, aten.argmin.default)
# Indices of windows, for the same reason.
_WINDOWS = (
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
    aten.max_pool2d_with_indices_backward.default,
)


def _on_aule(args, kwargs) -> bool:
    for x in torch.utils._pytree.arg_tree_leaves(*args, **kwargs):
        if isinstance(x, IRNode) and (device := x.get_device()) is not None and device.type == "aule":
            return True
    return False


def _dtypes(args, kwargs) -> set[torch.dtype]:
    return {x.get_dtype() for x in torch.utils._pytree.arg_tree_leaves(*args, **kwargs) if isinstance(x, IRNode)}


def _keep_eager(op, when) -> None:
    """On aule, `op` stays a call if `when(args, kwargs)`."""
    original = lowering.lowerings.get(op)
    if original is None:
        return
    eager = lowering.fallback_handler(op, add_to_fallback_set=False)

    @functools.wraps(original)
    def lower(*args, **kwargs):
        if _on_aule(args, kwargs) and when(args, kwargs):
            return eager(*args, **kwargs)
        return original(*args, **kwargs)

    lowering.lowerings[op] = lower


def _overloads(name: str) -> list:
    packets = {getattr(aten, n, None) for n in (name, f"special_{name}", _pointwise_name(name))}
    packets |= {getattr(torch.ops.prims, name, None)}
    return [
        getattr(packet, overload)
        for packet in packets
        if isinstance(packet, torch._ops.OpOverloadPacket)
        for overload in packet.overloads()
    ]


def _pointwise_name(name: str) -> str:
    """ATen's name of an operation of Inductor."""
    data = pointwise_overrides_data.get(name)
    return data.name if data is not None else name


def _is_implemented(name: str) -> bool:
    mine, base = getattr(GlslOverrides, name, None), getattr(OpOverrides, name, None)
    return mine is not None and mine is not base


def _float64(args, kwargs) -> bool:
    return torch.float64 in _dtypes(args, kwargs)


def _several_dimensions(args, kwargs) -> bool:
    x, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim")
    return dim is None and len(x.get_size()) > 1


def _floors_reals(args, kwargs) -> bool:
    """Inductor floors the quotient, which differs from eager for infinities and just below a whole number."""
    return kwargs.get("rounding_mode", "floor") == "floor" and any(d.is_floating_point for d in _dtypes(args, kwargs))


def install_lowerings() -> None:
    """Put the guards around Inductor's lowerings; other devices keep theirs."""
    for name in pointwise_overrides_data:
        if not _is_implemented(name):
            for op in _overloads(name):
                _keep_eager(op, lambda args, kwargs: True)
    for name in (*FLOAT32_FUNCTIONS, *FLOAT32_BINARY):
        for op in _overloads(name):
            _keep_eager(op, _float64)
    for op in _overloads("nextafter"):  # a step of its own dtype, which generated kernels widen
        _keep_eager(op, lambda args, kwargs: not _dtypes(args, kwargs).isdisjoint((torch.float16, torch.bfloat16)))
    for op in _overloads("frexp"):  # two results of one statement, which generated kernels do not have
        _keep_eager(op, lambda args, kwargs: True)
    for op in _INDEX_OVER_SEVERAL:
        _keep_eager(op, _several_dimensions)
    for packet in (aten.div, aten.floor_divide):
        for overload in packet.overloads():
            if packet is aten.floor_divide or overload.endswith("_mode"):
                _keep_eager(getattr(packet, overload), _floors_reals)
    for op in _WINDOWS:
        _keep_eager(op, lambda args, kwargs: True)
    for op in (aten.mm.dtype, aten.bmm.dtype):  # Inductor's refuse devices that they do not know
        _keep_eager(op, lambda args, kwargs: True)
    # It takes operands as they lie.
    lowering.make_fallback(torch.ops.aule.linear_bias_act.default)
    _keep_windows_whole()
    _truth_of_bytes()


def _keep_windows_whole() -> None:
    """Pooling with indices is decomposed before it is lowered: not on aule."""
    for op in (aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default):
        _keep_whole(op, lambda x: True)


def _keep_whole(op, when) -> None:
    """On aule, `op` is not decomposed if `when(its first argument)`."""
    original = decomposition.decompositions.get(op)
    if original is None:
        return

    @functools.wraps(original)
    def decompose(x, *args, **kwargs):
        return NotImplemented if x.device.type == "aule" and when(x) else original(x, *args, **kwargs)

    decomposition.decompositions[op] = decompose


# Additions by several invocations: these have atomics, the other dtypes take the eager kernels.
_ATOMIC = (torch.float32, torch.int32)


def index_put(original):
    """Of lowering.index_put_impl_: what has no atomics is added by the eager kernels."""

    def put(self, indices, values, accumulate, *args, **kwargs):
        if not accumulate or self.get_dtype() in _ATOMIC or not _on_aule((self,), {}):
            return original(self, indices, values, accumulate, *args, **kwargs)
        shape = list(self.get_size())
        added = lowering.index_put_fallback(self if shape else lowering.view(self, [1]), indices, values, accumulate)
        return added if shape else lowering.view(added, [])

    return put


def scatter_fallback(original):
    """Of lowering.scatter_fallback, likewise."""

    def scatter(op_overload, self, dim, index, src, *, reduce=None, **kwargs):
        if reduce not in ("add", "sum") or self.get_dtype() in _ATOMIC or not _on_aule((self,), {}):
            return original(op_overload, self, dim, index, src, reduce=reduce, **kwargs)
        ir.ScatterFallback(op_overload, self, dim, index, src, reduce=reduce, **{"include_self": True, **kwargs})
        return self

    return scatter


def _truth_of_bytes() -> None:
    """any and all of uint8 are uint8, which their decompositions and lowerings make bool."""
    for packet in (aten.any, aten.all):
        for overload in packet.overloads():
            op = getattr(packet, overload)
            _keep_whole(op, lambda x: x.dtype == torch.uint8)
            lowering.lowerings.setdefault(op, lowering.fallback_handler(op, add_to_fallback_set=False))
            _keep_eager(op, lambda args, kwargs: torch.uint8 in _dtypes(args, kwargs))
