"""The last rank is lost in some way; the others get an error soon, and end."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

how = sys.argv[4]
lost = rank == size - 1
SECONDS = 2.0  # the group's timeout


def leave():
    if how == "hangs":
        time.sleep(2.5 * SECONDS)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


if how == "never comes":
    if lost:
        leave()
    begin = time.monotonic()
    try:
        start(seconds=SECONDS)
    except (RuntimeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")
    else:
        raise AssertionError("a group without its last rank")
    assert time.monotonic() - begin < 8 * SECONDS
    sys.exit()

start(seconds=SECONDS)
t = torch.ones(1000, device=device)
dist.all_reduce(t)
if lost:
    leave()
begin = time.monotonic()
try:
    for _ in range(3):
        dist.all_reduce(t)
except dist.DistBackendError as error:
    assert f"rank {rank} of {size}: all_reduce failed: " in str(error), error
    print(error)
else:
    raise AssertionError("no error")
assert time.monotonic() - begin < 2 * SECONDS, "the error came late"
begin = time.monotonic()
for later in (lambda: dist.all_reduce(t), lambda: dist.broadcast(t, 0), lambda: dist.all_reduce(t.cpu())):
    try:
        later()
    except dist.DistBackendError as error:
        assert "all_reduce failed" in str(error), error
    else:
        raise AssertionError("no error of a later collective")
assert time.monotonic() - begin < 1, "a later collective waited"
if how != "killed, not destroyed":
    dist.destroy_process_group()
assert float((t * 0 + 1).sum()) == 1000  # the device itself is well
