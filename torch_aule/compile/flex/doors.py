"""Tables of PyTorch's FlexAttention for devices that it knows, opened for aule."""

from __future__ import annotations

import functools
import importlib
import warnings

import torch

from torch_aule.compile.doors import patches

__all__ = ["install_doors", "install_flex_lowerings", "validate_device"]


def _missing(what: str) -> None:
    warnings.warn(f"torch_aule: this PyTorch has no {what}; FlexAttention on aule may fall short", stacklevel=3)


@functools.cache
def install_doors() -> None:
    """Let FlexAttention take tensors on aule, compiled or not. Imports neither Dynamo nor Inductor."""
    for name in patches.install("flex"):
        _missing(name)
    _autocast_rule()


def validate_device(original):
    """Of flex_attention._validate_device."""

    def validate(query, key, value):
        if query.device.type != "aule":
            original(query, key, value)

    return validate


def _autocast_rule() -> None:
    """Casts query, key and value under autocast, as for devices that PyTorch knows."""
    # The attribute of the package is the operator, which hides the module of the same name.
    module = importlib.import_module("torch._higher_order_ops.flex_attention")
    operator = module.flex_attention
    key = torch._C.DispatchKey.AutocastPrivateUse1
    if key in operator.py_kernels:
        return
    module.flex_attention_backward.fallthrough(key)

    @operator.py_impl(key)
    def flex_attention_autocast_aule(query, key, value, *args, **kwargs):
        from torch.amp.autocast_mode import _cast

        dtype = torch.get_autocast_dtype("aule")
        query, key, value = (_cast(x, "aule", dtype) for x in (query, key, value))
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return operator(query, key, value, *args, **kwargs)


def install_flex_lowerings() -> None:
    """Give Inductor our kernels for calls on aule; other devices keep theirs."""
    from torch._inductor import lowering

    importlib.import_module("torch._inductor.kernel.flex.flex_attention")
    hop = torch.ops.higher_order
    for operator, name in ((hop.flex_attention, "forward"), (hop.flex_attention_backward, "backward")):
        original = lowering.lowerings.get(operator)
        if original is None:
            _missing(f"lowering of {operator}")
            continue
        lowering.lowerings[operator] = _switched(original, name)


def _switched(original, name: str):
    @functools.wraps(original)
    def lower(query, *args, **kwargs):
        if query.get_device().type != "aule":
            return original(query, *args, **kwargs)
        from torch_aule.compile.flex.lower import lower_call

        return lower_call(name, query, *args, **kwargs)

    return lower
