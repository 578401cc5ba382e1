"""Accesses outside of a tensor's storage, under TORCH_AULE_CHECK_BOUNDS: left out, and raised by name."""

import os
import re
import sys
import warnings

import torch
import triton
import triton.language as tl

import torch_aule  # noqa: F401

warnings.filterwarnings("ignore")
n = int(sys.argv[1])


@triton.jit
def loaded(x, o, begin, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + begin + at, mask=at < count, other=-5.0)
    tl.store(o + at, v, mask=at < count)


@triton.jit
def stored(o, begin, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(o + begin + at, at.to(tl.float32) + 1, mask=at < count)


@triton.jit
def added(counts, at):
    tl.atomic_add(counts + at, 1)


@triton.jit
def swapped(counts, at):
    tl.atomic_cas(counts + at, 0, 7)


@triton.jit
def chosen(x, y, o, at, first):
    p = x
    if first == 0:
        p = y
    tl.store(o, tl.load(p + at))


@triton.jit
def described(x, o, rows, BLOCK: tl.constexpr):
    d = tl.make_tensor_descriptor(x, shape=[rows, 16], strides=[16, 1], block_shape=[BLOCK, 16])
    tl.store(o, tl.sum(tl.sum(d.load([0, 0]), 0), 0))


def raises(kernel, argument, action, index, size):
    """The error of the last launch, which comes at a synchronisation, and comes once."""
    # Triton's cache keeps the path of the first copy that compiled the kernel: another checkout's, perhaps.
    place = rf"\S*{re.escape(os.path.basename(__file__))}:\d+"
    wanted = rf"Triton kernel {kernel}, {action} of argument {argument}, {place}: index {index} is out of bounds for "
    wanted += rf"dimension with size {size}$"
    try:
        torch.aule.synchronize()
    except IndexError as error:
        assert re.search(wanted, str(error).strip()), (str(error), wanted)
    else:
        raise AssertionError(f"no error: {wanted}")
    torch.aule.synchronize()


block = triton.next_power_of_2(n + 8)
x = torch.randn(n).clamp(min=-4)
own = x.to("aule")
out = torch.full((n + 8,), 3.0, device="aule")
loaded[(1,)](own, out, 0, n, BLOCK=block)
assert torch.equal(out[:n].cpu(), x)
torch.aule.synchronize()

# Behind the end: what is left out reads as `other`, what is stored goes nowhere.
loaded[(1,)](own, out, 1, n, BLOCK=block)
raises("loaded", "x", "load", n, n)
assert torch.equal(out[: n - 1].cpu(), x[1:]) and out[n - 1].item() == -5
loaded[(1,)](own, out, -1, n, BLOCK=block)
raises("loaded", "x", "load", -1, n)
assert torch.equal(out[1:n].cpu(), x[:-1])

# A view's kernel may use the whole storage, and not more.
parts = torch.full((3, n), 9.0, device="aule")
stored[(1,)](parts[1], -n, n, BLOCK=block)
stored[(1,)](parts[1], n, n, BLOCK=block)
torch.aule.synchronize()
steps = torch.arange(1, n + 1, dtype=torch.float32)
assert torch.equal(parts[0].cpu(), steps) and torch.equal(parts[2].cpu(), steps) and (parts[1] == 9).all()
parts.fill_(9)
stored[(1,)](parts[2], 3, n, BLOCK=block)
raises("stored", "o", "store", rf"(?:{n}|{n + 1}|{n + 2})", n)  # whichever is first
assert torch.equal(parts[2, 3:].cpu(), steps[: n - 3])
assert (parts[:2] == 9).all() and (parts[2, :3] == 9).all()
stored[(1,)](parts[1], -n - 2, 4, BLOCK=block)
raises("stored", "o", "store", rf"-(?:{n + 1}|{n + 2})", 2 * n)
assert torch.equal(parts[0, :2].cpu(), torch.tensor([3.0, 4.0]))

# Atomic operations.
counts = torch.zeros(n, dtype=torch.int32, device="aule")
for kernel, name, action in ((added, "added", "atomic_rmw"), (swapped, "swapped", "atomic_cas")):
    kernel[(3,)](counts, n)
    raises(name, "counts", action, n, n)
    kernel[(3,)](counts[2:], -3)
    raises(name, "counts", action, -3, n - 2)
assert (counts == 0).all()
added[(3,)](counts, n - 1)
torch.aule.synchronize()
assert counts[-1].item() == 3 and counts.sum().item() == 3

# A pointer that may be either of two arguments.
chosen[(1,)](own[: n // 2], own[n // 2 :].clone(), out, 0, 0)
torch.aule.synchronize()
assert out[0].item() == x[n // 2].item()
small = torch.randn(4, device="aule")
chosen[(1,)](small, own, out, n + 1, 2)
raises("chosen", "(?:x or y)", "load", r"\d+", 4)

# Blocks of a descriptor that says more rows than there are; and a tensor without elements.
rows = torch.ones(4, 16, device="aule")
described[(1,)](rows, out, 4, BLOCK=8)
torch.aule.synchronize()
assert out[0].item() == 64
described[(1,)](rows, out, 6, BLOCK=8)
raises("described", "x", "load", r"\d+", 64)
stored[(1,)](torch.empty(0, device="aule"), 0, 1, BLOCK=block)
raises("stored", "o", "store", r"-?\d+", 0)
print("well")
