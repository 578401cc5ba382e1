"""Imports of generated modules that launch a user's kernels of Triton. Imports triton."""

from __future__ import annotations

from typing import Any

from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from triton.runtime.autotuner import Autotuner, Config
from triton.runtime.jit import JITFunction

from torch_aule.compile.doors.user_kernels import identity

__all__ = ["user_kernel"]


def user_kernel(
    wanted: str, name: str, passed: list, constants: dict, configs: list, restored: list, zeroed: list, *, source: str
) -> _UserKernel:
    """A kernel as a module calls it.

    Parameters
    ----------
    wanted : str
        The kernel's :func:`torch_aule.compile.doors.user_kernels.identity`.
    name : str
        Of its function.
    passed : list of str
        Parameters that each call gives, in their order. One that `constants` has too gets a value without a meaning.
    constants : dict
        Values of other parameters, and options of Triton.
    configs : list of tuple
        What is tried where the kernel is autotuned: parameters with their values, and options.
    restored, zeroed : list of str
        Parameters whose tensors are restored or filled with zeros while configurations are measured.
    source : str
        A module with the kernel, for a process whose Dynamo has not seen it.

    Returns
    -------
    object
        Its `run` takes the values of `passed`, then three sizes of the grid for each configuration, or for all.
    """
    kernel = _live(name, wanted) or _from_source(name, source)
    settings = [Config(values, **options) for values, options in configs]
    if len(settings) < 2:
        constants = {**constants, **(settings[0].all_kwargs() if settings else {})}
        return _UserKernel(kernel, kernel.arg_names, passed, constants, [])
    tuner = Autotuner(kernel, kernel.arg_names, settings, [], zeroed, restored)
    return _UserKernel(tuner, kernel.arg_names, passed, constants, settings)


def _live(name: str, wanted: str) -> JITFunction | None:
    """The kernel among those that Dynamo has seen in this process."""
    for kernel in list(kernel_side_table.id_to_kernel.values()):
        while not isinstance(kernel, JITFunction):
            kernel = kernel.fn
        if kernel.__name__ == name and identity(kernel) == wanted:
            return kernel
    return None


def _from_source(name: str, source: str) -> JITFunction:
    from torch._inductor.codecache import PyCodeCache

    return getattr(PyCodeCache.load(source), name)


class _UserKernel:
    """A kernel, and which of its arguments a call gives."""

    def __init__(self, kernel, names: list[str], passed: list[str], constants: dict[str, Any], settings: list[Config]):
        self._kernel = kernel
        self._count = len(passed)
        # Triton finds what is restored or filled with zeros by position alone.
        leading = next((i for i, name in enumerate(names) if name not in passed and name not in constants), len(names))
        place = {name: passed.index(name) for name in passed if name not in constants}
        self._leading = [(place.get(name), constants.get(name)) for name in names[:leading]]
        self._behind = [(name, place[name]) for name in names[leading:] if name in place]
        self._constants = {name: value for name, value in constants.items() if name not in names[:leading]}
        # More names tell more: a configuration may leave out what the kernel has a default for.
        self._settings = sorted(enumerate(settings), key=lambda pair: -len(pair[1].kwargs))

    def run(self, *values):
        arguments = [constant if i is None else values[i] for i, constant in self._leading]
        others = {name: values[i] for name, i in self._behind}
        sizes = values[self._count :]
        grid = sizes if len(sizes) == 3 else self._grid_of(sizes)
        self._kernel.run(*arguments, grid=grid, warmup=False, **others, **self._constants)

    def _grid_of(self, sizes: tuple):
        def grid(meta: dict) -> tuple:
            for i, setting in self._settings:
                if all(meta.get(name, value) == value for name, value in setting.kwargs.items()):
                    return sizes[3 * i : 3 * i + 3]
            raise RuntimeError(f"no configuration has these values: {meta}")

        return grid
