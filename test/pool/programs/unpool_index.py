"""An index that lies outside of max_unpool2d's output is an error at the next wait. The argument: the index."""

import sys

import torch

import torch_aule  # noqa: F401

x = torch.ones(1, 1, 2, 2, device="aule")
indices = torch.tensor([[[[0, 1], [2, int(sys.argv[1])]]]], device="aule")
out = torch.ops.aten.max_unpool2d(x, indices, [8, 8])
try:
    torch.aule.synchronize()
except IndexError as error:
    print(error)
