"""Kernels of generated code: from their text to the object that is launched, at once when the text is known."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from torch_aule import _C
from torch_aule.glsl.compiler import MAX_PUSH_BYTES, reflect
from torch_aule.glsl.shader_source import included_name, included_version, parse_shader
from torch_aule.glsl.spirv import ShaderError
from torch_aule.shader import spirv_cache
from torch_aule.shader.runtime import cache_folder, compiler_identity, constant_rows, once, to_spirv

__all__ = ["compile_generated", "prepare_early", "start_compiling"]

# Bytes of the members of Params that letters of a signature stand for. That of an `h` is not known here: at most 8.
_LETTERS = {"r": 8, "w": 8, "m": 8, "h": 8, "i": 4, "u": 4, "l": 8, "f": 4, "d": 8, "e": 8, "t": 4, "n": 32}


def compile_generated(
    source: str,
    *,
    name: str,
    signature: str,
    constants: Mapping[str, bool | int | float | torch.dtype] | None = None,
) -> _C.GeneratedKernel:
    """Compile a kernel of generated code, for launches that cost little.

    May be called by several threads: glslang runs in one at a time, and equal kernels are compiled once.

    Parameters
    ----------
    source : str
        A file as in shaders/ (its README) without `#pragma aule axis` and `tensor`. A `Params` of more than 128 bytes
        goes through the parameter ring by itself.
    name : str
        Of the kernel, in snake case.
    signature : str
        One letter for each member of `Params`, in their order. `r`, `w`, `m`: a tensor that is read, written, both,
        whose address the member (uint64_t) gets. `h`: the value of a 0-dim CPU tensor, or a number, as the member's
        type. `i`, `u`, `l`, `f`, `d`: a number; the member is an int, uint, int64_t or uint64_t, float, double. `e`,
        `t` and `n` are no arguments: the launch fills in the address of the device's error record (uint64_t) and the
        number by which an error names this kernel (uint), for common/errors.glsl, and `uint digits[8]`, element i
        being i, for common/uniform.glsl.
    constants : mapping, optional
        Specialization constants by their names in the source; the others keep their defaults.

    Returns
    -------
    callable
        `kernel(*arguments, groups)`: the members' values in their order, all by position, and how many workgroups
        there are, laid out for `linear_group()` of common/indexing.glsl; 0 launches nothing. It runs on the current
        stream of the tensors' device, ordered by what the tensors' own elements span; a tensor without elements has
        the address 0. Autograd does not notice. `kernel.prepare(device_index=-1)` creates the pipeline ahead of the
        first launch and lets other threads run meanwhile.

    Raises
    ------
    ShaderError
        With name and line, if the source does not compile or has what shaders must not have. A CompilerMissing says
        what to install.
    ValueError
        If the signature does not fit `Params`.
    """
    given = dict(constants or {})
    key = ("generated", name, signature, hashlib.sha256(source.encode()).digest(), *sorted(given.items()))
    return once(key, lambda: _compiled_generated(source, name, signature, given))


def _compiled_generated(source: str, name: str, signature: str, given: dict) -> _C.GeneratedKernel:
    if unknown := sorted(set(signature) - set(_LETTERS)):
        letters = "".join(_LETTERS)
        raise ValueError(f"{name}: the signature {signature} has the letter {unknown[0]}, not one of {letters}")
    folder = cache_folder()
    text = f"generated {_own_version()}\n{compiler_identity()}\n{signature}\n{source}"
    key = hashlib.sha256(text.encode()).hexdigest()
    made = _unpacked(spirv_cache.load(folder, key))
    if made is None:
        made, files = _described(source, name, signature)
        if files is not None:
            spirv_cache.store(folder, key, _packed(made, files))
    return _C.GeneratedKernel(name=name, signature=signature, given=given, **made)


@functools.cache
def _own_version() -> str:
    """Of the code that makes and reads what is kept."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sorted([*(package / "glsl").glob("*.py"), *(package / "shader").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _described(source: str, name: str, signature: str) -> tuple[dict, list | None]:
    """The parts of the launch object, and the included files with their versions, if the package has them all."""
    shader = parse_shader(Path(name), source)
    if shader.axes or shader.tensors:
        raise ShaderError(f"{name}: `#pragma aule axis` and `tensor` are not for generated kernels")
    end = 0
    for size in map(_LETTERS.__getitem__, signature):
        end = -(-end // size) * size + size
    shader.params_ring |= end > MAX_PUSH_BYTES and not shader.params_wide
    features = to_spirv(shader, {})
    reflect(shader)
    for member, letter in zip(shader.params, signature):
        if (member.count != 0) != (letter == "n"):
            raise ShaderError(f"{name}: Params::{member.name}: arrays have the letter n, and it is for them")
    made = {
        "spirv": shader.variants[0].spirv,
        "features": features,
        "params_bytes": shader.params_bytes,
        "params_ring": shader.params_ring,
        "members": [(m.name, m.cpp_type, m.offset, m.count, None, 0, False, 1) for m in shader.params],
        "constants": constant_rows(shader.constants),
    }
    names = [included_name(path) for path in shader.source.files[1:]]
    known = [(own, included_version(own)) for own in names if own is not None]
    return made, known if len(known) == len(names) else None


def _packed(made: dict, files: list) -> bytes:
    head = json.dumps({"files": files, **{key: value for key, value in made.items() if key != "spirv"}}).encode()
    return len(head).to_bytes(4, "little") + head + made["spirv"]


def _unpacked(data: bytes | None) -> dict | None:
    """Nothing if one of the included files has changed."""
    if data is None:
        return None
    start = 4 + int.from_bytes(data[:4], "little")
    made = json.loads(data[4:start])
    if any(included_version(own) != version for own, version in made.pop("files")):
        return None
    for rows in ("members", "constants"):
        made[rows] = [tuple(row) for row in made[rows]]
    return {**made, "spirv": data[start:]}


_pool: ThreadPoolExecutor | None = None
_waiting = 0  # works that have not ended


def _in_background(make: Callable[[], _C.GeneratedKernel], device_index: int) -> None:
    """Has the driver compile a kernel on another thread, which makes the kernel, too."""
    global _pool, _waiting

    def work() -> None:
        global _waiting
        try:
            make().prepare(device_index)
        except Exception:  # who asks for the kernel, or launches it, gets the error
            pass
        with _count:
            _waiting -= 1
            if _waiting == 0:
                _save_soon(device_index)

    with _count:
        if _pool is None:
            _pool = ThreadPoolExecutor(2, thread_name_prefix="torch_aule_compile")
        _waiting += 1
        try:
            _pool.submit(work)
        except RuntimeError:  # the interpreter is ending
            _waiting -= 1


_count = threading.Lock()
_saver: threading.Timer | None = None
_ending = False
SAVE_AFTER_SECONDS = 2.0


def _save_soon(device_index: int) -> None:
    """Keeps the driver's cache on disk once no kernel has come for a while: a killed process should not lose it.

    The thread is no daemon, so the interpreter waits for a save that has begun. It works without the interpreter's
    lock, and a thread that asks for that lock after the interpreter's end is unwound through C++, which aborts.
    """
    global _saver
    if _saver is not None:
        _saver.cancel()
    if not _ending:
        _saver = threading.Timer(SAVE_AFTER_SECONDS, _C.save_pipelines, (device_index,))
        _saver.start()


def _at_exit() -> None:
    """Compilations that have not begun are dropped."""
    global _ending
    with _count:
        _ending = True
        if _saver is not None:
            _saver.cancel()  # the driver's cache is written at exit
    if _pool is not None:
        _pool.shutdown(wait=False, cancel_futures=True)


def _after_fork() -> None:
    global _pool, _waiting, _count, _saver
    _pool, _waiting, _count, _saver = None, 0, threading.Lock(), None  # the threads are the parent's


if hasattr(threading, "_register_atexit"):  # before the executor's own, which waits for everything
    threading._register_atexit(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def start_compiling(source: str, *, name: str, signature: str, device_index: int = 0) -> None:
    """Begin to compile a kernel on another thread, pipeline included; `compile_generated` then finds it or waits.

    Parameters
    ----------
    source, name, signature : str
        As `compile_generated` will get them. Errors wait for that call.
    device_index : int, default 0
        The device whose driver compiles it.
    """

    _in_background(lambda: compile_generated(source, name=name, signature=signature), device_index)


def prepare_early(kernel: _C.GeneratedKernel, device_index: int = 0) -> None:
    """Have the driver compile a kernel on another thread; a launch meanwhile waits for it.

    Parameters
    ----------
    kernel : GeneratedKernel
        What `compile_generated` returned.
    device_index : int, default 0
        The device.
    """

    _in_background(lambda: kernel, device_index)
