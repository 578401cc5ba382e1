"""A kernel of users that needs a feature which is off; the argument is its source."""

import sys

import torch

from torch_aule import compile_shader

kernel = compile_shader(sys.argv[1], name="halves")
x = torch.zeros(4, device="aule")
try:
    kernel(x, x, x, 1.0, 4)
except RuntimeError as error:
    print(error)
