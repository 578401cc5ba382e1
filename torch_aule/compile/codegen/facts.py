"""The device's facts that code generation depends on, as plain values."""

from __future__ import annotations

import functools

import torch

from torch_aule import _C
from torch_aule.compile.codegen.forms.fitting import DeviceFacts

__all__ = ["is_software", "matrices_of", "of_device", "properties_of"]


@functools.cache
def properties_of(index: int) -> dict:
    """All properties of a device by name."""
    return torch.aule.get_device_properties(index).as_dict()


@functools.cache
def _facts(index: int) -> DeviceFacts:
    p = properties_of(index)
    return DeviceFacts(
        software=p["kind"] == "cpu",
        subgroup_size=p["min_subgroup_size"],
        shuffles=p["subgroup_shuffle"] and p["subgroup_basic"],
        multiprocessors=p["multiprocessors"],
        max_workgroup_invocations=p["max_workgroup_invocations"],
        max_loop_iterations=p["max_loop_iterations"],
        float32_atomic_add=p["float32_atomic_add"],
        architecture=p["architecture"],
        shared_bytes=p["max_shared_bytes"],
        max_push_bytes=p["max_push_constant_bytes"],
    )


def of_device(device: torch.device) -> DeviceFacts:
    """The facts of a device of type aule."""
    return _facts(device.index or 0)


@functools.cache
def matrices_of(index: int, dtype: torch.dtype) -> dict:
    """The layout of a device's matrices for a dtype of 16 bits; the first call asks the device."""
    return _C.matrix_layout(index, dtype == torch.bfloat16)


def is_software(device: torch.device) -> bool:
    """True if the device is the processor itself."""
    return of_device(device).software
