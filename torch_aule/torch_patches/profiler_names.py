"""Times and memory of the device by its name in PyTorch's profiler, as `cuda_time_total` is `device_time_total`.

`EventList.table(sort_by=...)` puts "device" for the names of the built-in devices, and takes any attribute of a row.
"""

from __future__ import annotations

import operator

from torch.autograd import profiler_util

__all__ = ["install"]

_NAMES = ("device_time", "device_time_total", "self_device_time_total", "device_memory_usage",
          "self_device_memory_usage")  # fmt: skip


def install(name: str) -> None:
    """Give the profiler's rows a property for each, read from the device's."""
    for row in (profiler_util.FunctionEvent, profiler_util.FunctionEventAvg):
        for of_device in _NAMES:
            setattr(row, of_device.replace("device", name), property(operator.attrgetter(of_device)))
