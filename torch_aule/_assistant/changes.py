"""Changes that the assistant can make by itself, each compared with the model before it by outputs and time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn as nn
from torch.utils._pytree import tree_leaves

SAFE = ("layout", "compile", "graphs")  # they keep the dtype of every operation
APPLICABLE = (*SAFE[:1], "precision", *SAFE[1:])
FASTER = 0.98  # of the time before: within the noise the model stays as it is
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}
MODES = {"compile": None, "graphs": "reduce-overhead"}


class _Autocast(nn.Module):
    def __init__(self, model: nn.Module, dtype: torch.dtype):
        super().__init__()
        self.model, self.dtype = model, dtype

    def forward(self, *args, **kwargs):
        with torch.autocast("aule", dtype=self.dtype):
            return self.model(*args, **kwargs)


@contextmanager
def evaluating(model: nn.Module):
    """Evaluation mode, and each module's own mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@dataclass
class State:
    """A model and the changes that it has."""

    model: nn.Module
    changes: tuple[str, ...] = ()
    dtype: torch.dtype = torch.bfloat16

    def built(self) -> nn.Module:
        """The model as it is called."""
        built = _Autocast(self.model, self.dtype) if "precision" in self.changes else self.model
        return torch.compile(built, mode=MODES[self.compiled_by]) if self.compiled_by else built

    @property
    def compiled_by(self) -> str:
        return "graphs" if "graphs" in self.changes else "compile" if "compile" in self.changes else ""


def to_channels_last(model: nn.Module) -> Callable[[], None]:
    """Make weights of convolutions channels-last; the result puts them back as they were."""
    before = [(t, t.data) for t in (*model.parameters(), *model.buffers())]
    model.to(memory_format=torch.channels_last)

    def undo() -> None:
        for tensor, data in before:
            tensor.data = data

    return undo


def host_tensors(outputs: Any) -> list[torch.Tensor]:
    """All tensors of nested outputs, on the CPU, copies."""
    return [t.detach().to("cpu", copy=True) for t in tree_leaves(outputs) if isinstance(t, torch.Tensor)]


def difference(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest, relative to the expected tensor's largest element; infinite where shapes or NaNs differ."""
    if [t.shape for t in actual] != [t.shape for t in expected]:
        return float("inf")
    worst = 0.0
    for a, e in zip(actual, expected, strict=True):
        wide = torch.complex128 if a.is_complex() or e.is_complex() else torch.float64
        a, e = a.to(wide), e.to(wide)
        same = (a == e) | (a.isnan() & e.isnan())
        if bool(same.all()):
            continue
        finite = e[e.isfinite()].abs()
        scale = max(finite.max().item() if finite.numel() else 0.0, 1e-30)
        error = ((a - e)[~same].abs() / scale).max().item()
        worst = max(worst, error if error == error else float("inf"))
    return worst


def tolerance(expected: list[torch.Tensor], state: State) -> float:
    """By the widest error that the outputs' dtypes and the changes explain."""
    dtypes = {t.dtype for t in expected} | ({state.dtype} if "precision" in state.changes else set())
    return max(TOLERANCES.get(dtype, 0.0) for dtype in dtypes) if dtypes else 0.0
