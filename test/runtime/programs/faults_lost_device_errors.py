"""A lost device raises DeviceLostError from operators, waits, backward passes, and C gets its code."""

import ctypes

import torch

import torch_aule
from torch_aule import _C

x = torch.ones(4, device="aule", requires_grad=True)
y = (x * x).exp()
torch.aule.synchronize()
_C.inject_device_lost(0)


def fails(call):
    try:
        call()
        torch.aule.synchronize()
    except torch_aule.DeviceLostError as error:
        assert isinstance(error, RuntimeError) and "lost" in str(error) and error.code == -7, error
    else:
        raise AssertionError("no error")


fails(lambda: x.detach() + 1)
fails(lambda: y.sum().backward())
fails(lambda: x.detach().cpu())
fails(lambda: torch.ones(1 << 28, device="aule"))
library = ctypes.CDLL(_C.__file__)
library.aule_get_error.restype = ctypes.c_char_p
numbers = (ctypes.c_float * 4)()
assert library.aule_test_multiply(numbers, numbers, ctypes.c_int64(4)) == -7
assert b"lost" in library.aule_get_error()
