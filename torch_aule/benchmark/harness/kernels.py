"""The reference kernels: inputs, bytes and operations of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

MODES = ("forward", "backward", "full")
Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Kernel:
    """`x` is what a plot has along its axis; `other` are the further sizes with their defaults.

    The work is that of a forward call. A backward call reads the gradient of the result beside what forward reads, and
    writes the inputs' gradients; each product of forward has two in backward.
    """

    name: str
    x: str  # one of the sizes
    label: str
    other: dict[str, int]
    shapes: Callable[..., dict[str, tuple[int, ...]]]  # sizes -> operand -> shape
    function: Callable[..., torch.Tensor]  # of the operands, by this project's kernel on aule
    composed: Callable[..., torch.Tensor]  # the same of PyTorch's operators
    result: Callable[..., tuple[int, ...]]  # sizes -> shape
    flops: Callable[..., float] = lambda **sizes: 0.0  # of products only; the rest is bound by memory

    def sizes(self, x: int, other: dict[str, int] | None = None) -> dict[str, int]:
        unknown = set(other or {}) - set(self.other)
        if unknown:
            raise ValueError(f"{self.name}: no size {', '.join(sorted(unknown))}; there are {', '.join(self.other)}")
        return {**self.other, **(other or {}), self.x: x}

    def work(self, sizes: dict[str, int], dtype: torch.dtype, mode: str) -> tuple[float, float]:
        """Bytes that must move, and operations."""
        operands = sum(_count(shape) for shape in self.shapes(**sizes).values())
        result = _count(self.result(**sizes))
        elements = {"forward": operands + result, "backward": 2 * operands + result}
        times = {"forward": 1.0, "backward": 2.0, "full": 3.0}[mode]
        moved = elements[mode] if mode in elements else sum(elements.values())
        return float(moved * dtype.itemsize), times * self.flops(**sizes)

    def make(self, sizes: dict[str, int], dtype: torch.dtype, mode: str, device: str, composed: bool = False
             ) -> Callable[[], Tensors]:  # fmt: skip
        """A call of one mode, with the same inputs on every device."""
        function = self.composed if composed or torch.device(device).type != "aule" else self.function
        operands = [
            seeded(*shape, device=device, dtype=dtype, seed=seed, grad=mode != "forward")
            for seed, shape in enumerate(self.shapes(**sizes).values())
        ]
        if mode == "forward":
            return lambda: (function(*operands),)
        weight = seeded(*self.result(**sizes), device=device, dtype=dtype, seed=len(operands))
        if mode == "full":
            return lambda: torch.autograd.grad(function(*operands), operands, weight)
        kept = function(*operands)
        return lambda: torch.autograd.grad(kept, operands, weight, retain_graph=True)


def _count(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


def seeded(*shape: int, device: str, dtype: torch.dtype, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """Normal numbers made on the CPU: the same on each device, so that results can be compared."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype).to(device).requires_grad_(grad)


def _functional(name: str) -> Callable[..., torch.Tensor]:
    """Found when it is called: the process for CUDA, which never calls it, has no backend."""

    def call(*operands):
        from torch_aule import functional

        return getattr(functional, name)(*operands)

    return call


def _layer_norm(x, w, b):
    return F.layer_norm(x, w.shape, w, b)


def _softmax(x):
    return x.softmax(-1)


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            "layer_norm", "H", "hidden size", {"M": 4096}, lambda M, H: {"x": (M, H), "weight": (H,), "bias": (H,)},
            _layer_norm, _layer_norm, lambda M, H: (M, H),
        ),
        Kernel(
            "softmax", "N", "columns", {"M": 4096}, lambda M, N: {"x": (M, N)},
            _softmax, _softmax, lambda M, N: (M, N),
        ),
        Kernel(
            "diagonal_matmul", "N", "rows and columns", {"M": 4096}, lambda N, M: {"a": (N,), "b": (N, M)},
            _functional("diagonal_matmul"), lambda a, b: a[:, None] * b, lambda N, M: (N, M),
        ),
        Kernel(
            "fused_linear_rowsum", "N", "out features", {"B": 4096, "K": 4096},
            lambda B, K, N: {"x": (B, K), "weight": (N, K), "bias": (N,)},
            _functional("fused_linear_rowsum"), lambda x, w, b: F.linear(x, w, b).sum(-1), lambda B, K, N: (B,),
        ),
    )
}  # fmt: skip
