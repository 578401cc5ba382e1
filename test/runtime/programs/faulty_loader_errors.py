"""Under test/cpp/faulty_loader.c: what fails in the driver has its own type, in Python and in C."""

import ctypes
import os

import torch

import torch_aule
from torch_aule import _C

error, text = {
    "queues": (torch_aule.NoComputeQueueError, "lacks a compute queue"),
    "memory": (torch_aule.OutOfMemoryError, "VK_ERROR_OUT_OF_DEVICE_MEMORY"),
    "pipelines": (torch_aule.ShaderCompileError, "the driver does not compile"),
}[os.environ["AULE_TEST_FAULT"]]
try:
    (torch.ones(5, device="aule") + 1).cpu()
except RuntimeError as raised:
    assert type(raised) is error and text in str(raised), repr(raised)
else:
    raise AssertionError("no error")
library = ctypes.CDLL(_C.__file__)
library.aule_get_error.restype = ctypes.c_char_p
numbers = (ctypes.c_float * 4)()
assert library.aule_test_multiply(numbers, numbers, ctypes.c_int64(4)) == error.code
assert text.encode() in library.aule_get_error()
