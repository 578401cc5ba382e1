"""The package for a process that has one device, of aule or of another backend."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_package(device: str) -> None:
    """Make `torch_aule` importable: with its device, or as a bare namespace of modules that need none.

    Beside aule, CUDA's autograd does not work (torch_aule/benchmark/harness/baseline.py).

    Parameters
    ----------
    device : str
        ``"aule"`` or another type of device.
    """
    sys.path.insert(0, str(ROOT))
    if device == "aule":
        importlib.import_module("torch_aule")
        return
    package = type(sys)("torch_aule")
    package.__path__ = [str(ROOT / "torch_aule")]
    sys.modules["torch_aule"] = package
