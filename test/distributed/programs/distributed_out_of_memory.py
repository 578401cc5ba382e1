"""The last rank has no memory for what the others send: every rank gets an error that says so, and ends well."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

start(seconds=20.0)
lost = rank == size - 1
small, large = torch.ones(1000, device=device), torch.ones(1 << 22, device=device)
dist.all_reduce(small)
torch.aule.synchronize()
if lost:
    torch.aule.empty_cache()
    torch.aule.set_per_process_memory_fraction(torch.aule.memory_reserved() / torch.aule.mem_get_info()[1])
cause = "out of memory" if lost else f"rank {size - 1} has failed or left the group"
begin = time.monotonic()
for tensor in (large, small):  # the later collective fails like the first
    try:
        work = dist.all_reduce(tensor, async_op=sys.argv[4] == "async")
        if work is not None:
            work.wait()
        torch.aule.synchronize()
    except dist.DistBackendError as error:
        assert f"rank {rank} of {size}: all_reduce failed: " in str(error) and cause in str(error), error
    else:
        raise AssertionError("no error")
assert time.monotonic() - begin < 10, "the error came no sooner than the group's timeout"
dist.destroy_process_group()
torch.aule.set_per_process_memory_fraction(1.0)
assert float((small * 0 + 1).sum()) == 1000  # the device itself is well
