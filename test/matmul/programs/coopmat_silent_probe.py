"""A device whose probe of matrix layouts says nothing computes without matrix units.

The arguments: how many words the probe gives, all zero, and the seed."""

import sys

import torch

import torch_aule

words = [0] * int(sys.argv[1])
torch_aule._C.state_matrix_probe(0, False, words)
torch_aule._C.state_matrix_probe(0, True, words)
torch.manual_seed(int(sys.argv[2]))
for dtype in (torch.float16, torch.bfloat16):
    a, b = torch.randn(70, 40, dtype=dtype), torch.randn(40, 50, dtype=dtype)
    right = a.double() @ b.double()
    got = (a.to("aule") @ b.to("aule")).cpu().double()
    assert (got - right).abs().max() < 0.05 * right.abs().max(), "a @ b"
    q = torch.randn(1, 2, 40, 64, dtype=dtype)
    right = torch.nn.functional.scaled_dot_product_attention(*[q.double()] * 3)
    got = torch.nn.functional.scaled_dot_product_attention(*[q.to("aule")] * 3).cpu().double()
    assert (got - right).abs().max() < 0.02, "attention"
    x, w = torch.randn(2, 16, 9, 9, dtype=dtype), torch.randn(16, 16, 3, 3, dtype=dtype)
    right = torch.nn.functional.conv2d(x.double(), w.double())
    got = torch.nn.functional.conv2d(x.to("aule"), w.to("aule")).cpu().double()
    assert (got - right).abs().max() < 0.05 * right.abs().max(), "conv2d"
    layout = torch_aule._C.matrix_layout(0, dtype == torch.bfloat16)
    assert not layout["usable"] and not layout["known"], layout
used = torch_aule._C.active_pipelines(0)
assert not [k for k in used if "matrix" in k or "staged" in k], used
