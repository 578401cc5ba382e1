"""Compiles a function that launches a kernel, whose helper is in another file, and says whether a cache had it."""

import sys
import warnings
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch._dynamo.utils import counters

import torch_aule  # noqa: F401

warnings.filterwarnings("ignore")

n, factor, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
HELPERS = """
import triton
import triton.language as tl
FACTOR: tl.constexpr = tl.constexpr({factor})
@triton.jit
def multiplied(v):
    return v * FACTOR
"""
(folder / f"helpers_{factor}.py").write_text(HELPERS.format(factor=factor))
sys.path.insert(0, str(folder))
multiplied = __import__(f"helpers_{factor}").multiplied


@triton.jit
def products(o, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, multiplied(tl.load(x + at, mask=at < n)), mask=at < n)


@torch.compile(fullgraph=True)
def work(x):
    o = torch.empty_like(x)
    products[(triton.cdiv(n, 128),)](o, x + 1, n, BLOCK=128)
    return o * 2


x = torch.randint(-50, 50, (n,)).float()
assert torch.equal(work(x.to("aule")).cpu(), (x + 1) * factor * 2)
found, missed = (counters["inductor"][f"fxgraph_cache_{what}"] for what in ("hit", "miss"))
print(f"well, {found} of {found + missed} found")
