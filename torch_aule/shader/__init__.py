"""Kernels of your own: GLSL or SPIR-V to a function that takes tensors and numbers."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import torch

from torch_aule import _C
from torch_aule.errors import ShaderCompileError
from torch_aule.glsl.compiler import (
    MAX_PUSH_BYTES,
    MAX_WIDE_PUSH_BYTES,
    CompilerMissing,
    check_spirv,
)
from torch_aule.glsl.shader_source import TensorLine, parse_shader
from torch_aule.glsl.spirv import (
    Constant,
    ShaderError,
    check_words,
    reflect_constants,
    reflect_features,
)
from torch_aule.shader.arguments import Argument, Interface, SizeId, reflect_interface
from torch_aule.shader.decorated import source_of
from torch_aule.shader.runtime import constant_rows, once, to_spirv

__all__ = ["CompilerMissing", "Shader", "ShaderCompileError", "compile_shader", "jit", "load_spirv"]

MAX_GROUPS = 65535  # along an axis, on every device
_LETTERS = {"int64_t": "l", "int32_t": "i", "uint32_t": "u", "float": "f", "double": "d"}
_ACCESS = {"read": "r", "write": "w", "read_write": "m"}
_ELEMENTS = {
    ("float", 16): torch.float16, ("float", 32): torch.float32, ("float", 64): torch.float64,
    ("bfloat", 16): torch.bfloat16,
    ("int", 8): torch.int8, ("int", 16): torch.int16, ("int", 32): torch.int32, ("int", 64): torch.int64,
}  # fmt: skip
Constants = Mapping[str, bool | int | float | torch.dtype]


class Shader:
    """A kernel that `compile_shader` or `load_spirv` makes; call it to launch it.

    Attributes
    ----------
    name : str
        As in labels, errors and the profiler.
    arguments : tuple of str
        What it takes, in order: ``"read x"``, ``"write y"``, ``"float a"``, ``"int[3] strides"``.
    group_size : tuple of int
        Invocations of a workgroup along x, y and z.
    """

    @classmethod
    def _make(
        cls,
        name: str,
        spirv: bytes,
        features: list[str],
        interface: Interface,
        constants: list[Constant],
        given: Constants,
        *,
        tensors: Sequence[TensorLine] = (),
        params_ring: bool = False,
        folds: bool = False,
    ) -> Shader:
        self = cls()
        lines = {line.name: line for line in tensors}
        kinds = {constant.name: constant for constant in constants}
        self.name = name
        self._folds = folds  # the kernel numbers its workgroups by linear_group()
        self._dtypes = []
        members, letters, shown = [], "", []
        for position, argument in enumerate(interface.arguments):
            line = lines.pop(argument.name, None)
            access = line.access if line else argument.access
            if access is None and argument.cpp_type == "uint64_t":
                access = "read_write"
            is_address = argument.cpp_type == "uint64_t" and argument.count == 0
            if not is_address and (line or argument.cpp_type == "uint64_t"):
                raise ShaderError(f"{name}: {argument.name} is no address of a tensor: numbers are int64_t or smaller")
            if access is None:
                letters += _LETTERS[argument.cpp_type]
                count = f"[{argument.count}]" if argument.count else ""
                shown.append(f"{argument.cpp_type.removesuffix('_t')}{count} {argument.name}")
                wanted = (None, 0, False, 1)
            else:
                letters += _ACCESS[access]
                shown.append(f"{access} {argument.name}")
                wanted = self._wanted(position, argument, line, kinds)
            members.append((argument.name, argument.cpp_type, argument.offset, argument.count, *wanted))
        if lines:
            raise ShaderError(f"{name}: there is no argument {next(iter(lines))} for `#pragma aule tensor`")
        self.arguments = tuple(shown)
        self._first = next(i for i, letter in enumerate(letters) if letter in "rwm")
        sizes = {constant.number: constant for constant in constants}
        self.group_size = tuple(
            int(cast(int, given.get(sizes[size.number].name, sizes[size.number].default)))
            if isinstance(size, SizeId)
            else size
            for size in interface.size
        )
        self._source = {
            "name": name, "spirv": spirv, "features": features, "params_bytes": interface.params_bytes,
            "params_ring": params_ring, "members": members, "signature": letters,
            "constants": constant_rows(constants), "autograd": True,
        }  # fmt: skip
        self._given = dict(given)
        if taken := {constant for _, constant in self._dtypes} & self._given.keys():
            raise ValueError(f"{name}: {taken.pop()} is the dtype of a tensor and cannot be given")
        self._kernels = {}
        self._kernel = None if self._dtypes else _C.GeneratedKernel(**self._source, given=self._given)
        return self

    def _wanted(self, position: int, argument: Argument, line: TensorLine | None, kinds: dict[str, Constant]) -> tuple:
        """Of a tensor: dtype, bytes of an element (0: any), contiguous, bytes that its address is a multiple of."""
        contiguous = line is None or not line.strided
        align = argument.element.align if argument.element else 1
        if line is not None and line.dtype != "any":
            kind = kinds.get(line.dtype)
            if kind is not None and kind.type == "int" and line.dtype.endswith("DTYPE"):
                self._dtypes.append((position, line.dtype))
                return None, 0, contiguous, align
            dtype = getattr(torch, line.dtype, None)
            if not isinstance(dtype, torch.dtype):
                raise ShaderError(
                    f"{self.name}: tensor {line.name}: '{line.dtype}' is no dtype of torch, no int constant *DTYPE, "
                    "not any"
                )
            return dtype, 0, contiguous, align
        if argument.element is None or line is not None:
            return None, 0, contiguous, align
        dtype = _ELEMENTS.get((argument.element.kind, argument.element.bits))
        return dtype, argument.element.bits // 8, contiguous, align

    def __call__(
        self,
        *args: torch.Tensor | bool | int | float | Sequence[int | float],
        threads: int | Sequence[int] | None = None,
        groups: int | Sequence[int] | None = None,
    ) -> None:
        """Launch on the current stream of the tensors' device.

        Autograd sees what is written, and refuses it where a gradient is asked for, but differentiates nothing: wrap
        the call in a ``torch.autograd.Function`` or a ``torch.library.custom_op``.

        Parameters
        ----------
        *args : torch.Tensor, int, float or sequence of numbers
            In the order of the declaration: for an address a contiguous tensor of the dtype that is declared, all on
            one aule device; for an array a sequence of its length; else a number.
        threads : int or sequence of int, optional
            Invocations along x, or along x, y and z; rounded up to whole workgroups, so the kernel compares with a
            bound of its own. Default: the elements of the first tensor.
        groups : int or sequence of int, optional
            Workgroups instead. Along an axis there are at most 65535, unless it is one number and the kernel numbers
            its workgroups by ``linear_group()``.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit; the text names kernel and argument.
        RuntimeError
            If the device lacks a feature or the shared memory that the kernel asks for.
        """
        if groups is None:
            groups = self._groups_for(args, threads)
        elif threads is not None:
            raise ValueError(f"{self.name}: give threads or groups")
        elif isinstance(groups, int):
            groups = self._laid_out(groups)
        kernel = self._kernel
        if kernel is None:
            kernel = self._of_dtypes(args)
        kernel(*args, groups)

    def _groups_for(self, args: tuple, threads: int | Sequence[int] | None) -> int | tuple[int, ...]:
        if threads is None:
            first = args[self._first] if len(args) > self._first else None
            threads = first.numel() if isinstance(first, torch.Tensor) else 0  # an error follows
        if isinstance(threads, int):
            if threads < 0:
                raise ValueError(f"{self.name}: expected threads of at least 0, but got {threads}")
            return self._laid_out(-(-threads // self.group_size[0]))
        if not 1 <= len(threads) <= 3:
            raise ValueError(f"{self.name}: threads has up to three numbers, got {tuple(threads)}")
        if min(threads) < 0:
            raise ValueError(f"{self.name}: expected threads of at least 0, but got {tuple(threads)}")
        return tuple(-(-count // size) for count, size in zip(threads, self.group_size))

    def _laid_out(self, groups: int) -> int | tuple[int]:
        if self._folds or groups <= 32768:  # up to here one number is a row (linear_grid in csrc/core/access.h)
            return groups
        if groups <= MAX_GROUPS:
            return (groups,)
        raise ValueError(
            f"{self.name}: {groups} workgroups along x, and no device must have more than {MAX_GROUPS}: number them by "
            "linear_group() or linear_invocation() of <aule/common/indexing.glsl>, or launch along x and y"
        )

    def _of_dtypes(self, args: tuple) -> _C.GeneratedKernel:
        dtypes = tuple(getattr(args[i], "dtype", None) for i, _ in self._dtypes if i < len(args))
        kernel = self._kernels.get(dtypes)
        if kernel is None:
            found: dict[str, torch.dtype] = {}
            for (_, constant), dtype in zip(self._dtypes, dtypes):
                if dtype is not None and found.setdefault(constant, dtype) != dtype:
                    raise TypeError(
                        f"{self.name}: the tensors of {constant} have the dtypes {found[constant]}, {dtype}"
                    )
            kernel = _C.GeneratedKernel(**self._source, given={**self._given, **found})
            if None not in dtypes and len(dtypes) == len(self._dtypes):
                self._kernels[dtypes] = kernel
        return kernel

    def prepare(self, device: torch.device | str | int | None = None) -> None:
        """Have the driver compile the kernel now instead of at the first launch; other threads run meanwhile.

        Kernels with constants that get a tensor's dtype wait for their first launch.

        Parameters
        ----------
        device : torch.device, str or int, optional
            Default: the current device.
        """
        from torch_aule.indices import checked_index

        if self._kernel is not None:
            self._kernel.prepare(checked_index(device))

    def __repr__(self) -> str:
        return f"<shader {self.name}({', '.join(self.arguments)}), group_size={self.group_size}>"


def compile_shader(
    source: str,
    *,
    name: str = "shader",
    defines: Mapping[str, object] | None = None,
    group_size: Sequence[int] = (64, 1, 1),
    constants: Constants | None = None,
) -> Shader:
    """Compile a compute shader from GLSL, as ``torch.mps.compile_shader`` does from Metal.

    SPIR-V is kept in memory and in the cache folder, so the same source is compiled once on a machine.

    Parameters
    ----------
    source : str
        GLSL with a ``main``. ``#version 460`` and the extensions for addresses, 64-bit integers and 8- and 16-bit
        storage are there. ``params { ... };`` declares the arguments as global names; members are buffer_reference
        types (tensors), numbers and arrays of numbers. What is read and what is written, and so ordered against what,
        is read from the SPIR-V; ``readonly`` and ``writeonly`` of the block count. ``#include <aule/common/...>`` finds
        the package's own headers. See docs/use/compile_shader.md.
    name : str, default "shader"
        In snake case, for labels, errors and the profiler.
    defines : mapping, optional
        Macros.
    group_size : sequence of int, default (64, 1, 1)
        Invocations of a workgroup; for sources without a ``layout(local_size_x = ...) in``.
    constants : mapping, optional
        Specialization constants by name; the others keep the defaults of the source.

    Returns
    -------
    Shader
        The same one for the same arguments.

    Raises
    ------
    ShaderCompileError
        With the compiler's message and the line in `source`.
    CompilerMissing
        If no GLSL compiler is installed: "JIT compiler not available", and what to install.

    Examples
    --------
    >>> scale = torch_aule.compile_shader('''
    ... layout(buffer_reference, scalar) readonly buffer In { float v[]; };
    ... layout(buffer_reference, scalar) writeonly buffer Out { float v[]; };
    ... params { Out y; In x; float a; uint n; };
    ... void main() {
    ...   uint i = gl_GlobalInvocationID.x;
    ...   if (i < n) y.v[i] = a * x.v[i];
    ... }''', name="scale")
    >>> scale(y, x, 2.0, x.numel())
    """
    size = (*group_size, 1, 1)[:3] if 1 <= len(group_size) <= 3 else None
    if size is None or not all(isinstance(n, int) and n > 0 for n in size):
        raise ValueError(f"compile_shader: group_size is up to three numbers above 0, got {group_size}")
    own = {key: str(value) for key, value in (defines or {}).items()}
    given = dict(constants or {})
    key = ("shader", name, source, size, *sorted(own.items()), None, *sorted(given.items()))
    try:
        return once(key, lambda: _compiled(source, name, own, size, given))
    except CompilerMissing:
        raise
    except ShaderError as error:
        raise ShaderCompileError(str(error)) from None


def _compiled(source: str, name: str, own: dict[str, str], size: tuple[int, ...], given: dict) -> Shader:
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
    shader = parse_shader(Path(name), re.sub(r"(?m)^[ \t]*#[ \t]*version\b.*$", "", source))
    if shader.axes:
        raise ShaderError(f"{name}: `#pragma aule axis` is for the package's own shaders: use defines")
    head = []
    if not re.search(r"\blocal_size_[xyz]", code):
        head.append(f"layout(local_size_x = {size[0]}, local_size_y = {size[1]}, local_size_z = {size[2]}) in;")
    elif size != (64, 1, 1):
        raise ShaderError(f"{name}: the source has a local_size of its own: no group_size")
    if re.search(r"(?m)^[ \t]*params\s*\{", code):
        head.append("#define params layout(push_constant, scalar) uniform Params")
    features = to_spirv(shader, own, head)
    (variant,) = shader.variants
    interface = reflect_interface(variant.spirv, name)
    limit = MAX_WIDE_PUSH_BYTES if shader.params_wide else MAX_PUSH_BYTES
    if interface.params_bytes > limit and not shader.params_ring:
        raise ShaderError(
            f"{name}: the arguments have {interface.params_bytes} bytes, `params` promises {limit}: declare "
            "`struct Params { ... };`, include <aule/common/params.glsl> and add `#pragma aule params ring`"
        )
    return Shader._make(
        name, variant.spirv, features, interface, reflect_constants(variant.spirv, name), given,
        tensors=shader.tensors, params_ring=shader.params_ring,
        folds=re.search(r"\blinear_(group|invocation)\b", code) is not None,
    )  # fmt: skip


def load_spirv(
    spirv: bytes,
    *,
    name: str = "shader",
    constants: Constants | None = None,
) -> Shader:
    """Make a kernel of a compiled compute shader; needs no compiler.

    Parameters
    ----------
    spirv : bytes
        A module for Vulkan 1.3 with the entry point ``main``. Its arguments are its push constants: PhysicalStorage
        pointers or 64-bit addresses for tensors, numbers, arrays of numbers. It has no descriptor sets. Names of
        members are those of OpMemberName.
    name : str, default "shader"
        For labels, errors and the profiler.
    constants : mapping, optional
        Specialization constants by name; the others keep their defaults.

    Returns
    -------
    Shader
        As `compile_shader` gives it.

    Raises
    ------
    ShaderCompileError
        If this is no SPIR-V, or has what no kernel may have.
    """
    try:
        check_words(spirv, name)
        check_spirv(spirv, name)
        interface = reflect_interface(spirv, name)
        if interface.params_bytes > MAX_WIDE_PUSH_BYTES:
            raise ShaderError(f"{name}: {interface.params_bytes} bytes of push constants are more than devices have")
        features = sorted(reflect_features(spirv, name))
        return Shader._make(name, spirv, features, interface, reflect_constants(spirv, name), dict(constants or {}))
    except (IndexError, KeyError) as error:
        raise ShaderCompileError(f"{name}: an instruction refers to something that is not there: {error!r}") from None
    except ShaderError as error:
        raise ShaderCompileError(str(error)) from None


class _Function:
    """A function that `jit` wrapped. It is compiled at the first call."""

    def __init__(self, function: Callable, header: str, options: dict) -> None:
        self._source = source_of(function, header)
        self._signature = inspect.signature(function)
        self._options = {"name": function.__name__, **options}
        self._shader: Shader | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args, threads: int | None = None, **named) -> None:
        if self._shader is None:
            self._shader = compile_shader(self._source, **self._options)
        if named:
            args = self._signature.bind(*args, **named).args
        if threads is None:
            first = args[self._shader._first] if len(args) > self._shader._first else None
            threads = first.numel() if isinstance(first, torch.Tensor) else 0  # an error follows
        if threads >= 1 << 31:
            raise ValueError(f"{self.__name__}: {threads} threads: `i` has 31 bits")
        self._shader(*args, threads, threads=threads)

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}{self._signature}>"


def jit(
    function: Callable | None = None,
    *,
    header: str = "",
    defines: Mapping[str, object] | None = None,
    group_size: int = 64,
    constants: Constants | None = None,
) -> Callable:
    '''Make a kernel of a function whose docstring is GLSL, as a decorator.

    The docstring is the body of ``main``. There ``i`` is the invocation's number and ``threads`` how many there are;
    workgroups are whole, so the body compares the two. Tensors are arrays: ``y[i]``.

    Parameters
    ----------
    function : callable
        Its parameters are annotated with a dtype, ``torch.float32``, for tensors, and with ``float`` or ``int`` (64
        bits) for numbers. What the body reads and writes is read from its SPIR-V.
    header : str, optional
        GLSL that stands before ``main``: functions, ``#include``.
    defines : mapping, optional
        Macros.
    group_size : int, default 64
        Invocations of a workgroup.
    constants : mapping, optional
        Specialization constants that `header` declares, by name.

    Returns
    -------
    callable
        Takes the function's arguments, and by name `threads`, by default the elements of the first tensor. It is
        compiled when it is first called.

    Raises
    ------
    ShaderCompileError
        If the function has no docstring or an annotation means nothing; at the first call, with the line in the
        docstring, if it does not compile.

    Examples
    --------
    >>> @torch_aule.jit
    ... def axpy(y: torch.float32, x: torch.float32, a: float):
    ...     """if (i < threads) y[i] += a * x[i];"""
    >>> axpy(y, x, 2.0)
    '''
    options = {"defines": defines, "group_size": (group_size,), "constants": constants}
    if function is None:
        return functools.partial(jit, header=header, defines=defines, group_size=group_size, constants=constants)
    try:
        return _Function(function, header, options)
    except ShaderError as error:
        raise ShaderCompileError(str(error)) from None
