"""The child of a process whose threads are compiling compiles. The argument: a kernel's source, with VALUE in it."""

import faulthandler
import os
import sys
import warnings

warnings.simplefilter("ignore")
import torch_aule  # noqa: F401
from torch_aule.shader import generated
from torch_aule.shader.generated import compile_generated

sources = [sys.argv[1].replace("VALUE", f"{i}.0 + exp_(p.a)") for i in range(6)]
for i, source in enumerate(sources):
    generated.start_compiling(source, name=f"forked_{i}", signature="wfu")
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(50, exit=True)  # if it hangs, it says where
ids = [compile_generated(source, name=f"forked_{i}", signature="wfu").id for i, source in enumerate(sources)]
if child == 0:
    os._exit(0 if len(set(ids)) == 6 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(set(ids)))
