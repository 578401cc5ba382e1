"""The bound of a model: arithmetic, memory, or the host; and what a larger batch brings."""

from __future__ import annotations

import functools

import torch
import torch.nn as nn
from torch.utils._pytree import tree_leaves, tree_map

from torch_aule.backend.fallback import strict
from torch_aule.measure.errors import called
from torch_aule.measure.numbers import percent_text, time_text
from torch_aule.measure.runs import median_seconds
from torch_aule.profiling.advice import RULES
from torch_aule.profiling.report import Report

HOST = next(rule.threshold for rule in RULES if rule.name == "host_bound")
WORTH = 1.1  # samples a second with twice the batch, of those before


def shares(report: Report) -> dict[str, float]:
    """Of the device's time: kernels whose least time is that of their arithmetic, and of their bytes."""
    assert report.roof is not None
    found = {"compute": 0.0, "bandwidth": 0.0}
    for kernel in report.trace.kernels:
        arithmetic = report.roof.least_seconds(0.0, kernel.flops, kernel.dtype)
        found["compute" if arithmetic > report.roof.least_seconds(kernel.bytes) else "bandwidth"] += kernel.seconds
    total = sum(found.values())
    return {name: seconds / total if total else 0.0 for name, seconds in found.items()}


def host_share(report: Report) -> float:
    """Of a call: the time in which the device has nothing to do."""
    return max(0.0, 1.0 - report.trace.device_seconds / report.wall.median) if report.wall.median else 0.0


def bound_of(report: Report) -> str:
    """One of "host", "compute" and "bandwidth"."""
    if host_share(report) >= HOST:
        return "host"
    found = shares(report)
    return "compute" if found["compute"] > found["bandwidth"] else "bandwidth"


def batch_hint(model: nn.Module, inputs: tuple | dict, runs: int) -> str:
    """The gain of twice the batch, measured; or why it could not be."""
    tensors = [t for t in tree_leaves(inputs) if isinstance(t, torch.Tensor)]
    sizes = {t.shape[0] for t in tensors if t.dim()}
    if len(sizes) != 1 or not all(t.dim() for t in tensors) or 0 in sizes:
        return "batch size: the inputs do not share a first dimension, so no larger batch was tried"
    (batch,) = sizes
    medians = []
    try:
        for given in (inputs, tree_map(lambda t: torch.cat((t, t)) if isinstance(t, torch.Tensor) else t, inputs)):
            with torch.no_grad(), strict(False):
                medians.append(median_seconds(functools.partial(called, model, given), tensors[0].device, runs))
    except (RuntimeError, ValueError) as error:  # of the memory, or of a model with a fixed batch
        return f"batch size: twice the batch of {batch} does not run: {(str(error).splitlines() or [''])[0]}"
    gain = 2 * medians[0] / medians[1]
    numbers = f"{2 * batch} in place of {batch}: {time_text(medians[1])} in place of {time_text(medians[0])}"
    verdict = "a larger batch pays" if gain >= WORTH else "a larger batch brings little"
    return f"batch size: {verdict}, {gain:.2f} x as many samples a second ({numbers})"


def hints(report: Report, model: nn.Module, inputs: tuple | dict, runs: int) -> list[str]:
    """The advice, the first thing first."""
    found = []
    if report.dearest:
        first = report.dearest[0]
        found.append(
            f"profile first: {first.name} of {first.operator or 'no operator'} takes "
            f"{percent_text(report.share(first.seconds))} of the device's time; "
            "`python -m torch_aule.profiling` shows the rest"
        )
    found.append(batch_hint(model, inputs, runs))
    names = ", ".join(f"{entry.op} ({entry.count} calls)" for entry in report.on_cpu)
    found.append(f"fallbacks: {names} ran on the CPU" if names else "fallbacks: no operator ran on the CPU")
    return found + [f"{one.rule}: {one.finding}. {one.advice}" for one in report.advice]
