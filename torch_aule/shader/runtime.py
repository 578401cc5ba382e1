"""For kernels compiled at run time: the table of those that are made, GLSL to SPIR-V, its cache on disk."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from torch_aule import _C
from torch_aule.glsl.compiler import CompilerMissing, check_spirv, find_compiler, original_places
from torch_aule.glsl.pruning import WORD
from torch_aule.glsl.shader_source import Shader, expand
from torch_aule.glsl.spirv import Constant, ShaderError, reflect_features
from torch_aule.shader import spirv_cache

__all__ = ["cache_folder", "compiler_identity", "constant_rows", "once", "to_spirv"]

_glslang = threading.Lock()  # it is not known to be safe in several threads
_compiler = None
_lock = threading.Lock()  # of the table
KEPT = 256  # kernels that a program may make again without holding them; each has its pipelines
_made: OrderedDict[tuple, Future] = OrderedDict()  # by all that they are made of, the last used last


def once(key: tuple, make: Callable):
    """The result of `make`, once for each key even if several threads ask; a failure is tried again.

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
    """The compiler's name and version.

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
