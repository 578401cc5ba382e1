"""Starts work that takes a device long, is sent SIGINT while it waits, and goes on after the KeyboardInterrupt."""

import os
import subprocess
import sys
import threading
import time

import torch

import torch_aule  # noqa: F401

x = torch.randn(1536, 1536, device="aule") / 1536**0.5  # large: a software driver records few ahead
pinned = torch.empty(1536, 1536, pin_memory=True)
events = [torch.aule.Event(enable_timing=True) for _ in range(2)]

SENDER = """
import os, signal, sys, time
time.sleep(0.3)
print(time.monotonic())
os.kill(int(sys.argv[1]), signal.SIGINT)
"""


def seconds_of_a_product():
    """Without the time that a driver takes to compile it."""
    begin = time.monotonic()
    (x @ x).cpu()
    return time.monotonic() - begin


def work(seconds=3.0):
    """Records products that take the device so long."""
    y = x
    for _ in range(max(3, round(seconds / each))):
        y = y @ x
    return y


def event_wait(y):
    event = torch.aule.Event()
    event.record()
    event.synchronize()


def elapsed_time_wait(y):
    del y
    events[0].elapsed_time(events[1])  # a software driver waits for the whole device there


def empty_cache_wait(y):
    del y
    torch.aule.empty_cache()


WAITS = {
    "item": lambda y: y[0, 0].item(),
    "cpu": lambda y: y.cpu(),
    "strided_cpu": lambda y: y.t()[::2].cpu(),
    "pinned": lambda y: pinned.copy_(y),
    "nonzero": lambda y: y.nonzero(),
    "synchronize": lambda y: torch.aule.synchronize(),
    "stream": lambda y: torch.aule.current_stream().synchronize(),
    "event": event_wait,
    "elapsed_time": elapsed_time_wait,
    "empty_cache": empty_cache_wait,
    "recording": lambda y: work(8.0),  # the host may not be far ahead, so recording waits, too
}


def main(name):
    global each
    first = (x @ x).cpu()
    each = seconds_of_a_product()
    for event in events:
        event.record()
    torch.aule.synchronize()
    y = work()
    handled = []

    def other_python_work():
        while not handled:
            torch.aule.memory_allocated()
            time.sleep(0.001)

    threading.Thread(target=other_python_work, daemon=True).start()
    # From another process: a thread could not send it during a call that keeps the interpreter's lock.
    sender = subprocess.Popen([sys.executable, "-S", "-c", SENDER, str(os.getpid())], stdout=subprocess.PIPE)
    try:
        WAITS[name](y)
    except KeyboardInterrupt:
        handled.append(time.monotonic())
    assert handled, "the wait ended without a KeyboardInterrupt"
    assert not torch.aule.current_stream().query(), "the device was done: the test shows nothing"
    assert torch.equal((x @ x).cpu(), first)
    if name == "pinned":
        assert torch.equal(pinned.copy_(x), x.cpu())
    print(f"{handled[0] - float(sender.communicate()[0]):.3f}")


main(sys.argv[1])
