"""Steps of recurrent layers multiply by the kernel that splits k, and the tests of the file that is the argument pass
so."""

import sys

import pytest
import torch

import torch_aule

for hidden in (40, 129):
    model = torch.nn.GRU(16, hidden).to("aule")
    model(torch.randn(3, 24, 16, device="aule"))[0].sum().backward()
torch.aule.synchronize()
used = {name.split("<")[0].split("(")[0] for name in torch_aule._C.active_pipelines(0)}
assert "gemm_simt_splits" in used, used
assert (
    pytest.main(["-q", "-p", "no:cacheprovider", "-k", "test_sizes or packed_states or projections", sys.argv[1]]) == 0
)
