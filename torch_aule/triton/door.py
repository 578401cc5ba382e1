"""Adds the device to Triton's backends when a program imports Triton, and not before."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from types import ModuleType

from torch_aule.accelerators import built_in_accelerator
from torch_aule.importing import ImportWatch

__all__ = ["start"]


def _add_backend(module: ModuleType) -> None:
    compiler = importlib.import_module("torch_aule.triton.backend").AuleBackend
    driver = importlib.import_module("torch_aule.triton.driver").AuleDriver
    module.backends["aule"] = module.Backend(compiler=compiler, driver=driver)


def _is_ours(value: object) -> bool:
    return getattr(getattr(value, "device", None), "type", None) == "aule"


def _with_our_driver(run, config, make):
    """`run`, under our driver when it gets a tensor of ours."""

    @functools.wraps(run)
    def chosen(self, *args, **kwargs):
        if not any(map(_is_ours, args)) and not any(map(_is_ours, kwargs.values())):
            return run(self, *args, **kwargs)
        before = config._active
        config.set_active(make())
        try:
            return run(self, *args, **kwargs)
        finally:
            config._active = before

    return chosen


@functools.cache
def _driver_beside():
    return importlib.import_module("torch_aule.triton.driver").AuleDriver.beside()


def _choose_driver(kind: str, module: ModuleType) -> None:
    """Beside another accelerator, whose driver stays the default, launches go where their tensors are."""
    if built_in_accelerator():  # else Triton asks each driver, and ours says that it is active
        owner = getattr(module, kind)
        owner.run = _with_our_driver(owner.run, module.driver, _driver_beside)


_STEPS: dict[str, Callable[[ModuleType], None]] = {
    "triton.backends": _add_backend,
    "triton.runtime.jit": functools.partial(_choose_driver, "JITFunction"),
    "triton.runtime.autotuner": functools.partial(_choose_driver, "Autotuner"),
}


def _imported(module: ModuleType) -> None:
    try:
        _STEPS[module.__name__](module)
    except Exception as error:  # somebody else's import must not fail for this
        warnings.warn(f"torch_aule: Triton has no backend for aule: {error!r}", stacklevel=2)


def start() -> None:
    """Watch for the imports; what has been imported already is served at once."""
    watch = ImportWatch(_STEPS, _imported)
    for name in _STEPS:
        module = watch.imported(name)
        if module is not None:
            _imported(module)
    watch.start()
