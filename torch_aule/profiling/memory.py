"""Memory of a model by module, while it runs once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class ModuleMemory:
    """A module without children, in one call of the model.

    Attributes
    ----------
    name, kind : str
        Its path in the model, and its class.
    calls : int
        How often it ran.
    parameter_bytes : int
        Of its parameters and buffers; what another module has too counts in the first.
    output_bytes : int
        Of its outputs, all calls together.
    peak_bytes : int
        What its calls took at most beyond what was there before them, results included.
    """

    name: str
    kind: str
    calls: int = 0
    parameter_bytes: int = 0
    output_bytes: int = 0
    peak_bytes: int = 0


@dataclass(frozen=True)
class Memory:
    """Bytes on the device while a model runs.

    Attributes
    ----------
    before : int
        In tensors before the call: parameters, inputs, and whatever else the program holds.
    peak : int
        At most in tensors during the call.
    reserved, total : int
        Held by the allocator, and what the device has.
    modules : list of ModuleMemory
        The largest first, by parameters and outputs.
    """

    before: int
    peak: int
    reserved: int
    total: int
    modules: list[ModuleMemory]


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)


def _bytes(tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def watch(model: nn.Module, function: Callable[[], object], device: torch.device) -> Memory:
    """Run `function`, which calls `model`, and look at the allocator around each module without children."""
    rows: dict[nn.Module, ModuleMemory] = {}
    seen: set[int] = set()
    peak = 0
    open_calls: list[list[int]] = []  # of modules that run: bytes before, and at most until now

    def note() -> None:
        """Take the allocator's peak since the last look into all that run."""
        nonlocal peak
        highest = torch.aule.max_memory_allocated(device)
        torch.aule.reset_peak_memory_stats(device)
        peak = max(peak, highest)
        for call in open_calls:
            call[1] = max(call[1], highest)

    def enter(module, _inputs):
        note()
        allocated = torch.aule.memory_allocated(device)
        open_calls.append([allocated, allocated])

    def leave(module, _inputs, output):
        note()
        row, (before, highest) = rows[module], open_calls.pop()
        row.calls += 1
        row.output_bytes += _bytes(t for t in _tensors(output) if t.device.type == "aule")
        row.peak_bytes = max(row.peak_bytes, highest - before)

    handles = []
    for name, module in model.named_modules():
        own = [t for t in (*module.parameters(False), *module.buffers(False)) if id(t) not in seen]
        seen.update(map(id, own))
        if any(True for _ in module.children()) and not own:
            continue
        rows[module] = ModuleMemory(name or "(the model)", type(module).__name__, parameter_bytes=_bytes(own))
        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    torch.aule.synchronize(device)
    torch.aule.reset_peak_memory_stats(device)
    before = torch.aule.memory_allocated(device)
    try:
        result = function()
        torch.aule.synchronize(device)
        del result
    finally:
        for handle in handles:
            handle.remove()
    note()
    modules = sorted(rows.values(), key=lambda row: -(row.parameter_bytes + row.output_bytes))
    total = torch.aule.mem_get_info(device)[1]
    return Memory(before, peak, torch.aule.memory_reserved(device), total, modules)
