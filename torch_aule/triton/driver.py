"""Triton's driver for this device: which device it is, and launches on its current stream.

Imports triton: `torch_aule.triton.door` loads this when Triton has been imported.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from torch_aule.accelerators import built_in_accelerator
from torch_aule.shader.generated import compile_generated
from torch_aule.triton.backend import HEAD, WARP, device_facts

__all__ = ["AuleDriver"]

# Triton keeps compiled kernels by a device's number alone. Beside another GPU's driver ours has numbers of its own.
_BESIDE = 1 << 16
_DESCRIPTOR = "tensordesc"  # how the type of a tensor's descriptor begins


@functools.cache
def _properties(index: int) -> dict:
    return torch.aule.get_device_properties(index).as_dict()


class _Utils:
    """What Triton asks of a device beside launches."""

    @staticmethod
    def get_device_properties(index: int) -> dict[str, int]:
        p = _properties(index % _BESIDE)
        return {
            "max_shared_mem": p["max_shared_bytes"], "multiprocessor_count": p["multiprocessors"], "warpSize": WARP,
            "max_num_regs": 65536, "sm_clock_rate": 0, "mem_clock_rate": 0, "mem_bus_width": 0,
        }  # fmt: skip

    @staticmethod
    def load_binary(name: str, binary: bytes, shared: int, device: int) -> tuple:
        head, _, source = binary.decode().partition("\n")
        kernel = compile_generated(source, name=_snake(name), signature=head.removeprefix(HEAD))
        return kernel, kernel, 0, 0, _properties(device % _BESIDE)["max_workgroup_invocations"]

    @staticmethod
    def unload_module(module) -> None:
        """The table of kernels forgets what is long unused."""


class _Launcher:
    """Calls a kernel with what Triton hands a launcher."""

    def __init__(self, source, metadata):
        self._taken = _positions(source.signature)
        self._descriptors = any(kind.startswith(_DESCRIPTOR) for _, kind in self._taken)

    def __call__(self, x, y, z, stream, kernel, packed, launch_metadata, enter, leave, *arguments):
        if enter is not None:
            enter(launch_metadata)
        if x > 0 and y > 0 and z > 0:
            values = [_argument(arguments, path, kind) for path, kind in self._taken]
            if self._descriptors:
                values = [part for value in values for part in _parts(value)]
            kernel(*values, x, y, z, x * y * z)
        if leave is not None:
            leave(launch_metadata)


def _parts(value) -> list:
    """A descriptor as the arguments that Triton's passes make of one; another value alone."""
    if isinstance(value, (torch.Tensor, int, float)):
        return [value]
    from triton.backends.driver import decompose_descriptor

    return [int(part) if isinstance(part, bool) else part for part in decompose_descriptor(value)]


def _argument(arguments: tuple, path: tuple[int, ...], kind: str):
    """A value as the kernel takes it: a tensor, or a number as a signed one of its bits."""
    value: Any = arguments
    for step in path:
        value = value[step]
    if kind.startswith(_DESCRIPTOR):
        return value
    if kind[0] == "*":
        return value if isinstance(value, torch.Tensor) else value.base  # a tensor that is read as another dtype
    if kind in ("u32", "u64"):
        bits = int(kind[1:])
        return value - (1 << bits) if value >> (bits - 1) else value
    return int(value) if kind[0] in "iu" else value


def _snake(name: str) -> str:
    return "triton_" + "".join(c if c.isalnum() else "_" for c in name).strip("_").lower()


def _positions(signature: dict) -> list[tuple[tuple[int, ...], str]]:
    """Of each argument of the kernel, where it is among those of the call, and its type; constants have none."""
    found: list[tuple[tuple[int, ...], str]] = []

    def visit(path: tuple[int, ...], kind) -> None:
        if isinstance(kind, tuple):
            for i, inner in enumerate(kind):
                visit((*path, i), inner)
        elif kind != "constexpr":
            found.append((path, kind))

    for i, kind in enumerate(signature.values()):
        visit((i,), kind)
    return found


class AuleDriver(DriverBase):
    """Launches on the current stream of the current aule device."""

    launcher_cls = _Launcher

    def __init__(self, first: int = 0):
        super().__init__()
        self.utils = _Utils()
        self._first = first

    @classmethod
    def beside(cls) -> AuleDriver:
        """A driver for a process that has another GPU's driver."""
        return cls(_BESIDE)

    @staticmethod
    def is_active() -> bool:
        """Whether Triton takes this driver by itself: where PyTorch has no GPU of its own."""
        return torch.aule.is_available() and not built_in_accelerator()

    def get_current_device(self) -> int:
        return self._first + torch.aule.current_device()

    def set_current_device(self, device: int) -> None:
        torch.aule.set_device(device % _BESIDE)

    def get_current_stream(self, device: int | None = None) -> int:
        return 0  # a launch finds the current stream by itself

    def get_current_target(self) -> GPUTarget:
        facts = repr(device_facts(torch.aule.current_device()))
        return GPUTarget("aule", hashlib.sha256(facts.encode()).hexdigest()[:16], WARP)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("aule", torch.aule.current_device())

    def get_device_interface(self):
        return torch.aule

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "uint64_t" if ty[0] == "*" else ty

    def get_benchmarker(self):
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(64 << 18, dtype=torch.int, device="aule")

    def clear_cache(self, cache: torch.Tensor) -> None:
        cache.zero_()
