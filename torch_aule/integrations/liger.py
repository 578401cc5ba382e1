"""Hooks for Liger (liger-kernel): its kernels of Triton take the device for an accelerator.

It knows CUDA, XPU and NPU by name. Of another device it takes the CPU's word for autocast, and in backwards of norms it
counts one multiprocessor, or none.
"""

from __future__ import annotations

from types import FunctionType, ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute, aule_is_default, wrap

__all__ = ["HOOKS"]

_COUNTING = ("dyt", "fused_add_rms_norm", "layer_norm", "modulated_rms_norm", "poly_norm", "rms_norm")


def _device(utils: ModuleType, patches: Patches) -> None:
    own = attribute(utils, "infer_device", FunctionType)

    @wrap(own)
    def infer_device():
        found = own()
        return "aule" if found == "cpu" and aule_is_default() else found

    patches.rebind(own, infer_device)


def _multiprocessors(default: int = 1) -> int:
    return torch.aule.get_device_properties(torch.aule.current_device()).as_dict()["multiprocessors"]


def _counts(module: ModuleType, patches: Patches) -> None:
    """Code that asks for the cores of an NPU gets our multiprocessors."""
    attribute(module, "get_npu_core_count")
    found = [
        function
        for function in vars(module).values()
        if isinstance(function, FunctionType)
        and function.__module__ == module.__name__
        and "get_npu_core_count" in function.__code__.co_names
        and "npu" in function.__code__.co_consts
    ]
    if not found:
        raise NotAsExpected(f"{module.__name__} counts no cores of an NPU")
    for function in found:
        (old,) = {constant for constant in function.__code__.co_consts if constant == "npu"}
        patches.set_constant(function, old, "aule")
    patches.set(module, "get_npu_core_count", _multiprocessors)


HOOKS = [
    Hook(
        "liger-kernel", "device", "liger_kernel.utils",
        "the device that operators are chosen for is aule, where it would be the CPU", _device, chooses_device=True,
    ),
    *(
        Hook(
            "liger-kernel", name, f"liger_kernel.ops.{name}",
            "backward takes as many workgroups as the device has multiprocessors", _counts, chooses_device=True,
        )
        for name in _COUNTING
    ),
]  # fmt: skip
