"""What torch.cuda asks of a device's sensors, and of links between devices. Vulkan tells none of it, so these say so.

They raise rather than return a number, since a monitor would show it.
"""

from __future__ import annotations

from torch_aule import _C
from torch_aule._utils import DeviceLike, checked_index

__all__ = ["can_device_access_peer", "clock_rate", "memory_usage", "power_draw", "temperature", "utilization"]


def _unknown(what: str, device: DeviceLike):
    name = _C.device_properties(checked_index(device))["name"]
    raise NotImplementedError(
        f"torch.aule cannot tell {what} of {name}: Vulkan has no query for it. Ask the vendor's own tool or library."
    )


def utilization(device: DeviceLike = None) -> int:
    """Percent of the time in which the device was busy: not known.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Never.

    Raises
    ------
    NotImplementedError
        Always: Vulkan does not tell.
    """
    return _unknown("the utilization", device)


def memory_usage(device: DeviceLike = None) -> int:
    """Percent of the time in which the device's memory was read or written: not known.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Never. Bytes in use are in :func:`torch.aule.mem_get_info`.

    Raises
    ------
    NotImplementedError
        Always: Vulkan does not tell.
    """
    return _unknown("how busy the memory is", device)


def temperature(device: DeviceLike = None) -> int:
    """Degrees Celsius: not known.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Never.

    Raises
    ------
    NotImplementedError
        Always: Vulkan does not tell.
    """
    return _unknown("the temperature", device)


def power_draw(device: DeviceLike = None) -> int:
    """Milliwatts: not known.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Never.

    Raises
    ------
    NotImplementedError
        Always: Vulkan does not tell.
    """
    return _unknown("the power draw", device)


def clock_rate(device: DeviceLike = None) -> int:
    """Clock in MHz: not known.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    int
        Never.

    Raises
    ------
    NotImplementedError
        Always: Vulkan does not tell.
    """
    return _unknown("the clock rate", device)


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
