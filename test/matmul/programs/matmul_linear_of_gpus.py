"""A linear layer with its activation is one product, and the tests of the file that is the argument pass so."""

import sys

import pytest
import torch

import torch_aule

for dtype, rows in ((torch.float32, 64), (torch.float32, 3), (torch.float16, 64)):
    x = torch.ones(rows, 64, dtype=dtype, device="aule")
    torch.ops.aule.linear_bias_act(x, torch.ones(64, 64, dtype=dtype, device="aule"), None, "gelu", x)
torch.aule.synchronize()
used = {name.split("<")[0].split("(")[0] for name in torch_aule._C.active_pipelines(0)}
assert any(name.startswith("gem") for name in used), used
assert not any(name.startswith(("unary", "binary")) for name in used), used
names = "float64 or layouts or large"
assert pytest.main(["-q", "-p", "no:cacheprovider", "-k", names, sys.argv[1]]) == 0
