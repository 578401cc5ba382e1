"""A case: one thing that is measured, on this device and on what it is compared with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from torch_aule.benchmark.harness.gpt2 import Gpt2Config
from torch_aule.benchmark.harness.targets import Target

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Wanted:
    """Cases that the command line describes, rather than a list of a group."""

    families: tuple[str, ...] = ()  # of cases/chosen.py
    kernels: tuple[str, ...] = ()  # of kernels.py
    sizes: tuple[int, ...] = ()  # empty: the family's own
    lengths: tuple[int, ...] = ()
    batches: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()  # torch's names
    backward: bool = False
    modes: tuple[str, ...] = ()  # of kernels, instead of what `backward` says
    other: dict[str, int] = field(default_factory=dict)  # further sizes of a kernel, in place of its own


@dataclass(frozen=True)
class Sizes:
    """All that a test shrinks to run every case on a software device."""

    software: bool = False  # the lists for devices that compute on the CPU's cores; the rest is for GPUs
    total: int = 1 << 26  # batch x heads x N x D
    lengths: tuple[int, ...] = (2048, 8192)
    plot_lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384)
    dims: tuple[int, ...] = (64, 128)
    other_dims: tuple[int, ...] = (32, 80, 96, 192, 256)
    other_length: int = 4096
    odd_length: tuple[int, int] = (2000, 2048)  # and the one that it is held against
    gemm: tuple[int, ...] = (4096, 8192)
    gemm_float32: int = 4096
    few_rows: tuple[int, int] = (8192, 8192)
    quantized: tuple[tuple[int, int], ...] = ((14336, 4096), (29568, 8192))  # rows of the weight, and their length
    quantized_rows: tuple[int, ...] = (1, 16, 512)  # of x
    vocabulary: tuple[int, int, int, int] = (8192, 768, 50257, 50304)  # tokens, width; odd rows, and even ones
    decode_keys: tuple[int, ...] = (16384, 131072)
    rows: tuple[int, int] = (16384, 4096)
    fft_points: int = 1 << 24  # of all transforms of a call
    sound_seconds: float = 30.0  # as much as Whisper hears at once
    cold_bytes: int = 1 << 28  # inputs of a memory-bound case are rotated until they cover this much
    tiny_ops: int = 300
    training_steps: int = 1000
    layer_most: tuple[int, int, int] | None = None  # images, channels and extent of layers; None: as they are in models
    gpt2: Gpt2Config = Gpt2Config()
    wanted: Wanted | None = None


GPU = Sizes()
SOFTWARE = Sizes(software=True)


@dataclass(frozen=True)
class Case:
    """A measurement and its settings.

    `clock` is one of

    - ``events``: the device's own time between two events; short calls are queued behind other work
    - ``wall``: the host's time from the call to the end of the device's work
    - ``host``: the host's time to issue a call, without waiting for the device
    - ``once``: `make` returns numbers that are not times of a call, and nothing is repeated
    """

    group: str
    name: str
    shapes: str
    dtype: str
    make: Callable[[str], Callable[[], object]]  # device -> call, with its inputs on the device
    clock: str = "events"
    flops: float = 0.0  # of one call
    bytes: float = 0.0  # moved by one call, at least
    target: Target | None = None
    baselines: dict[str, Callable] | None = None  # kernels of CUDA: name -> context that asks for it; None: "cuda" only
    ops: int = 1  # the time is for one of them, and a call runs that many
    needed_bytes: int = 0  # outputs of a call: what its peak memory is held against
    main: bool = True  # also in --quick
    queued: bool = True  # the GPU's own time; False: the host's pace counts too
    autograd: bool = False  # CUDA then runs in a process of its own: beside aule its autograd does not work
    aule_only: bool = False
    makers: dict[str, Callable[[str], Callable]] | None = None  # runner -> its own `make`, for other libraries' kernels
    tolerance: float = 0.0  # relative error of "output" beside a baseline's; 0: it is not held against any
    values: Callable[[str, Callable], dict] | None = None  # (device, call) -> what else is recorded, after the samples

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.group, self.name, self.shapes, self.dtype

    def maker(self, runner: str) -> Callable[[str], Callable]:
        return (self.makers or {}).get(runner, self.make)

    def contexts(self, baseline: str) -> dict[str, Callable]:
        """Runners that a baseline stands for, each with its context: CUDA may have several kernels."""
        if baseline == "cuda" and self.baselines:
            return self.baselines
        return {baseline: contextlib.nullcontext}


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def randn(*size: int, device: str, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.randn(*size, device=device, dtype=dtype).requires_grad_(grad)


def copies(sizes: Sizes, bytes_of_one: int) -> int:
    """Inputs to rotate, so that caches hold none when its turn comes again."""
    return min(16, max(1, -(-sizes.cold_bytes // bytes_of_one)))
