"""Adds the device to Triton's backends when a program imports Triton, and not before."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable
from types import ModuleType

from torch_aule.accelerators import built_in_accelerator
from torch_aule.importing import run_after_import
from torch_aule.triton.ir import Unsupported

__all__ = ["start"]


def _add_backend(module: ModuleType) -> None:
    compiler = importlib.import_module("torch_aule.triton.backend").AuleBackend
    driver = importlib.import_module("torch_aule.triton.driver").AuleDriver
    module.backends["aule"] = module.Backend(compiler=compiler, driver=driver)


def _is_ours(value: object) -> bool:
    """Whether an argument of a launch is a tensor of ours, a view or a descriptor of one, or a tuple with one."""
    if isinstance(value, (tuple, list)):
        return any(map(_is_ours, value))
    device = getattr(value, "device", None)
    if device is None:
        base = getattr(value, "base", None)
        return base is not None and base is not value and _is_ours(base)
    return getattr(device, "type", None) == "aule"


@contextlib.contextmanager
def _driver(config, make):
    before = config._active
    config.set_active(make())
    try:
        yield
    finally:
        config._active = before


def _with_our_driver(run, config, make):
    """`run`, under our driver when it gets a tensor of ours."""

    @functools.wraps(run)
    def chosen(self, *args, **kwargs):
        if not any(map(_is_ours, args)) and not any(map(_is_ours, kwargs.values())):
            return run(self, *args, **kwargs)
        with _driver(config, make):
            return run(self, *args, **kwargs)

    return chosen


def _of_our_kernels(method, config, make):
    """A method of a compiled kernel, under our driver when the kernel was compiled for it."""

    @functools.wraps(method)
    def chosen(self, *args):
        metadata = getattr(self, "metadata", None)  # absent where its making failed
        if metadata is None or metadata.target.backend != "aule":
            return method(self, *args)
        with _driver(config, make):
            found = method(self, *args)
        return _launching(found, config, make) if callable(found) else found

    return chosen


def _launching(launch, config, make):
    @functools.wraps(launch)
    def launched(*args, **kwargs):
        with _driver(config, make):
            return launch(*args, **kwargs)

    return launched


@functools.cache
def _driver_beside():
    return importlib.import_module("torch_aule.triton.driver").AuleDriver.beside()


def _choose_driver(kind: str, module: ModuleType) -> None:
    """Beside another accelerator, whose driver stays the default, launches go where their tensors are."""
    if built_in_accelerator():  # else Triton asks each driver, and ours says that it is active
        owner = getattr(module, kind)
        owner.run = _with_our_driver(owner.run, module.driver, _driver_beside)


def _choose_driver_of_kernels(module: ModuleType) -> None:
    """The same of a compiled kernel that a program holds, as `warmup` gives it."""
    if built_in_accelerator():
        owner = module.CompiledKernel
        for name in ("_init_handles", "__getitem__", "__del__"):
            if name in vars(owner):
                setattr(owner, name, _of_our_kernels(vars(owner)[name], module.driver, _driver_beside))


_LAUNCHERS = {"triton.runtime.jit": "JITFunction", "triton.runtime.autotuner": "Autotuner"}
_DYNAMO = "torch._dynamo"  # one module has one watch, and compile/doors/hook.py watches its parts


def _run_untraced(_: ModuleType) -> None:
    """Launches a kernel as it is where `torch.compile` cannot capture it. It would else compile Triton's own Python."""
    dynamo = sys.modules.get(_DYNAMO)
    disable = getattr(dynamo, "disable", None)  # absent while it is being imported: then this is called again
    if disable is None:
        return
    for name, kind in _LAUNCHERS.items():
        owner = getattr(sys.modules.get(name), kind, None)
        if owner is not None and not getattr(owner.run, "_torchdynamo_disable", False):
            owner.run = disable(owner.run)


def _refuse_cuda_graphs(module: ModuleType) -> None:
    """A timer that is made of CUDA's graphs says so, instead of failing at CUDA's first missing name."""
    timer = getattr(module, "do_bench_cudagraph", None)
    if timer is None or built_in_accelerator():
        return

    @functools.wraps(timer)
    def do_bench_cudagraph(*args, **kwargs):
        raise Unsupported(
            "do_bench_cudagraph measures with graphs of CUDA, which are not served on aule; take do_bench"
        )

    module.do_bench_cudagraph = do_bench_cudagraph  # type: ignore[attr-defined]


def _in_turn(*steps: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def all_of_them(module: ModuleType) -> None:
        for step in steps:
            step(module)

    return all_of_them


_STEPS: dict[str, Callable[[ModuleType], None]] = {
    "triton.backends": _add_backend,
    "triton.compiler.compiler": _choose_driver_of_kernels,
    "triton.runtime.jit": _in_turn(functools.partial(_choose_driver, "JITFunction"), _run_untraced),
    "triton.runtime.autotuner": _in_turn(functools.partial(_choose_driver, "Autotuner"), _run_untraced),
    "triton.testing": _refuse_cuda_graphs,
    _DYNAMO: _run_untraced,
}


def start() -> None:
    """Watch for the imports."""
    run_after_import(_STEPS, "Triton has no backend for aule")
