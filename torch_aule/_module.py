"""Keeps parameters the same objects when a module moves to or from the device.

`Module.to` swaps the storage under a parameter only between device types of a list inside PyTorch, which lacks
PrivateUse1. For others it makes new parameters: tied weights come apart, and an optimizer made before the move trains
the old ones. `torch.utils.swap_tensors` keeps identity, so it is turned on for just those moves.

Scripted and traced modules keep their parameters in C++, as tensors that are no `Parameter`: those are put back there.
"""

from __future__ import annotations

import functools

import torch

__all__ = ["install"]


def _crosses(module: torch.nn.Module, fn, device_type: str) -> bool:
    """Whether `fn` (what Module._apply applies to each tensor) moves something to or from the device."""
    first = next(module.parameters(), None)
    if first is None:
        return False
    try:
        with torch.no_grad():
            after = fn(torch.empty(0, dtype=first.dtype, device=first.device))
        return after.device != first.device and device_type in (after.device.type, first.device.type)
    except Exception:  # not ours to report: the real call will raise the same
        return False


def _move_scripted(module: torch.jit.ScriptModule, fn) -> None:
    """Apply `fn` to the parameters and buffers of a scripted module and of its parts, ties included."""
    slots: dict[int, tuple[torch.Tensor, list]] = {}  # by identity of the tensor
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for key, tensor in tensors.items():
                if tensor is not None:
                    slots.setdefault(id(tensor), (tensor, []))[1].append((tensors, key))
    for tensor, places in slots.values():
        with torch.no_grad():
            moved = fn(tensor).detach().requires_grad_(tensor.requires_grad)
            if tensor.grad is not None:
                moved.grad = fn(tensor.grad).requires_grad_(tensor.grad.requires_grad)
        placeholder = torch.empty(0)
        for tensors, key in places:  # swap_tensors wants the only reference
            tensors[key] = placeholder
        try:
            torch.utils.swap_tensors(tensor, moved)
            moved = tensor  # an optimizer that holds it goes on training it
        except RuntimeError:  # someone else holds it, too: that one keeps the old tensor
            pass
        for tensors, key in places:
            tensors[key] = moved


def install(device_type: str) -> None:
    """Wrap `torch.nn.Module._apply`."""
    original = torch.nn.Module._apply

    @functools.wraps(original)
    def _apply(self, fn, recurse=True):
        future = torch.__future__
        if recurse and isinstance(self, torch.jit.ScriptModule) and _crosses(self, fn, device_type):
            _move_scripted(self, fn)
            return self
        if future.get_swap_module_params_on_conversion() or not _crosses(self, fn, device_type):
            return original(self, fn, recurse)
        future.set_swap_module_params_on_conversion(True)
        try:
            return original(self, fn, recurse)
        except RuntimeError as error:
            if "swap" not in str(error):
                raise
        finally:
            future.set_swap_module_params_on_conversion(False)
        # Someone holds a weak reference or a live graph: what moved already stays, the rest moves the plain way.
        return original(self, fn, recurse)

    torch.nn.Module._apply = _apply
