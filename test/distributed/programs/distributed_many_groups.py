"""Groups made, used and destroyed: neither threads, files nor memory stay."""

from __future__ import annotations

import os
import resource

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

COUNT = 200
start()
t = torch.ones(8, device=device)


def one_group():
    group = dist.new_group()
    t.fill_(rank)
    dist.all_reduce(t, group=group)
    assert t[0].item() == sum(range(size))
    dist.destroy_process_group(group)


def used():
    torch.aule.synchronize()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "KiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "device": torch.aule.memory_allocated(),
    }


for _ in range(20):
    one_group()
before = used()
for _ in range(COUNT - 20):
    one_group()
after = used()
print(before, after)
assert after["threads"] <= before["threads"] + 2 and after["files"] <= before["files"] + 2
assert after["KiB"] <= before["KiB"] + 16 * 1024 and after["device"] == before["device"]
dist.destroy_process_group()
