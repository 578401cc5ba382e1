"""torch.cuda's questions about sensors and links between devices. Vulkan answers none, and these say so.

They raise rather than return a number, since a monitor would show it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_aule import _C
from torch_aule.indices import DeviceLike, checked_index

__all__ = ["can_device_access_peer", "clock_rate", "memory_usage", "power_draw", "temperature", "utilization"]


def _unknown(name: str, what: str, summary: str, elsewhere: str = "") -> Callable[[DeviceLike], int]:
    """The query `name`, which raises for every device that exists; `elsewhere` says what is known instead."""

    def query(device: DeviceLike = None) -> int:
        own = _C.device_properties(checked_index(device))["name"]
        raise NotImplementedError(
            f"torch.aule cannot tell {what} of {own}: Vulkan has no query for it. Ask the vendor's own tool or library."
        )

    query.__name__ = query.__qualname__ = name
    query.__doc__ = f"""{summary}: not known.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Never.{elsewhere}

    Raises
    ------
    NotImplementedError
        Always: Vulkan does not tell.
    """
    return query


utilization = _unknown("utilization", "the utilization", "Percent of the time in which the device was busy")
memory_usage = _unknown(
    "memory_usage",
    "how busy the memory is",
    "Percent of the time in which the device's memory was read or written",
    " Bytes in use are in :func:`torch.aule.mem_get_info`.",
)
temperature = _unknown("temperature", "the temperature", "Degrees Celsius")
power_draw = _unknown("power_draw", "the power draw", "Milliwatts")
clock_rate = _unknown("clock_rate", "the clock rate", "Clock in MHz")


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether a device reads another one's memory directly. Copies between devices go through the host here.

    Parameters
    ----------
    device, peer_device : torch.device, str or int
        Two devices that exist.

    Returns
    -------
    bool
        False.

    Raises
    ------
    RuntimeError
        If one of the devices does not exist.
    TypeError, ValueError
        If one names no device of this backend.
    """
    checked_index(device)
    checked_index(peer_device)
    return False
