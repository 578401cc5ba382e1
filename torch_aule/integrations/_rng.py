"""The random state of the devices beside another package's checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

__all__ = ["load_rng_state", "save_rng_state"]


def _file(folder, process_index: int) -> Path:
    return Path(folder) / f"random_state_aule_{process_index}.pt"


def save_rng_state(folder, process_index: int) -> None:
    """Write the state of every device, if one has been used."""
    if torch.aule.is_initialized():
        torch.save(torch.aule.get_rng_state_all(), _file(folder, process_index))


def load_rng_state(folder, process_index: int) -> None:
    """Restore what `save_rng_state` wrote. A checkpoint without it, or of fewer or more devices, changes nothing."""
    path = _file(folder, process_index)
    if not path.is_file():
        return
    states = torch.load(path, map_location="cpu", weights_only=True)
    if len(states) == torch.aule.device_count():
        torch.aule.set_rng_state_all(states)
