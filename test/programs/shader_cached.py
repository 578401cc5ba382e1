"""A kernel, compiled or from the cache on disk.

The arguments: its source, and `cached` where nothing may be compiled.
"""

import sys

import torch

import torch_aule  # noqa: F401
from torch_aule._shader import compile_kernel, compiler

source, *cached = sys.argv[1:]
if cached:
    compiler.HephaistosCompiler.compile = compiler.ProgramCompiler.compile = None
kernel = compile_kernel(source, name="axpb")
x = torch.ones(4, device="aule")
kernel(x, x, x, grid=1, params={"n": 4, "a": 2.0})
print(x.tolist())
