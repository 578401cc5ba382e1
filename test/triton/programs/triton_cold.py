"""Launches kernels of Triton that nothing has compiled yet, as another process does at the same time."""

import sys
import warnings

import torch
import triton
import triton.language as tl

import torch_aule  # noqa: F401

warnings.filterwarnings("ignore")


@triton.jit
def powers(o, x, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    r = v
    for _ in tl.static_range(STEPS):
        r = r * v
    tl.store(o + at, r, mask=at < n)


n = int(sys.argv[1])
x = torch.randint(-3, 4, (n,), dtype=torch.int32)
own = x.to("aule")
for steps in range(1, 5):
    out = torch.zeros(n, dtype=torch.int32, device="aule")
    powers[(triton.cdiv(n, 128),)](out, own, n, STEPS=steps, BLOCK=128)
    assert torch.equal(out.cpu(), x ** (steps + 1)), steps
print("well")
