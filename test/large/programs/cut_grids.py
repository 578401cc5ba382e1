"""Grids that are cut into submissions: each workgroup is there once. The argument: a kernel that counts its own."""

import sys

import torch

import torch_aule

count = torch_aule.compile_shader(sys.argv[1], name="counts_groups", group_size=(1,))
for groups in (32769, 70001, 32768):
    counts = torch.zeros(80000, dtype=torch.int32, device="aule")
    for _ in range(5):  # the first ones teach what they cost
        count(counts, groups=groups)
        torch.aule.synchronize()
    assert bool((counts[:groups] == 5).all()) and not bool(counts[groups:].any()), groups
