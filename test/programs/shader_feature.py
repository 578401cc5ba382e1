"""A kernel that needs a feature which is off; the argument is its source."""

import sys

import torch

import torch_aule  # noqa: F401
from torch_aule._shader import compile_kernel

kernel = compile_kernel(sys.argv[1], name="halves")
x = torch.zeros(4, device="aule")
try:
    kernel(x, x, x, grid=1, params={"n": 4, "a": 1.0})
except RuntimeError as error:
    print(error)
