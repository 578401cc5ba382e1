"""Keeps parameters the same objects when a module moves to or from the device.

`Module.to` swaps the storage under a parameter only between device types of a list inside PyTorch, which lacks
PrivateUse1. For others it makes new parameters: tied weights come apart, and an optimizer made before the move trains
the old ones. `torch.utils.swap_tensors` keeps identity, so it is turned on for just those moves.
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


def install(device_type: str) -> None:
    """Wrap `torch.nn.Module._apply`."""
    original = torch.nn.Module._apply

    @functools.wraps(original)
    def _apply(self, fn, recurse=True):
        future = torch.__future__
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
