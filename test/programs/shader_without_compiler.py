"""Compiling a kernel where there is no compiler; the argument is its source."""

import sys

import no_compiler  # noqa: F401
import torch_aule  # noqa: F401
from torch_aule._shader import CompilerMissing, compile_kernel

try:
    compile_kernel(sys.argv[1], name="axpb")
except CompilerMissing as error:
    print(error)
