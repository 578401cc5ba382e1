"""Children of a process that has used the device end in every way there is; the parent computes on, and is right."""

import ctypes
import multiprocessing
import os
import sys

import torch

import torch_aule  # noqa: F401

# As a driver's destructor: a handler of the C library's that every process with its list of handlers runs at its end.
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
libc.__cxa_atexit(libc.puts, ctypes.c_void_p(libc.strdup(b"a destructor ran")), None)


def identity_is_factored() -> None:
    eye = torch.eye(40, device="aule")
    u, s, v = torch.linalg.svd(eye)
    assert torch.equal(s.cpu(), torch.ones(40)), s
    assert torch.equal((u @ v).abs().round().cpu().sum(0), torch.ones(40))
    factors, pivots = torch.linalg.lu_factor(eye)
    assert torch.equal(factors.cpu(), torch.eye(40)) and pivots.tolist() == list(range(1, 41))


def ends(*arguments) -> None:
    print("a child's last line")
    ctypes.CDLL(None).printf(b"and C's\n")
    sys.exit(*arguments)


def status_of(function, *arguments) -> int:
    """Exit status of a forked child that calls the function and ends as an interpreter does."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    function(*arguments)
    sys.exit(0)


def grandchild() -> None:
    sys.exit(status_of(ends, 5))


def fails() -> None:
    sys.stderr = open(os.devnull, "w")
    raise ValueError("on purpose")


x = torch.zeros(3, device="aule")
x.sum().item()
identity_is_factored()
in_flight = torch.ones(300, 300, device="aule") @ torch.ones(300, 300, device="aule")
for expected, function, *arguments in (
    (0, ends),
    (7, ends, 7),
    (1, fails),
    (5, grandchild),
    (0, in_flight.size, 0),
):
    status = status_of(function, *arguments)
    assert status == expected, (function.__name__, status)
    identity_is_factored()
child = multiprocessing.get_context("fork").Process(target=ends, args=(3,))
sys.stdout.flush()
child.start()
child.join(100)
assert child.exitcode == 3, child.exitcode
identity_is_factored()
assert torch.equal(in_flight.cpu(), torch.full((300, 300), 300.0))
print("the parent is right")
