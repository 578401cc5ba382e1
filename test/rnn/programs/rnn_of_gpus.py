"""Recurrent layers by the kernels of GPUs, and tests of the file that is the argument pass so."""

import sys

import pytest
import torch

import torch_aule

for hidden in (40, 129):
    model = torch.nn.GRU(16, hidden).to("aule")
    model(torch.randn(3, 24, 16, device="aule"))[0].sum().backward()
torch.aule.synchronize()
used = {name.split("<")[0].split("(")[0] for name in torch_aule._C.active_pipelines(0)}
assert used >= {"gemm_simt_splits", "resident_forward", "resident_backward"}, used
names = "sizes or resident or packed_states or projections"
assert pytest.main(["-q", "-p", "no:cacheprovider", "-k", names, sys.argv[1]]) == 0
