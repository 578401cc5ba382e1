"""Registers the backend with Dynamo and Inductor, and opens the doors that they keep for known devices."""

from __future__ import annotations

import functools
import warnings

import torch

from torch_aule.compile.doors import patches

__all__ = ["install", "install_interface", "skip_random_states"]


def _missing(what: str) -> None:
    warnings.warn(f"torch_aule: this PyTorch has no {what}; torch.compile on aule may fall short", stacklevel=3)


@functools.cache
def install_interface() -> None:
    """Make the device known to Dynamo."""
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_aule.compile.doors.interface import AuleInterface

    register_interface_for_device("aule", AuleInterface)
    for index in range(torch.aule.device_count()):
        register_interface_for_device(f"aule:{index}", AuleInterface)


@functools.cache
def skip_random_states() -> None:
    """States of generators live in tensors on the host that Dynamo must not trace: calls break the graph."""
    from torch._dynamo.decorators import skip

    from torch_aule.backend import random

    for name in random.__all__:
        skip(getattr(random, name))


@functools.cache
def install() -> None:
    """Make the device a backend of Inductor; a second call does nothing."""
    install_interface()
    from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides

    from torch_aule.compile import config
    from torch_aule.compile.doors.scheduling import GlslScheduling
    from torch_aule.compile.doors.wrapper import AuleDeviceOpOverrides, AuleWrapper
    from torch_aule.compile.flex.doors import install_flex_lowerings
    from torch_aule.compile.fx.lowerings import install_lowerings
    from torch_aule.compile.fx.passes import AulePass
    from torch_aule.compile.replay import install_graphs

    register_backend_for_device(
        "aule", GlslScheduling, AuleWrapper, device_custom_pass=AulePass(), device_custom_config=config
    )
    register_device_op_overrides("aule", AuleDeviceOpOverrides())
    _count_as_gpu()
    install_lowerings()
    install_graphs()
    install_flex_lowerings()
    for name in patches.install("inductor"):
        _missing(name)


def _count_as_gpu() -> None:
    """Turns on what Inductor does for GPUs alone: fusing scalars of the CPU into kernels, alignment of inputs, ..."""
    from torch._inductor import utils

    types = getattr(utils, "GPU_TYPES", None)
    if not isinstance(types, list):
        _missing("list torch._inductor.utils.GPU_TYPES")
        return
    if "aule" in types:
        return
    # get_gpu_type() asserts that one type of GPU is there, and keeps its answer: ours, unless there is a built-in one.
    others = [t for t in types if (module := getattr(torch, t, None)) is not None and module.is_available()]
    kept = [*types, "aule"]
    types[:] = others[:1] or ["aule"]
    if hasattr(utils.get_gpu_type, "cache_clear"):
        utils.get_gpu_type.cache_clear()
    utils.get_gpu_type()
    types[:] = kept
