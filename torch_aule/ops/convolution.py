"""Fake tensors of convolutions lie as the device's do: channels-last where the input or the weight does.

PyTorch's own fake convolution takes a device of this kind to return contiguous tensors, and the compiler would then
take for views what are none. Imported when the backend registers.
"""

from __future__ import annotations

import functools

import torch
from torch._prims_common import suggest_memory_format
from torch._subclasses import fake_impls

_aten = torch.ops.aten
_PLACE_OF_INPUT = {_aten.convolution.default: 0, _aten.convolution_backward.default: 1}


def _in_format_of_operands(fake):
    @functools.wraps(fake)
    def convolution(fake_mode, func, *args, **kwargs):
        out, place = fake(fake_mode, func, *args, **kwargs), _PLACE_OF_INPUT[func]
        x, w = (args[place + i] if place + i < len(args) else kwargs[n] for i, n in enumerate(("input", "weight")))
        last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
        if x.fake_device.type != "aule" or last not in map(suggest_memory_format, (x, w)):
            return out
        with fake_mode:
            if isinstance(out, torch.Tensor):
                return out.contiguous(memory_format=last)
            x_grad, w_grad, bias_grad = out
            return (*(None if g is None else g.contiguous(memory_format=last) for g in (x_grad, w_grad)), bias_grad)

    return convolution


# PyTorch's table, in which this rule now stands before its own.
_TABLE = fake_impls.op_implementations_dict
_TABLE.update({op: _in_format_of_operands(_TABLE[op]) for op in _PLACE_OF_INPUT if op in _TABLE})
