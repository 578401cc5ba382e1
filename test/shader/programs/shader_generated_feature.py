"""A generated kernel that needs a feature which is off; the argument is its source."""

import sys

import torch

import torch_aule  # noqa: F401
from torch_aule.shader.generated import compile_generated

kernel = compile_generated(sys.argv[1], name="doubles", signature="wlldiuf")
for launch in (kernel.prepare, lambda: kernel(torch.zeros(6, device="aule"), 0, 0, 0.0, 0, 0, 0.0, 1)):
    try:
        launch()
    except RuntimeError as error:
        print(error)
