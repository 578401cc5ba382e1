"""Installs the backend when a program imports Dynamo or Inductor, and not before: that import takes seconds."""

from __future__ import annotations

import warnings

from torch_aule.compile.doors.install import install, install_interface, skip_random_states
from torch_aule.compile.flex.doors import install_doors
from torch_aule.importing import ImportWatch

__all__ = ["start"]

# By the time that compile_fx has been executed, all that we subclass and patch is there, and nothing is compiled.
_STEPS = {
    "torch._dynamo.device_interface": install_interface,
    "torch._dynamo.decorators": skip_random_states,
    "torch._inductor.compile_fx": install,
    "torch.nn.attention.flex_attention": install_doors,
}


def _imported(module) -> None:
    try:
        _STEPS[module.__name__]()
    except Exception as error:  # somebody else's import must not fail for this
        warnings.warn(f"torch_aule: torch.compile has no backend for aule: {error!r}", stacklevel=2)


def start() -> None:
    """Watch for the imports; what has been imported already is served at once."""
    watch = ImportWatch(_STEPS, _imported)
    for name in _STEPS:
        module = watch.imported(name)
        if module is not None:
            _imported(module)
    watch.start()
