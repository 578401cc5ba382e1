"""The kernels in which a call spends the device's time."""

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
    from torch_aule.profiling import trace  # the process for CUDA has no backend to trace

    torch.aule.synchronize()
    taken = trace.take(call, 1, None)
    return {
        "device_ms": round(taken.device_seconds * 1e3, 4),
        "commands": round(taken.launches + sum(copy.calls for copy in taken.copies)),
        "kernels": [[one.name, round(one.seconds * 1e3, 4), round(one.calls)] for one in taken.kernels[:MOST]],
    }


def of_aule(device: str, call: Callable[[], object]) -> dict:
    """`kernels` on this device, nothing on another: `values` of a case."""
    return kernels(call) if device == "aule" else {}


def difference(ours: list[float], theirs: list[float]) -> float:
    """Relative error in the Euclidean norm of two outputs' elements."""
    a, b = torch.tensor(ours, dtype=torch.float64), torch.tensor(theirs, dtype=torch.float64)
    return float((a - b).norm() / b.norm())
