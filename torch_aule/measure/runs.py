"""Runs of a model that can be compared: its outputs and gradients, and what a call costs."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn as nn
from torch.utils._pytree import tree_leaves, tree_map

from torch_aule.measure.errors import Tolerance, called, errors, evaluating, host_tensors, tolerance_of
from torch_aule.measure.results import Comparison, Part
from torch_aule.measure.timing import Stopwatch

SMALL_GRADIENT = 1e-2  # of the largest of all: one that ought to be zero is rounding and has no size of its own


@dataclass
class Run:
    """A call of a model: its tensors on the CPU, by name, and what it cost."""

    outputs: dict[str, torch.Tensor]
    gradients: dict[str, torch.Tensor | None]
    dtypes: set[torch.dtype]
    seconds: float
    peak_bytes: int | None


def given(x: Any) -> tuple | dict:
    return dict(x) if isinstance(x, Mapping) else tuple(x) if isinstance(x, (tuple, list)) else (x,)


def widened(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.complex128 if t.is_complex() else torch.float64 if t.is_floating_point() else t.dtype)


def placed(inputs, device: torch.device, wide: bool = False):
    def place(t):
        if not isinstance(t, torch.Tensor):
            return t
        moved = t.detach().to(device)
        return widened(moved) if wide else moved

    return tree_map(place, inputs)


def plain(model: nn.Module) -> nn.Module:
    """Without torch.compile's wrapper."""
    return getattr(model, "_orig_mod", model)


def device_of(model: nn.Module, inputs) -> torch.device:
    tensors = [*model.parameters(), *model.buffers(), *(t for t in tree_leaves(inputs) if isinstance(t, torch.Tensor))]
    return tensors[0].device if tensors else torch.device("cpu")


def _differentiable(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())


def _loss(outputs: list[torch.Tensor]) -> torch.Tensor:
    """A weighted sum of all outputs: fixed random weights, since equal ones would cancel what a softmax gets wrong."""
    total: Any = 0.0
    for number, y in enumerate(outputs):
        weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        y = torch.view_as_real(y).sum(-1) if y.is_complex() else y
        total = total + (y * weights.to(y.device, y.dtype)).sum()
    return total


def seconds_of(call: Callable[[], object], device: torch.device) -> float:
    watch = Stopwatch(device)
    call()
    return watch.seconds


def median_seconds(call: Callable[[], object], device: torch.device, runs: int, warm: int = 2) -> float:
    """Of a call until the device has done it, after some that make the kernels."""
    return statistics.median([seconds_of(call, device) for _ in range(runs + warm)][warm:])


def _call(model: nn.Module, inputs, gradients: bool) -> tuple[Any, list[str], Sequence[torch.Tensor | None]]:
    """Outputs, and the gradients with their names."""
    if not gradients:
        with torch.no_grad():
            return called(model, inputs), [], []
    inputs = tree_map(lambda t: t.detach().clone().requires_grad_() if _differentiable(t) else t, inputs)
    keys = list(inputs) if isinstance(inputs, dict) else range(len(inputs))
    wanted = [(f"gradient of input {key}", t) for key in keys for t in tree_leaves(inputs[key]) if _differentiable(t)]
    wanted += [(f"gradient of {name}", p) for name, p in plain(model).named_parameters() if p.requires_grad]
    with torch.enable_grad():
        outputs = called(model, inputs)
        found = [t for t in tree_leaves(outputs) if _differentiable(t) and t.requires_grad]
        if not found or not wanted:
            return outputs, [], []
        grads = torch.autograd.grad(_loss(found), [t for _, t in wanted], allow_unused=True)
    return outputs, [name for name, _ in wanted], grads


def ran(model: nn.Module, inputs, gradients: bool, runs: int) -> Run:
    """Buffers that a call changes, as batch norm's, are put back after each."""
    device = device_of(model, inputs)
    kept = [(buffer, buffer.detach().clone()) for buffer in plain(model).buffers()]

    def call():
        try:
            return _call(model, inputs, gradients)
        finally:
            with torch.no_grad():
                for buffer, value in kept:
                    buffer.copy_(value)

    outputs, names, grads = call()
    dtypes = {t.dtype for t in [*plain(model).parameters(), *tree_leaves(inputs)] if _differentiable(t)}
    outputs = {f"output {i}": t for i, t in enumerate(host_tensors(outputs))}
    grads = {name: None if g is None else g.detach().cpu() for name, g in zip(names, grads, strict=True)}
    peak = None
    if device.type == "aule":
        torch.aule.reset_peak_memory_stats(device)
        before = torch.aule.memory_allocated(device)
        call()
        peak = torch.aule.max_memory_allocated(device) - before
    return Run(outputs, grads, dtypes, median_seconds(call, device, runs, warm=0), peak)


def _parts(ours: Run, theirs: Run, computed_in: torch.dtype | None, tolerances: Mapping | None) -> list[Part]:
    given = (tolerances or {}).items()
    known = {dtype: one if isinstance(one, Tolerance) else Tolerance(one, one) for dtype, one in given}
    also = ours.dtypes | ({computed_in} if computed_in is not None else set())

    def limit(t: torch.Tensor) -> Tolerance:
        return tolerance_of({t.dtype, *also} if _differentiable(t) else {t.dtype}, known)

    parts = [
        Part(name, *errors(a, e), limit(a).outputs) if (e := theirs.outputs.get(name)) is not None
        else Part(name, float("inf"), float("inf"), limit(a).outputs)
        for name, a in ours.outputs.items()
    ]  # fmt: skip
    parts += [Part(name, float("inf"), float("inf"), 0.0) for name in theirs.outputs if name not in ours.outputs]
    largest = max((g.abs().max().item() for g in theirs.gradients.values() if g is not None and g.numel()), default=0.0)
    for name, a in ours.gradients.items():
        e = theirs.gradients.get(name)
        if name not in theirs.gradients or (a is None and e is None):
            continue
        error = errors(a, e, SMALL_GRADIENT * largest) if a is not None and e is not None else (float("inf"),) * 2
        one = a if a is not None else e
        assert one is not None
        parts.append(Part(name, *error, limit(one).gradients))
    return parts


def _left_out(ours: Run, theirs: Run) -> list[str]:
    alone = sorted(set(ours.gradients) ^ set(theirs.gradients))
    if not alone:
        return []
    return [f"only one of the two has the {', the '.join(alone[:4])}" + (", ..." if len(alone) > 4 else "")]


def on_the_cpu(model: nn.Module, inputs, gradients: bool, runs: int, notes: list[str]) -> tuple[str, Run]:
    """In float64; a model that does not run so, since its source names a dtype, in its own dtypes."""
    cpu = torch.device("cpu")
    reference = copy.deepcopy(plain(model)).to(cpu)
    try:
        wide = copy.deepcopy(reference)._apply(widened)
        return "the CPU in float64", ran(wide, placed(inputs, cpu, wide=True), gradients, runs)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        first = (str(error).splitlines() or [""])[0]
        notes.append(f"the model does not run in float64 ({first}): its own dtypes on the CPU instead")
    return "the CPU", ran(reference, placed(inputs, cpu), gradients, runs)


@contextmanager
def modes_of(training: bool, *models: nn.Module) -> Iterator[None]:
    """Evaluation mode for all of them, unless they train."""
    with ExitStack() as stack:
        for model in models if not training else ():
            stack.enter_context(evaluating(plain(model)))
        yield


def compared(name: str, other: str, ours: Run, theirs: Run, computed_in, tolerances, notes=()) -> Comparison:
    return Comparison(
        name, other, _parts(ours, theirs, computed_in, tolerances), ours.seconds, theirs.seconds, ours.peak_bytes,
        theirs.peak_bytes, [*notes, *_left_out(ours, theirs)],
    )  # fmt: skip
