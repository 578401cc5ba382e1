"""10,000 small collectives: neither threads, files nor memory grow, and the last result is right."""

from __future__ import annotations

import os
import resource

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

CALLS, FIRST = 10_000, 500
start()
total = size * (size + 1) / 2
t = torch.full((3,), rank + 1.0, device=device)


def call(count):
    for _ in range(count):
        dist.all_reduce(t)
        t.sub_(total - (rank + 1))  # small integers: exact
    torch.aule.synchronize()


def used():
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "KiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "device": torch.aule.memory_reserved(),
    }


call(FIRST)
before = used()
call(CALLS - FIRST)
after = used()
print(before, after)
assert t.tolist() == [rank + 1.0] * 3, t
assert after["threads"] <= before["threads"] and after["files"] <= before["files"]
assert after["KiB"] <= before["KiB"] + 16 * 1024 and after["device"] <= before["device"]
dist.destroy_process_group()
