"""Triton's driver for this device: which device it is, and launches on its current stream.

Imports triton: `torch_aule.triton.door` loads this when Triton has been imported.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from torch_aule.accelerators import built_in_accelerator
from torch_aule.shader.generated import compile_generated
from torch_aule.triton.backend import HEAD, WARP, device_facts
from torch_aule.triton.checks import site_texts

__all__ = ["AuleDriver", "reach"]

# Triton keeps compiled kernels by a device's number alone. Beside another GPU's driver ours has numbers of its own.
_BESIDE = 1 << 16
_DESCRIPTOR = "tensordesc"  # how the type of a tensor's descriptor begins


@functools.cache
def _properties(index: int) -> dict:
    return torch.aule.get_device_properties(index).as_dict()


class _Utils:
    """Triton's questions about a device beside launches."""

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
        if texts := site_texts(source):
            kernel = _Checked(kernel, texts)
        return kernel, kernel, 0, 0, _properties(device % _BESIDE)["max_workgroup_invocations"]

    @staticmethod
    def unload_module(module) -> None:
        """The table of kernels forgets what is long unused."""


_PROBE = """struct Params {
  uint64_t to;
  int64_t place;
  uint error_tag;
};
layout(local_size_x = 1) in;
#include "common/indexing.glsl"
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Tags { uint v; };
void main() { Tags(p.to + uint64_t(p.place) * 4ul).v = p.error_tag; }
"""
_known_tags: dict[str, int] = {}
_tags_lock = threading.Lock()


def _tags(texts: list[str]) -> list[int]:
    """The numbers by which errors name texts.

    A number is given to a kernel that has the text for its name, and the kernel tells it. While a graph is captured
    nothing can tell, and errors name the whole kernel.
    """
    with _tags_lock:
        new = [text for text in dict.fromkeys(texts) if text not in _known_tags]
        if new and torch.aule.is_current_stream_capturing():
            return [0] * len(texts)
        if new:
            found = torch.zeros(len(new), dtype=torch.int32, device="aule")
            for i, text in enumerate(new):
                compile_generated(_PROBE, name=text, signature="wlt")(found, i, 1)
            _known_tags.update(zip(new, found.tolist()))
        return [_known_tags[text] for text in texts]


class _Checked:
    """A kernel that gets the numbers of its sites, behind its other arguments."""

    def __init__(self, kernel, texts: list[str]):
        self._kernel, self._tags = kernel, _tags(texts)

    def __call__(self, *arguments):
        *others, groups = arguments
        self._kernel(*others, *self._tags, groups)


class _Launcher:
    """Calls a kernel with what Triton hands a launcher."""

    def __init__(self, source, metadata):
        self._taken = _positions(source.signature)
        self._checks = metadata.check_bounds
        self._descriptors = any(kind.startswith(_DESCRIPTOR) for _, kind in self._taken)

    def __call__(self, x, y, z, stream, kernel, packed, launch_metadata, enter, leave, *arguments):
        if enter is not None:
            enter(launch_metadata)
        if x > 0 and y > 0 and z > 0:
            values = [_argument(arguments, path, kind) for path, kind in self._taken]
            if self._descriptors:
                values = [part for value in values for part in _parts(value)]
            bounds = _bounds(values) if self._checks else ()
            kernel(*values, x, y, z, *bounds, x * y * z)
        if leave is not None:
            leave(launch_metadata)


def _parts(value) -> list:
    """A descriptor as the arguments that Triton's passes make of one; another value alone.

    Shape and strides come twice, as of the descriptor and behind it. Triton 3.6 does not know `round_f32_to_tf32`, and
    older ones know no padding.
    """
    if isinstance(value, (torch.Tensor, int, float)):
        return [value]
    numbers = [*value.shape, *value.strides]
    flags = [value.padding == "nan"] if hasattr(value, "padding") else []
    if hasattr(value, "round_f32_to_tf32"):
        flags.append(value.round_f32_to_tf32)
    return [reach(value.base), *map(int, [*numbers, *flags, *numbers])]


def reach(value: torch.Tensor) -> torch.Tensor:
    """The memory that a kernel may touch from a tensor's first element on: all that follows in the storage.

    A launch is ordered with others by the memory of the tensors that it is given, and a kernel of Triton gets a mere
    address. What lies before a view's first element is not declared.

    Parameters
    ----------
    value : Tensor

    Returns
    -------
    Tensor
        With the same address.
    """
    count = value.numel()
    if count == 0:
        return value
    rest = value.untyped_storage().nbytes() // value.element_size() - value.storage_offset()
    if count == rest and value.is_contiguous():
        return value
    return (value.detach() if value.requires_grad else value).as_strided((rest,), (1,))


def _argument(arguments: tuple, path: tuple[int, ...], kind: str):
    """A value as the kernel takes it: a tensor, or a number as a signed one of its bits."""
    value: Any = arguments
    for step in path:
        value = value[step]
    if kind.startswith(_DESCRIPTOR):
        return value
    if kind[0] == "*":
        return reach(value if isinstance(value, torch.Tensor) else value.base)  # a tensor that is read as another dtype
    if kind in ("u32", "u64"):
        bits = int(kind[1:])
        return value - (1 << bits) if value >> (bits - 1) else value
    return int(value) if kind[0] in "iu" else value


def _bounds(values: list) -> list[int]:
    """For each tensor the bytes of its storage before its first element, and from there on."""
    found: list[int] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            before = int(value.storage_offset()) * value.element_size()
            found += [before, int(value.untyped_storage().nbytes()) - before] if value.numel() else [0, 0]
    return found


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
