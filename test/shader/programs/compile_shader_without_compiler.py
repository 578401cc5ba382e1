"""torch_aule.compile_shader where there is no compiler, and SPIR-V, which needs none.

The arguments: a kernel's source, and a file of SPIR-V.
"""

import sys
from pathlib import Path

import no_compiler  # noqa: F401
import torch

import torch_aule

source, spirv = sys.argv[1:]
try:
    torch_aule.compile_shader(source)
except torch_aule.shader.CompilerMissing as error:
    print(error)
kernel = torch_aule.load_spirv(Path(spirv).read_bytes())
y = torch.empty(4, device="aule")
kernel(y, torch.ones(4, device="aule"), 4)
print(y.tolist())
