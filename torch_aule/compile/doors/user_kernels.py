"""Kernels of Triton that a compiled function launches: what Dynamo and Inductor ask, and their text in a module.

Inductor's wrapper defines a kernel once, and calls it. The definition here takes the user's own `JITFunction`, which is
found by :func:`identity` among those that Dynamo has seen. Its source stands beside it, for a process whose Dynamo has
seen none.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import math
from types import ModuleType
from typing import Any

import sympy
import torch

__all__ = [
    "UserKernels",
    "can_fuse_epilogue",
    "has_tensor_descriptors",
    "has_triton",
    "identity",
    "named_source",
]

_IMPORTS = (
    "import triton",
    "import triton.language as tl",
    "import triton.tools.tensor_descriptor",
    "from torch_aule.compile.doors.user_launch import user_kernel",
)
_OPTIONS = ("debug", "do_not_specialize", "do_not_specialize_on_alignment")  # of the decorator


def identity(kernel) -> str:
    """A name for what a kernel computes, the same in each process.

    Parameters
    ----------
    kernel : triton.JITFunction

    Returns
    -------
    str
        Of its source, of what that calls and reads, and of the decorator's options.
    """
    options = (getattr(kernel, name) for name in _OPTIONS)
    return hashlib.sha256(repr((kernel.cache_key, *options)).encode()).hexdigest()


def _knows(original, needs: str):
    """A question of `torch.utils._triton`, which lists devices by name, also asked of ours."""

    @functools.cache
    def answer() -> bool:
        from torch.utils import _triton

        return original() or (
            _triton.has_triton_package()
            and importlib.util.find_spec(needs) is not None
            and bool(torch.aule.is_available())
        )

    return answer


def has_triton(original):
    """Of _triton.has_triton."""
    return _knows(original, "triton.runtime")


def has_tensor_descriptors(original):
    """Of _triton.has_triton_tensor_descriptor_host_tma."""
    return _knows(original, "triton.tools.tensor_descriptor")


# Answers for Inductor.


def can_fuse_epilogue(original):
    """Of UserDefinedTritonKernel.can_fuse_epilogue: Inductor writes no epilogue of its own into a user's kernel."""

    def can_fuse(self):
        return self.device.type != "aule" and original(self)

    return can_fuse


def named_source(original):
    """Of the function that gives a kernel's source: beside it stands what the source does not tell.

    The cache of graphs compares sources. Variables of an enclosing function are not in them, nor are a second helper
    of the same name and the decorator's options.
    """

    def source(kernel, *args, **kwargs):
        text = original(kernel, *args, **kwargs)
        try:
            return f"{text}\n# {identity(kernel)}\n"
        except Exception:  # a kernel that Triton cannot read: the launch tells why
            return text

    return source


def _text(value) -> str:
    """Python that gives a constant of a kernel again."""
    import triton.language as tl

    if isinstance(value, tl.constexpr):
        return f"tl.constexpr({_text(value.value)})"
    if isinstance(value, tl.dtype):
        return repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({''.join(f'{_text(item)}, ' for item in value)})"
    if getattr(value, "is_Integer", False) or getattr(value, "is_Float", False):  # of sympy
        return _text(int(value) if value.is_Integer else float(value))
    raise NotImplementedError(f"a constant of a Triton kernel is a {type(value).__name__}, which a graph cannot keep")


def _dict_text(values: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name!r}: {_text(value)}" for name, value in values.items()) + "}"


def _config_text(config) -> str:
    """Parameters, then options. Dynamo puts an option among the parameters too where the kernel has one of its name."""
    names = [name for name in inspect.signature(type(config)).parameters if name not in ("kwargs", "pre_hook")]
    values = {name: getattr(config, name) for name in names}
    options = {name: value for name, value in values.items() if value is not None}
    return f"({_dict_text(config.kwargs)}, {_dict_text(options)})"


def _modules(function, seen: set[int]) -> dict[str, str]:
    """Modules that a kernel's functions name, which Inductor's text of them does not import."""
    found: dict[str, str] = {}
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            found[name] = value.__name__
        elif hasattr(getattr(value, "fn", None), "__code__") and id(value) not in seen:
            seen.add(id(value))
            found |= _modules(value.fn, seen)
    return found


def _module_text(kernel) -> str:
    """A module that has the kernel."""
    from torch._inductor.codegen import wrapper

    lines = ["import triton", "import triton.language as tl"]
    lines += [f"import {path} as {name}" for name, path in sorted(_modules(kernel.fn, set()).items())]
    options = {name: getattr(kernel, name) for name in _OPTIONS}
    given = ", ".join(f"{name}={value!r}" for name, value in options.items() if value)
    source = wrapper.user_defined_triton_kernel_transitive_closure_source_code(kernel)
    return "\n".join([*lines, "", f"@triton.jit{f'({given})' if given else ''}", source])


class UserKernels:
    """The part of a wrapper that defines such kernels and calls them."""

    def define_user_defined_triton_kernel(
        self, kernel, configs, kwargs, restore_value_args, reset_to_zero_args, grids, *more
    ):
        """Inductor's way to ask for a definition; what it returns goes to the call."""
        from torch._inductor.virtualized import V

        if V.graph.get_current_device_or_throw().type != "aule":
            return super().define_user_defined_triton_kernel(
                kernel, configs, kwargs, restore_value_args, reset_to_zero_args, grids, *more
            )
        names = kernel.arg_names
        constexprs = {p.name for p in kernel.params if p.is_constexpr}
        passed = [name for name in names if name in kwargs and name not in constexprs]
        constants = {k: v for k, v in kwargs.items() if k in constexprs or k not in names or v is None}
        arguments = [
            repr(identity(kernel)), repr(kernel.__name__), repr(passed), _dict_text(constants),
            f"[{', '.join(map(_config_text, configs))}]", repr([*restore_value_args]), repr([*reset_to_zero_args]),
        ]  # fmt: skip
        if all(list(grid) == list(grids[0]) for grid in grids):
            grids = grids[:1]
        sizes = [sympy.sympify(size) for grid in grids for size in (*grid, 1, 1)[:3]]
        key = tuple(arguments)
        if key not in self.user_defined_kernel_cache:
            name = f"{kernel.__name__}_{len(self.user_defined_kernel_cache)}"
            name = name[1:] if name.startswith("__") else name  # the call may stand in a class
            told = inspect.signature(self.generate_kernel_call).parameters  # an oldest torch takes one dict less
            self.user_defined_kernel_cache[key] = (name, {}, {}) if "inductor_meta" in told else (name, {})
            inner = "".join(f"    {argument},\n" for argument in [*arguments, f"source={_module_text(kernel)!r}"])
            self.write_user_kernels_header()
            self.define_kernel(name, f"user_kernel(\n{inner})", f"# {kernel.fn.__code__.co_filename}")
        return (*self.user_defined_kernel_cache[key], sizes)

    def write_user_kernels_header(self) -> None:
        """Imports of a module with such kernels."""
        root = self
        while getattr(root, "parent_wrapper", None) is not None:
            root = root.parent_wrapper
        if not root.imports.contains(_IMPORTS[-1]):
            root.imports.splice("\n".join(_IMPORTS))

    def call_user_kernel(self, name: str, call_args) -> None:
        """A launch, as a line of the module."""
        self.writeline(f"{name}.run({', '.join(self.prepare_triton_kernel_call(call_args))})")
