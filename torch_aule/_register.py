"""Loads the extension and tells PyTorch about the device ``aule``.

Taking PrivateUse1 makes ``aule`` PyTorch's current accelerator, ahead of CUDA. So the autoload entry point registers
only when a real GPU with Vulkan is there and no built-in accelerator (CUDA, XPU, MPS) is; ``TORCH_AULE_AUTOLOAD=1``
registers regardless, ``TORCH_AULE_AUTOLOAD=0`` never. ``import torch_aule`` always registers.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import torch

from torch_aule._version import TORCH_NEWER_THAN_TESTED, TORCH_OLDEST, __version__
from torch_aule.accelerators import built_in_accelerator

NAME = "aule"
BUILT_FOR = Path(__file__).with_name("built_for_torch.txt")  # setup.py writes it beside the extension


def _torch_minor() -> tuple[int, int]:
    major, minor = torch.__version__.split("+")[0].split(".")[:2]
    return int(major), int(minor)


def _check_built_for(found: str) -> None:
    """Refuse an extension that was built for another minor of torch than `found`.

    Its symbols may all be there, and it would load: with virtual functions that have moved since.
    """
    built = BUILT_FOR.read_text().strip() if BUILT_FOR.exists() else found
    if built == found:
        return
    raise ImportError(
        f"This torch_aule was built for torch {built}, and found torch {torch.__version__}. Take the wheel "
        f"torch_aule-{__version__}+torch{found}, or `pip install 'torch=={built}.*'`; in a source folder, rebuild with "
        "`pip install --no-build-isolation --force-reinstall --no-deps .`."
    )


def load_extension():
    """Import ``torch_aule._C`` once, or raise an ImportError that says what to do."""
    loaded = sys.modules.get("torch_aule._C")
    if loaded is not None:
        return loaded
    version = _torch_minor()
    if not TORCH_OLDEST <= version < TORCH_NEWER_THAN_TESTED:
        oldest, newer = (".".join(map(str, v)) for v in (TORCH_OLDEST, TORCH_NEWER_THAN_TESTED))
        raise ImportError(
            f"torch_aule supports torch >= {oldest} and < {newer}, and found torch {torch.__version__}. "
            "Install one of those, or a newer torch_aule."
        )
    _check_built_for(".".join(map(str, version)))
    try:
        return importlib.import_module("torch_aule._C")
    except ModuleNotFoundError as error:
        if error.name != "torch_aule._C":
            raise
        raise ImportError(
            "torch_aule is not built: its extension torch_aule._C is missing. "
            "Run `pip install --no-build-isolation .` (or `-e .`) in the source folder."
        ) from error
    except ImportError as error:
        raise ImportError(
            f"torch_aule's extension does not load into torch {torch.__version__}: {error}. "
            "It was probably built for another version of torch; "
            "rebuild it with `pip install --no-build-isolation --force-reinstall --no-deps .`."
        ) from error


def register() -> None:
    """Register the backend. A second call does nothing."""
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", NAME):
        raise ImportError(
            f"torch_aule cannot register the device 'aule': another backend, '{taken}', already holds PyTorch's one "
            "slot for external devices (PrivateUse1). Import only one of the two in a process; "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 stops the other one from being loaded by itself."
        )
    if NAME in torch.__dict__:
        return
    extension = load_extension()
    sys.modules["torch_aule"]._C = extension

    torch.utils.rename_privateuse1_backend(NAME)
    importlib.import_module("torch_aule.errors")._register(extension)
    from torch_aule import backend, distributed, profiler
    from torch_aule.torch_patches import data_parallel, dlpack, nested, printing, profiler_names, sharing

    torch._register_device_module(NAME, backend)
    backend.profiler = profiler
    for part in ("amp", "graphs", "memory", "random"):
        sys.modules[f"torch.{NAME}.{part}"] = getattr(backend, part)
    torch.utils.generate_methods_for_privateuse1_backend()
    data_parallel.install(NAME)
    dlpack.install(NAME)
    nested.install(NAME)
    printing.install(NAME)
    profiler_names.install(NAME)
    sharing.install()
    distributed._install()
    importlib.import_module("torch_aule.ops")
    importlib.import_module("torch_aule.compat.skeleton")
    importlib.import_module("torch_aule.torch_patches.aliases").install()
    importlib.import_module("torch_aule.integrations")._registry.start()
    importlib.import_module("torch_aule.compile.doors.hook").start()


def autoload() -> bool:
    """Register if that is a service to the user. Returns whether the backend is registered."""
    wish = os.environ.get("TORCH_AULE_AUTOLOAD", "")
    if wish == "0":
        return False
    if wish != "1":
        if torch._C._get_privateuse1_backend_name() != "privateuseone" or built_in_accelerator():
            return False
        extension = load_extension()
        real = (extension.device_properties(i)["kind"] != "cpu" for i in range(extension.device_count()))
        if not any(real):
            return False
    register()
    return True
