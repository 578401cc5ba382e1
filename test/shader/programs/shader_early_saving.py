"""Ends while another thread keeps the driver's cache, over and over, without the interpreter's lock."""

import time

import torch

import torch_aule  # noqa: F401
from torch_aule import _C
from torch_aule.shader import generated

torch.zeros(1, device="aule")
save, began = _C.save_pipelines, []


def saves(device_index: int) -> None:
    """For two seconds, as a cache of many megabytes takes."""
    began.append(1)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        save(device_index)


_C.save_pipelines = saves
generated.SAVE_AFTER_SECONDS = 0.0
generated._save_soon(0)
while not began:
    time.sleep(0.001)
print("the last line")
