"""Which kernels a call spends the device's time in."""

from __future__ import annotations

from collections.abc import Callable

import torch

MOST = 5  # kernels that are named


def kernels(call: Callable[[], object]) -> dict:
    """Profile one call on the aule device.

    Returns
    -------
    dict
        device_ms: the sum of all commands' times; commands: how many; kernels: of the dearest, name, milliseconds and
        calls, dearest first. Names are without the variant.
    """
    torch.aule.synchronize()
    with torch.aule.profiler.profile() as trace:
        call()
        torch.aule.synchronize()
    found: dict[str, list] = {}
    for event in trace.key_averages():
        if event.device_type == torch.autograd.DeviceType.PrivateUse1 and not event.is_user_annotation:
            row = found.setdefault(event.key.split("(")[0].strip(), [0.0, 0])
            row[0] += event.self_device_time_total / 1e3
            row[1] += event.count
    rows = sorted(found.items(), key=lambda item: -item[1][0])
    return {
        "device_ms": round(sum(ms for _, (ms, _) in rows), 4),
        "commands": sum(count for _, (_, count) in rows),
        "kernels": [[name, round(ms, 4), count] for name, (ms, count) in rows[:MOST]],
    }


def of_aule(device: str, call: Callable[[], object]) -> dict:
    """`kernels` on this device, nothing on another: `values` of a case."""
    return kernels(call) if device == "aule" else {}


def difference(ours: list[float], theirs: list[float]) -> float:
    """Relative error in the Euclidean norm of two outputs' elements."""
    a, b = torch.tensor(ours, dtype=torch.float64), torch.tensor(theirs, dtype=torch.float64)
    return float((a - b).norm() / b.norm())
