"""Shared by the small examples: their start, times, and the comparison with the CPU in float64."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

os.environ.setdefault("TORCH_AULE_STRICT", "1")  # before the backend loads: no operator may run on the CPU

import torch
import torch.nn as nn

from torch_aule import validate
from torch_aule.measure.errors import errors

LIMIT = 1e-3  # relative to the largest element: what a few layers in float32 differ from float64 by, with room


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Options of every example."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="aule")
    return made


def begin(device: str) -> torch.device:
    """Register the device and name it; the program ends with 1 if there is none."""
    if device != "cpu":
        import torch_aule  # noqa: F401  registers the device

        if not torch.aule.is_available():
            print("no Vulkan device: `python -m torch_aule.info` says why", file=sys.stderr)
            sys.exit(1)
        print(f"device: {torch.aule.get_device_name(device)}")
    return torch.device(device)


def first_sentence(error: Exception) -> str:
    """Of an error's text, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.partition(". ")[0].rstrip(".")


def relative(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest expected element."""
    return errors(actual, expected)[0]


def error_of_training(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """Of the output and of every gradient, against the CPU in float64: the largest."""
    return validate.compare(model, inputs, training=True, runs=1).max_error


def verdict(error: float, limit: float = LIMIT) -> int:
    """Print the error; the exit status."""
    print(f"largest relative difference from the CPU in float64: {error:.1e} (limit {limit:.0e})")
    return 0 if error <= limit else 1


def train(model: nn.Module, batch: Callable[[], tuple], loss_of: Callable, steps: int, rate: float) -> list[float]:
    """Losses of some steps of Adam; `batch` gives inputs and targets, `loss_of` takes output and target."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        *inputs, target = batch()
        loss = loss_of(model(*inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    values = torch.stack(losses).tolist()
    print(f"loss {values[0]:.4f} -> {values[-1]:.4f} in {steps} steps")
    return values
