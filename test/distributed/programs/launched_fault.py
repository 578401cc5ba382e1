"""A training script that a launcher starts, and that fails in the rank of that number, in the middle of the others."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

import torch_aule  # noqa: F401

rank = int(os.environ["RANK"])
torch.aule.set_device(rank)
dist.init_process_group("aule")
t = torch.ones(10, device="aule")
dist.all_reduce(t)
if rank == int(sys.argv[1]):
    raise ValueError(f"no luck on rank {rank}")
try:
    dist.all_reduce(t)
finally:
    print("all_reduce has returned", flush=True)
