"""Lets PyTorch choose how to print a tensor's numbers on the CPU.

It asks for the numbers' range and form one element at a time, in float64, which costs a wait for the device each and
needs float64 there. What is printed (of a large tensor: its edges) is copied once instead.
"""

from __future__ import annotations

import functools

import torch

__all__ = ["install"]


def install(device_type: str) -> None:
    """Wrap the formatter of `torch._tensor_str`."""
    formatter = torch._tensor_str._Formatter
    original = formatter.__init__

    @functools.wraps(original)
    def __init__(self, tensor):
        original(self, tensor.cpu() if tensor.device.type == device_type else tensor)

    formatter.__init__ = __init__  # type: ignore[method-assign]
