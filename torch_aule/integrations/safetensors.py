"""Hook for safetensors: files can be opened on the device by its name."""

from __future__ import annotations

from types import ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute

__all__ = ["HOOKS"]

_DEVICE_POSITION = 2  # safe_open(filename, framework, device)


def _index(device):
    """The name of an aule device for safetensors: its index, which PyTorch reads as one of its accelerator."""
    if isinstance(device, str) and device.split(":")[0] == "aule":
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "aule":
            return str(device)
        return torch.aule.current_device() if device.index is None else device.index
    return device


def _safe_open(safetensors: ModuleType, patches: Patches) -> None:
    own = attribute(safetensors, "safe_open", type)
    if torch.device(0).type != "aule":
        raise NotAsExpected(f"an index names {torch.device(0).type} devices")

    class Kind(type):
        def __instancecheck__(cls, instance):
            return isinstance(instance, own)

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, own)

    class safe_open(metaclass=Kind):
        __doc__ = own.__doc__

        def __new__(cls, *args, **kwargs):
            if "device" in kwargs:
                kwargs["device"] = _index(kwargs["device"])
            elif len(args) > _DEVICE_POSITION:
                args = (*args[:_DEVICE_POSITION], _index(args[_DEVICE_POSITION]), *args[_DEVICE_POSITION + 1 :])
            return own(*args, **kwargs)

    safe_open.__module__, safe_open.__qualname__ = own.__module__, own.__qualname__
    patches.rebind(own, safe_open)


HOOKS = [
    Hook(
        "safetensors", "safe_open", "safetensors",
        "safe_open, load_file and load_model take device='aule', 'aule:1' or a torch.device", _safe_open,
    ),
]  # fmt: skip
