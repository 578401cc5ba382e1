"""A generated kernel on the second of two devices, and with tensors of both; the argument is its source."""

import sys

import torch

import torch_aule  # noqa: F401
from torch_aule import _C
from torch_aule.shader.generated import compile_generated

kernel = compile_generated(sys.argv[1], name="axpb", signature="rrwlf")
first = _C.empty_strided_aule((4,), (1,), torch.float32, 0).fill_(1)
x, out = _C.empty_strided_aule((4,), (1,), torch.float32, 1), _C.empty_strided_aule((4,), (1,), torch.float32, 1)
x.fill_(3)
kernel.prepare(1)
kernel(x, x, out, 4, 2.0, 1)
print(x.device, first.device, out.tolist(), torch.aule.current_device())
try:
    kernel(x, first, out, 4, 2.0, 1)
except ValueError as error:
    print(error)
