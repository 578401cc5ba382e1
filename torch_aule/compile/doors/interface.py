"""Dynamo's interface of the device. Imported while Inductor is being imported: it must not import Inductor."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import torch
from torch._dynamo.device_interface import DeviceInterface

__all__ = ["AuleInterface"]


def _index(device) -> int:
    if device is None:
        return torch.aule.current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return torch.aule.current_device() if index is None else index


def _properties(device=None) -> SimpleNamespace:
    p = torch.aule.get_device_properties(_index(device)).as_dict()
    return SimpleNamespace(
        # 0 would keep Inductor from splitting reductions.
        multi_processor_count=max(1, p["multiprocessors"]),
        warp_size=p["subgroup_size"],
        max_threads_per_multi_processor=2048,
        max_threads_per_block=p["max_workgroup_invocations"],
        total_memory=p["total_memory"],
        name=p["name"],
    )


class AuleInterface(DeviceInterface):
    """Device aule, as Dynamo's interface of devices wants it."""

    device = torch.aule.device
    Event = torch.Event
    Stream = torch.Stream

    class Worker:
        """Questions of a compile worker."""

        @staticmethod
        def set_device(device: int) -> None:
            torch.aule.set_device(device)

        @staticmethod
        def current_device() -> int:
            return torch.aule.current_device()

        @staticmethod
        def get_device_properties(device=None):
            return _properties(device)

    current_device = staticmethod(torch.aule.current_device)
    set_device = staticmethod(torch.aule.set_device)
    device_count = staticmethod(torch.aule.device_count)
    is_available = staticmethod(torch.aule.is_available)
    synchronize = staticmethod(torch.aule.synchronize)
    stream = staticmethod(torch.aule.stream)
    current_stream = staticmethod(torch.aule.current_stream)
    set_stream = staticmethod(torch.aule.set_stream)
    memory_allocated = staticmethod(torch.aule.memory_allocated)
    get_device_properties = staticmethod(_properties)

    @staticmethod
    def exchange_device(device: int) -> int:
        previous = torch.aule.current_device()
        if device >= 0:
            torch.aule.set_device(device)
        return previous

    maybe_exchange_device = exchange_device

    @staticmethod
    def get_raw_stream(device_index: int) -> int:
        return torch.aule.current_stream(device_index).stream_id

    @staticmethod
    def is_gpu() -> bool:
        return True

    @staticmethod
    def is_triton_capable(device=None) -> bool:
        return True

    @classmethod
    def raise_if_triton_unavailable(cls, device=None) -> None:
        if importlib.util.find_spec("triton") is None:
            raise RuntimeError("Triton is not installed: pip install triton (docs/use/triton.md)")

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        # False would make every graph with a bfloat16 input run eagerly, without a word.
        return True

    @classmethod
    def is_dtype_supported(cls, dtype, including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def get_compute_capability(device=None) -> str:
        p = torch.aule.get_device_properties(_index(device)).as_dict()
        return f"{p['architecture']}-{p['driver_name']}-{p['driver_version']}"
