"""The devices' Philox generators. None of these starts a device: a generator's state lives on the host."""

from __future__ import annotations

import torch

from torch_aule import _C
from torch_aule.indices import DeviceLike, checked_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _unsigned(seed: int) -> int:
    return int(seed) & 0xFFFF_FFFF_FFFF_FFFF  # negative seeds wrap, as in torch.manual_seed


def _get_generator(device: DeviceLike = None) -> torch.Generator:
    return _C.default_generator(checked_index(device))


def get_rng_state(device: DeviceLike = "aule") -> torch.Tensor:
    """State of a device's generator.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Returns
    -------
    torch.Tensor
        uint8 ``[16]`` on the host: the seed and the offset of the next number.

    Raises
    ------
    RuntimeError
        If the device does not exist.
    TypeError, ValueError
        If `device` names no device of this backend.
    """
    return _C.get_rng_state(checked_index(device))


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices' generators."""
    return [get_rng_state(i) for i in range(_C.device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "aule") -> None:
    """Set a device's generator to a state that it had.

    Parameters
    ----------
    new_state : torch.Tensor
        uint8 ``[16]`` on the host, from :func:`get_rng_state`.
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    TypeError
        If `new_state` is no uint8 tensor, or `device` no device.
    RuntimeError
        If `new_state` has another size, or the device does not exist.
    ValueError
        If `device` is of another kind.
    """
    if not isinstance(new_state, torch.Tensor) or new_state.dtype != torch.uint8:
        raise TypeError("the state of a generator is a ByteTensor")
    _C.set_rng_state(new_state, checked_index(device))


def set_rng_state_all(new_states) -> None:
    """Set all devices' generators.

    Parameters
    ----------
    new_states : iterable of torch.Tensor
        A state for each device, from :func:`get_rng_state_all`.

    Raises
    ------
    TypeError, RuntimeError
        As :func:`set_rng_state`; RuntimeError also if there are more states than devices.
    """
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator. Does nothing when there is no device.

    Parameters
    ----------
    seed : int
        Taken modulo 2^64, so that negative numbers wrap, as in ``torch.manual_seed``.
    """
    if _C.device_count():
        _C.manual_seed(_unsigned(seed), _C.current_device())


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator; ``torch.manual_seed`` calls this.

    Parameters
    ----------
    seed : int
        Taken modulo 2^64, so that negative numbers wrap, as in ``torch.manual_seed``.
    """
    for i in range(_C.device_count()):
        _C.manual_seed(_unsigned(seed), i)


def seed() -> None:
    """Seed the current device's generator with a number from the system's entropy."""
    if _C.device_count():
        _C.seed(_C.current_device())


def seed_all() -> None:
    """Seed every device's generator with one number from the system's entropy."""
    if _C.device_count():
        manual_seed_all(_C.seed(0))


def initial_seed() -> int:
    """The number that the current device's generator was last seeded with."""
    return _C.initial_seed(checked_index(None))
