"""Changes that the assistant can make by itself, each compared with the model before it by outputs and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn as nn

from torch_aule.measure.errors import tolerance_of
from torch_aule.validate import at_level

SAFE = ("layout", "compile", "graphs")  # they keep the dtype of every operation
APPLICABLE = (*SAFE[:1], "precision", *SAFE[1:])
FASTER = 0.98  # of the time before: within the noise the model stays as it is
LEVELS = {"graphs": "graphs", "compile": "compiled"}  # of torch_aule.validate; graphs are compiled, too


class _Autocast(nn.Module):
    def __init__(self, model: nn.Module, dtype: torch.dtype):
        super().__init__()
        self.model, self.dtype = model, dtype

    def forward(self, *args, **kwargs):
        with torch.autocast("aule", dtype=self.dtype):
            return self.model(*args, **kwargs)


@dataclass
class State:
    """A model and the changes that it has."""

    model: nn.Module
    changes: tuple[str, ...] = ()
    dtype: torch.dtype = torch.bfloat16

    def built(self) -> nn.Module:
        """The model as it is called."""
        built = _Autocast(self.model, self.dtype) if "precision" in self.changes else self.model
        return at_level(built, next((LEVELS[one] for one in LEVELS if one in self.changes), "eager"))


def to_channels_last(model: nn.Module) -> Callable[[], None]:
    """Make weights of convolutions channels-last; the result puts them back as they were."""
    before = [(t, t.data) for t in (*model.parameters(), *model.buffers())]
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def undo() -> None:
        for tensor, data in before:
            tensor.data = data

    return undo


def tolerance(expected: list[torch.Tensor], state: State) -> float:
    """By the widest error that the outputs' dtypes and the changes explain."""
    dtypes = {t.dtype for t in expected} | ({state.dtype} if "precision" in state.changes else set())
    return tolerance_of(dtypes).outputs
