"""Loads the extension and tells PyTorch about the device ``aule``.

Taking PrivateUse1 makes ``aule`` PyTorch's current accelerator, ahead of CUDA. So the autoload entry point registers
only when a real GPU with Vulkan is there and no built-in accelerator (CUDA, XPU, MPS) is; ``TORCH_AULE_AUTOLOAD=1``
registers regardless, ``TORCH_AULE_AUTOLOAD=0`` never. ``import torch_aule`` always registers.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
from pathlib import Path

import torch

from torch_aule._version import __version__
from torch_aule.accelerators import built_in_accelerator

NAME = "aule"
EXTENSION = "torch_aule._C"
FOLDER = Path(__file__).parent


def _extensions() -> dict[tuple[int, int], Path]:
    """Extensions that this interpreter can load, by the minor version of torch that each was built for.

    Each belongs to one minor: the symbols of another may all be there, and its virtual functions lie elsewhere.
    """
    found: dict[tuple[int, int], Path] = {}
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:  # .cpython-311-x86_64-linux-gnu.so before .so
        for path in FOLDER.glob(f"_C_*{suffix}"):
            if match := re.fullmatch(r"_C_(\d)(\d+)", path.name.removesuffix(suffix)):
                found.setdefault((int(match[1]), int(match[2])), path)
    return found


def _extension_for(version: str) -> Path:
    """The extension for torch of `version`, or an ImportError that says what to install."""
    major, minor = version.split("+")[0].split(".")[:2]
    wanted, found = (int(major), int(minor)), _extensions()
    if wanted in found:
        return found[wanted]
    if not found:
        raise ImportError(
            f"torch_aule is not built for this Python: its folder has no extension _C_{major}{minor}. "
            "Run `pip install --no-build-isolation .` (or `-e .`) in the source folder."
        )
    newest = max(found)
    names = ", ".join("{}.{}".format(*each) for each in sorted(found))
    raise ImportError(
        f"torch_aule {__version__} serves torch {names}, and found torch {version}, which is "
        + ("newer than the newest of them" if wanted > newest else "not one of them")
        + f": `pip install 'torch=={newest[0]}.{newest[1]}.*'`, or take a torch_aule that serves {major}.{minor}. In a "
        "source folder `pip install --no-build-isolation --force-reinstall --no-deps .` builds the one for it."
    )


def load_extension():
    """Load the extension that was built for this torch, once, as ``torch_aule._C``; an ImportError says what to do."""
    loaded = sys.modules.get(EXTENSION)
    if loaded is not None:
        return loaded
    path = _extension_for(torch.__version__)
    spec = importlib.util.spec_from_file_location(
        EXTENSION, path, loader=importlib.machinery.ExtensionFileLoader(EXTENSION, str(path))
    )
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(
            f"torch_aule's extension {path.name} does not load into torch {torch.__version__}: {error}. "
            "It was probably built against another torch of this minor version, or another system; "
            "rebuild it with `pip install --no-build-isolation --force-reinstall --no-deps .`."
        ) from error
    sys.modules[EXTENSION] = module
    return module


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
    importlib.import_module("torch_aule.triton.door").start()


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
