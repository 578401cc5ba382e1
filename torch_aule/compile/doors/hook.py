"""Installs the backend when a program imports Dynamo or Inductor, and not before: that import takes seconds."""

from __future__ import annotations

from torch_aule.compile.doors import patches
from torch_aule.compile.doors.install import install, install_interface, skip_random_states
from torch_aule.compile.flex.doors import install_doors
from torch_aule.importing import run_after_import

__all__ = ["start"]

# By the time that compile_fx has been executed, all that we subclass and patch is there, and nothing is compiled.
_STEPS = {
    "torch.utils._triton": lambda module: patches.install("triton"),
    "torch._dynamo.device_interface": lambda module: install_interface(),
    "torch._dynamo.decorators": lambda module: skip_random_states(),
    "torch._inductor.compile_fx": lambda module: install(),
    "torch.nn.attention.flex_attention": lambda module: install_doors(),
}


def start() -> None:
    """Watch for the imports."""
    run_after_import(_STEPS, "torch.compile has no backend for aule")
