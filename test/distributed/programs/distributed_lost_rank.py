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


def all_reduces():
    if lost:
        leave()
    for _ in range(3):
        dist.all_reduce(t)


def in_all_reduce():
    """More than a connection holds at once."""
    work = dist.all_reduce(torch.ones(1 << 23, device=device), async_op=True)
    if lost:
        time.sleep(0.01)
        leave()
    work.wait()
    dist.all_reduce(t)  # if the lost rank had sent all of it


def in_backward():
    """The lost rank leaves when the gradient of a layer in the middle comes: buckets are on their way."""
    layers = [torch.nn.Linear(64, 64) for _ in range(12)]
    model = torch.nn.Sequential(*layers).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.03)
    x = torch.randn(5, 64, device=device)
    model(x).sum().backward()
    if lost:
        layers[6].weight.register_hook(lambda gradient: leave())
    model(x).sum().backward()
    all_reduces()  # not reached: backward waits for its buckets


start(seconds=SECONDS)
t = torch.ones(1000, device=device)
dist.all_reduce(t)
torch.aule.synchronize()
work = {"killed in all_reduce": in_all_reduce, "killed in backward": in_backward}.get(how, all_reduces)
begin = time.monotonic()
try:
    work()
except dist.DistBackendError as error:
    assert f"rank {rank} of {size}: all_reduce failed: " in str(error), error
    print(error)
except RuntimeError as error:  # DDP's, around it
    assert work is in_backward and f"rank {rank} of {size}: all_reduce failed: " in str(error), error
else:
    raise AssertionError("no error")
assert time.monotonic() - begin < (2 if work is all_reduces else 4) * SECONDS, "the error came late"
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
