"""The devices' Philox generators. None of these starts a device: a generator's state lives on the host."""

from __future__ import annotations

import torch

from torch_aule import _C
from torch_aule._utils import DeviceLike, checked_index

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
    """State of a device's generator, as a ByteTensor on the host."""
    return _C.get_rng_state(checked_index(device))


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices' generators."""
    return [get_rng_state(i) for i in range(_C.device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "aule") -> None:
    """Set a device's generator to a state from :func:`get_rng_state`."""
    if not isinstance(new_state, torch.Tensor) or new_state.dtype != torch.uint8:
        raise TypeError("the state of a generator is a ByteTensor")
    _C.set_rng_state(new_state, checked_index(device))


def set_rng_state_all(new_states) -> None:
    """Set all devices' generators, from what :func:`get_rng_state_all` gave."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator. Does nothing when there is no device."""
    if _C.device_count():
        _C.manual_seed(_unsigned(seed), _C.current_device())


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator; ``torch.manual_seed`` calls this."""
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
