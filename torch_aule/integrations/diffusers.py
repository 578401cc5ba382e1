"""Hook for diffusers: a device without float64 is named as one."""

from __future__ import annotations

from types import ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute

__all__ = ["HOOKS"]


class _WithoutFloat64(frozenset):
    """Device types without float64. The device is asked when diffusers asks: its import need not start Vulkan."""

    def __contains__(self, device_type) -> bool:
        if device_type == "aule" and torch.aule.is_available():
            return not all(torch.aule.get_device_properties(i).float64 for i in range(torch.aule.device_count()))
        return super().__contains__(device_type)


def _float64(torch_utils: ModuleType, patches: Patches) -> None:
    sets = attribute(torch_utils, "_DTYPE_UNSUPPORTED_DEVICES", dict)
    own = sets.get(torch.float64)
    if not isinstance(own, frozenset):
        raise NotAsExpected(f"the device types without float64 are a {type(own).__name__}")
    replacement = _WithoutFloat64(own)
    patches.set_item(sets, torch.float64, replacement)
    patches.rebind(own, replacement)


HOOKS = [
    Hook(
        "diffusers", "float64", "diffusers.utils.torch_utils",
        "models compute in float32 what they would in float64, if the device has no float64", _float64,
    ),
]  # fmt: skip
