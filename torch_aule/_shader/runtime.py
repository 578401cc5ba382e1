"""Kernels compiled at run time: GLSL as in shaders/, launched through the same door as the built-in kernels."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import torch

from torch_aule import _C
from torch_aule._shader import spirv_cache
from torch_aule._shader.compiler import CompilerMissing, check_spirv, find_compiler, original_places, reflect
from torch_aule._shader.pruning import WORD
from torch_aule._shader.shader_source import Shader, expand, parse_shader
from torch_aule._shader.spirv import Constant, ShaderError, reflect_features

__all__ = ["Kernel", "compile_kernel", "compiler_identity"]

_glslang = threading.Lock()  # it is not known to be safe in several threads
_compiler = None
_lock = threading.Lock()  # of the table
KEPT = 256  # kernels that a program may make again without holding them; each has its pipelines
_made: OrderedDict[tuple, Future] = OrderedDict()  # by all that they are made of, the last used last


def once(key: tuple, make: Callable):
    """What `make` returns, made once for each key even if several threads ask; what failed is tried again.

    The longest unused ones are forgotten beyond `KEPT`: who holds one keeps it, and who asks again has it made again.
    """
    with _lock:
        future = _made.get(key)
        if first := future is None:
            future = _made[key] = Future()
            done = [known for known, other in _made.items() if other.done()]
            for known in done[: max(0, len(_made) - KEPT)]:
                del _made[known]
        else:
            _made.move_to_end(key)
    if first:
        try:
            future.set_result(make())
        except BaseException as error:
            with _lock:
                _made.pop(key, None)
            future.set_exception(error)
    return future.result()


def _before_fork() -> None:
    """No thread is inside of glslang or its import: the child could never get the locks that it holds there."""
    _glslang.acquire()


def _after_fork() -> None:
    """The child of a fork has no other thread: what they were at is not finished there, and their locks stay locked."""
    global _lock, _glslang
    _lock, _glslang = threading.Lock(), threading.Lock()
    for key in [key for key, future in _made.items() if not future.done()]:
        del _made[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=lambda: _glslang.release(), after_in_child=_after_fork)


class Kernel:
    """A kernel that `compile_kernel` made; call it to launch it.

    Attributes
    ----------
    name : str
        As in labels, errors and the profiler.
    id : int
        The KernelId: equal for equal names and SPIR-V.
    """

    def __init__(self, native) -> None:
        self._native = native
        self.name: str = native.name
        self.id: int = native.id

    def __call__(
        self,
        *tensors: torch.Tensor,
        grid: int | Sequence[int],
        constants: dict[str, bool | int | float | torch.dtype] | None = None,
        params: dict[str, int | float | Sequence[int | float]] | None = None,
    ) -> None:
        """Launch on the current stream of the tensors' device.

        Parameters
        ----------
        *tensors : torch.Tensor
            In the order of the `tensor` lines of the source, all on one aule device. A tensor that is not declared
            `strided` must be contiguous. Autograd does not see what a kernel does.
        grid : int or sequence of int
            Workgroups, not invocations: along x, y and z, each at most 65535; or one number, which may be larger and
            is laid out for `linear_group()` of common/indexing.glsl. 0 launches nothing.
        constants : dict, optional
            Specialization constants by their names in the source; the others keep their defaults. Each combination is
            compiled by the driver once.
        params : dict, optional
            All members of `Params` that are no tensors, by name.

        Raises
        ------
        TypeError, ValueError
            If a tensor, constant or parameter does not fit what the source declares; the text names it.
        RuntimeError
            If the device lacks a feature or the shared memory that the kernel asks for.
        """
        self._native.launch(tensors, grid, constants or {}, params or {})

    def shared_bytes(self, constants: dict[str, bool | int | float | torch.dtype] | None = None) -> int:
        """Bytes of shared memory of a workgroup.

        Parameters
        ----------
        constants : dict, optional
            Specialization constants by name.

        Returns
        -------
        int
            As the device counts: each variable a multiple of 16 bytes.
        """
        return self._native.shared_bytes(constants or {})

    def __repr__(self) -> str:
        return f"<kernel {self.name}, id {self.id}>"


def compile_kernel(source: str, *, name: str, defines: Mapping[str, object] | None = None) -> Kernel:
    """Compile a kernel from GLSL.

    Parameters
    ----------
    source : str
        A file as in shaders/ (its README), with a line `#pragma aule tensor NAME ACCESS DTYPE [strided]` for each
        member of `Params` that is the address of a tensor. ACCESS is read, write or read_write. DTYPE is a dtype of
        torch; or `any`; or the name of an int constant ending in DTYPE, which then gets the tensor's dtype.
    name : str
        Of the kernel, in snake case.
    defines : mapping, optional
        Macros; for each `#pragma aule axis` of the source one of its values.

    Returns
    -------
    Kernel
        The same one for the same source, name and defines, while somebody holds it or it is one of the last 256 used.

    Raises
    ------
    ShaderError
        With name and line, if the source does not compile or has what shaders must not have. A CompilerMissing says
        what to install.

    Examples
    --------
    >>> square = compile_kernel('''
    ... #pragma aule tensor x read float32
    ... #pragma aule tensor out_ write float32
    ... // out_[i] = x[i]^2
    ... layout(local_size_x = 64) in;
    ... struct Params { uint64_t x, out_; uint n; };
    ... #include "common/params.glsl"
    ... #include "common/indexing.glsl"
    ... #include "common/dtype.glsl"
    ... void main() {
    ...   uint64_t i = linear_invocation();
    ...   if (i >= p.n) return;
    ...   float v = F32Ref(p.x + i * 4).v;
    ...   F32Ref(p.out_ + i * 4).v = v * v;
    ... }''', name="square")
    >>> square(x, y, grid=(x.numel() + 63) // 64, params={"n": x.numel()})
    """
    own = {key: str(value) for key, value in (defines or {}).items()}
    return once((name, source, *sorted(own.items())), lambda: _compiled_kernel(source, name, own))


def _compiled_kernel(source: str, name: str, own: dict[str, str]) -> Kernel:
    shader = parse_shader(Path(name), source)
    for axis, values in shader.axes.items():
        if own.get(axis) not in values:
            raise ShaderError(f"{name}: `defines` needs {axis}, one of: {', '.join(values)}")
        shader.axes[axis] = [own.pop(axis)]
    if not shader.tensors:
        raise ShaderError(f"{name}: no `#pragma aule tensor NAME ACCESS DTYPE`: what does it work on?")
    features = to_spirv(shader, own)
    reflect(shader)
    return Kernel(_native(shader, features))


def to_spirv(shader: Shader, defines: dict[str, str], head: Sequence[str] = ()) -> list[str]:
    """Compiles the only variant of a shader; the features that a device must have for it.

    Without the functions of included files that it does not call, which takes a fifth of the time. If that does not
    compile, the whole text is compiled, and its errors are those that a user sees.
    """
    compiler = _found_compiler()
    whole = shader.source.lines
    words = WORD.findall(" ".join([*defines, *defines.values(), *head]))
    shader.source.lines = shader.source.pruned(["main", *words])  # main() may be in an included file
    try:
        expand(shader, compiler.identity, defines, head)
        shader.variants[0].spirv = _spirv(compiler, shader)
    except CompilerMissing:
        raise
    except ShaderError:
        shader.variants.clear()
        shader.source.lines = whole
    if not shader.variants:
        expand(shader, compiler.identity, defines, head)
        shader.variants[0].spirv = _spirv(compiler, shader)
    (variant,) = shader.variants
    return sorted(set(variant.features()) | reflect_features(variant.spirv, variant.label))


def compiler_identity() -> str:
    """Which compiler it is and of what version.

    Raises
    ------
    CompilerMissing
        If there is none.
    """
    return _found_compiler().identity


def _found_compiler():
    global _compiler
    with _glslang:
        if _compiler is None:
            _compiler = find_compiler()
        return _compiler


def cache_folder() -> Path | None:
    return Path(_C.cache_directory()) if _C.cache_directory() else None


def _spirv(compiler, shader: Shader) -> bytes:
    (variant,) = shader.variants
    folder = cache_folder()
    key = hashlib.sha256(f"{compiler.identity}\n{variant.text}".encode()).hexdigest()
    spirv = spirv_cache.load(folder, key)
    if spirv is None:
        try:
            with _glslang:
                spirv = compiler.compile(variant.text)
        except ShaderError as error:
            raise ShaderError(original_places(str(error), shader.source.files)) from None
        check_spirv(spirv, variant.label)
        spirv_cache.store(folder, key, spirv)
    return spirv


def constant_rows(constants: list[Constant]) -> list[tuple[str, int, str, int]]:
    return [(c.name, c.number, c.type, c.default) for c in constants]


def _native(shader: Shader, features: list[str]):
    """The description that C++ launches by, all of it reflected or declared in the source."""
    (variant,) = shader.variants
    members = {member.name: member for member in shader.params}
    constants = {constant.name: constant for constant in shader.constants}
    tensors = []
    for line in shader.tensors:
        member = members.get(line.name)
        if member is None or member.cpp_type != "uint64_t" or member.count != 0:
            raise ShaderError(f"{shader.name}: tensor {line.name} is no uint64_t member of Params")
        dtype, constant = dtype_word(shader.name, line.name, line.dtype, constants)
        tensors.append((line.name, member.offset, line.access, dtype, constant, line.strided))
    taken = {line.name for line in shader.tensors}
    return _C.RuntimeKernel(
        variant.label,
        variant.spirv,
        features,
        shader.params_bytes,
        shader.params_ring,
        [(m.name, m.cpp_type, m.offset, m.count) for m in shader.params if m.name not in taken],
        constant_rows(shader.constants),
        tensors,
    )


def dtype_word(kernel: str, tensor: str, word: str, constants: dict[str, Constant]) -> tuple[torch.dtype | None, int]:
    """What the third word of a tensor line says: a dtype, or the number of a constant (-1: none)."""
    if word == "any":
        return None, -1
    if word in constants and constants[word].type == "int" and word.endswith("DTYPE"):
        return None, constants[word].number
    dtype = getattr(torch, word, None)
    if not isinstance(dtype, torch.dtype):
        raise ShaderError(f"{kernel}: tensor {tensor}: '{word}' is no dtype of torch, no int constant *DTYPE, not any")
    return dtype, -1
