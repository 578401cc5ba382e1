"""Hook for sentence-transformers: models that are given no device are put on this one."""

from __future__ import annotations

from types import ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import Patches, attribute, aule_is_default, parameters_of, wrap

__all__ = ["HOOKS"]


def _device_name(util: ModuleType, patches: Patches) -> None:
    own = attribute(util, "get_device_name")
    parameters_of(own)

    @wrap(own)
    def get_device_name() -> str:
        name = own()
        return f"aule:{torch.aule.current_device()}" if name == "cpu" and aule_is_default() else name

    patches.rebind(own, get_device_name)


HOOKS = [
    Hook(
        "sentence_transformers", "device", "sentence_transformers.util",
        "SentenceTransformer, CrossEncoder and SparseEncoder without a device are on aule instead of the CPU",
        _device_name, chooses_device=True,
    ),
]  # fmt: skip
