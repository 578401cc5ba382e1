"""wait() on a stream beside the default one: the host goes on, and whatever uses the stream later comes after the result.

The last rank calls a collective only when the calls of the others have returned: were they to block, nothing would end.
"""

import itertools
import time

import torch
import torch.distributed as dist

from distributed_group import device, rank, size, start

ELEMENTS = 70_001

start(seconds=60)
last = rank == size - 1
store, numbers = dist.distributed_c10d._get_default_store(), itertools.count()
side, other = torch.aule.Stream(), torch.aule.Stream()


def summed(round, dtype=torch.float32):
    """What the ranks reduce in this round, and its sum; small integers, so that sums are exact."""
    parts = [torch.full((ELEMENTS,), float((r + 2) * (round + 1) % 61), dtype=dtype) for r in range(size)]
    return parts[rank].to(device), sum(parts)


def called(tensors, meanwhile=lambda: None, late=True):
    """Collectives of the side stream. Late: the last rank's come when the others have ended `meanwhile`."""
    side.wait_stream(torch.aule.current_stream())
    number = next(numbers)
    if last and late:
        store.wait([f"returned {number} {other}" for other in range(size - 1)])
    with torch.aule.stream(side):
        for tensor in tensors:
            dist.all_reduce(tensor)
    if not last and late:
        meanwhile()
        store.set(f"returned {number} {rank}", "")


def used(how, tensor):
    """`tensor` of the side stream, read in another way each time."""
    if how == "event":
        event = side.record_event()
        torch.aule.current_stream().wait_event(event)
        return tensor + 0
    if how == "stream":
        other.wait_stream(side)
        with torch.aule.stream(other):
            result = tensor + 0
        torch.aule.current_stream().wait_stream(other)
        return result
    if how == "kernel":
        with torch.aule.stream(side):
            result = tensor + 0
        torch.aule.current_stream().wait_stream(side)
        return result
    if how == "timed event":
        event = torch.aule.Event(enable_timing=True)
        event.record(side)
        event.synchronize()
    if how == "query":
        while not side.query():
            time.sleep(0.001)
    if how == "event query":
        event = side.record_event()
        while not event.query():
            time.sleep(0.001)
    if how == "synchronize":
        side.synchronize()
    if how == "device":
        torch.aule.synchronize()
    if how == "read":
        with torch.aule.stream(side):
            return tensor.cpu()
    return tensor


WAYS = ["event", "stream", "kernel", "timed event", "query", "event query", "synchronize", "device", "read"]
for round, how in enumerate(WAYS):
    first, total = summed(round)
    called([first])
    assert torch.equal(used(how, first).cpu(), total), how
    # Two of them, one behind the other: the second call waits for the first.
    first, total = summed(round)
    second, more = summed(round + 7)
    called([first, second], late=False)
    assert torch.equal(used(how, second).cpu(), more), how
    assert torch.equal(first.cpu(), total), how

# An event from before the collective is behind nothing that is still to come; tensors may be dropped at once.
tensor, total = summed(40)
with torch.aule.stream(side):
    before = side.record_event()


def meanwhile():
    before.synchronize()
    assert not side.query(), "the result cannot be there"


called([tensor], meanwhile)
copies = [used("kernel", tensor)]
del tensor
copies += [torch.full((ELEMENTS,), -1.0, device=device) for _ in range(4)]
assert torch.equal(copies[0].cpu(), total), "dropped"

# What fails is thrown where the stream is used.
if size == 2:
    side.wait_stream(torch.aule.current_stream())
    wrong = torch.ones(10 + rank, device=device)
    with torch.aule.stream(side):
        dist.all_reduce(wrong)
    try:
        side.synchronize()
    except RuntimeError as error:
        assert " called " in str(error), error
    else:
        raise AssertionError("no error")
    side.synchronize()  # once
dist.destroy_process_group()
