"""A kernel, compiled or from the cache on disk.

The arguments: its source, and `cached` where nothing may be compiled.
"""

import sys

import torch

from torch_aule import compile_shader
from torch_aule.glsl import compiler

source, *cached = sys.argv[1:]
if cached:
    compiler.HephaistosCompiler.compile = compiler.ProgramCompiler.compile = None
kernel = compile_shader(source, name="axpb")
x = torch.ones(4, device="aule")
kernel(x, x, x, 2.0, 4)
print(x.tolist())
