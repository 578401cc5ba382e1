"""A child of os.fork() has its parent's groups and none of their threads: an error, and no hang."""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

start()
t = torch.ones(10, device=device)
dist.all_reduce(t)
host = torch.ones(10)
dist.all_reduce(host)
# In a child on NVIDIA's driver 580 what a process destroys at its end dies of signal 11.
end = sys.exit if torch.aule.get_device_properties(device).kind == "cpu" else os._exit
child = os.fork()
if child == 0:
    signal.alarm(20)  # a hang ends with a signal
    calls = {
        "all_reduce": lambda: dist.all_reduce(t),
        "all_reduce of the CPU": lambda: dist.all_reduce(host),
        "barrier": dist.barrier,
        "send": lambda: dist.send(t, (rank + 1) % size),
        "all_gather_object": lambda: dist.all_gather_object([None] * size, rank),
        "new_group": dist.new_group,
    }
    status = 0
    for name, call in calls.items():
        try:
            call()
        except RuntimeError as error:
            if "fork" not in str(error):
                print(name, error, flush=True)
                status = 1
        else:
            print(name, "no error", flush=True)
            status = 1
    end(status)  # and what the interpreter destroys at its end does not wait either
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, os.waitstatus_to_exitcode(status)
dist.all_reduce(t)  # the parent's group is well
assert t.eq(size**2).all()
dist.destroy_process_group()
