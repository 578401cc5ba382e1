"""What the programs of several ranks begin with."""

from __future__ import annotations

import datetime
import sys

import torch
import torch.distributed as dist

import torch_aule  # noqa: F401

rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
device = torch.device("aule", rank)


def start(backend: str | None = "aule", seconds: float = 120) -> None:
    torch.aule.set_device(device)
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=seconds),
    )


def refused(call, words: str) -> None:
    """The call raises, and says so."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")
