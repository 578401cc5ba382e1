"""Shared by the tests: comparison with the CPU, and inputs of awkward layouts."""

from __future__ import annotations

import functools
import importlib
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map_only

from fork_server import ForkServer

ROOT = Path(__file__).resolve().parents[2]
SEARCHED = (ROOT, ROOT / "test" / "support", ROOT / "test" / "plans")  # by tests and by the programs that they start

# Tolerances of one operation against the same operation on the CPU in float32 or wider, rounded to the dtype.
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (2e-5, 1e-5),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL_DTYPES = [*FLOATS, *INTS, torch.bool]


def to_device(tree, device="aule"):
    """Move every tensor in nested tuples, lists and dicts, keeping sizes and strides (also stride 0)."""
    return tree_map_only(torch.Tensor, lambda t: like_strided(t, device), tree)


def to_cpu(tree):
    """Move every tensor in nested tuples, lists and dicts to the CPU."""
    return tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), tree)


def like_strided(t: torch.Tensor, device="aule") -> torch.Tensor:
    """A copy of `t` on `device` with the same sizes, strides and storage offset."""
    with torch.no_grad():
        if t.layout != torch.strided or t.device.type != "cpu":
            moved = t.detach().to(device)
        else:
            flat = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
            moved = flat.to(device, copy=True).as_strided(t.size(), t.stride(), t.storage_offset())
            moved = moved.conj() if t.is_conj() else moved
            moved = moved._neg_view() if t.is_neg() else moved
    return moved.requires_grad_(t.requires_grad)


def assert_close(actual, expected, *, rtol=None, atol=None, msg=None):
    """torch.testing.assert_close over nested results, with our tolerances; `actual` may live on the device."""
    if isinstance(expected, (tuple, list)):
        assert isinstance(actual, (tuple, list)) and len(actual) == len(expected), (actual, expected)
        for a, e in zip(actual, expected):
            assert_close(a, e, rtol=rtol, atol=atol, msg=msg)
        return
    if expected is None:
        assert actual is None
        return
    if not isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)
        return
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    default = TOLERANCES.get(expected.dtype, (0, 0))
    torch.testing.assert_close(
        actual.detach().cpu(),
        expected.detach().cpu(),
        rtol=default[0] if rtol is None else rtol,
        atol=default[1] if atol is None else atol,
        equal_nan=True,
        msg=msg,
    )


def assert_close_to_cpu(function, *args, rtol=None, atol=None, wide=True, **kwargs):
    """Run `function` on the device and on the CPU and compare all results.

    Parameters
    ----------
    args, kwargs
        CPU tensors (and anything else). Strides are kept on the way to the device.
    wide
        Compute float16 and bfloat16 references in float32 and round them: the CPU's own rounding does not count.
    """
    on_device = function(*to_device(args), **to_device(kwargs))

    def widen(t):
        return t.float() if wide and t.dtype in (torch.float16, torch.bfloat16) else t

    expected = function(*tree_map_only(torch.Tensor, widen, args), **tree_map_only(torch.Tensor, widen, kwargs))

    def narrow(e, a):
        if isinstance(e, (tuple, list)):
            return (
                type(e)(narrow(x, y) for x, y in zip(e, a))
                if type(e) in (tuple, list)
                else [narrow(x, y) for x, y in zip(e, a)]
            )
        if isinstance(e, torch.Tensor) and e.dtype == torch.float32 and a.dtype in (torch.float16, torch.bfloat16):
            return e.to(a.dtype)
        return e

    assert_close(on_device, narrow(expected, on_device), rtol=rtol, atol=atol)
    return on_device


# Of a result's largest element, against float64: kernels whose loops are long, results of many rounded terms.
RELATIVE_TOLERANCES = {torch.float64: 1e-11, torch.float32: 3e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def relative_error(actual, expected, scale=1e-30) -> float:
    """The largest error, relative to the expected tensor's largest element, or to `scale` where that is larger."""
    a, e = actual.detach().cpu().double(), expected.detach().double()
    assert a.shape == e.shape
    if not e.numel():
        return 0.0
    return ((a - e).abs().max() / torch.as_tensor(scale).maximum(e.abs().max())).item()


def assert_close_to_float64(
    function,
    *inputs,
    dtype=None,
    tolerance=None,
    gradients=False,
    wide=True,
    scale=1e-30,
    sums=False,
    weights=torch.randn,
):
    """Run `function` on the device and, in float64, on the CPU, and compare by :func:`relative_error`.

    Parameters
    ----------
    inputs
        CPU tensors. Integers pass as they are, and results that are integers must be equal.
    dtype
        Of the floating inputs; default: their own.
    tolerance
        Default: that of the first floating input in `RELATIVE_TOLERANCES`.
    gradients
        Compare those of the floating results, weighted by `weights(shape)`, too.
    wide
        False: the CPU has the inputs' dtype.
    scale
        What a result's largest element is at least. Of a few sums of n terms of both signs it is sqrt(n), since all
        of them may come near zero.
    sums
        The function adds products of random signs: the scale is the largest root of a sum of squares of the result.
        (Resampling's weights may be negative, and with them such a sum.)
    """
    rounded = [t.detach().to(dtype) if dtype and t.is_floating_point() else t.detach() for t in inputs]
    floating = [t.is_floating_point() for t in rounded]

    def leaves(prepare):
        return [prepare(t).requires_grad_(gradients and f) for t, f in zip(rounded, floating, strict=True)]

    def results_of(tensors):
        results = function(*tensors)
        return [results] if isinstance(results, torch.Tensor) else list(results)

    def widened(t):
        return (t.double() if wide and t.is_floating_point() else t).clone()

    own, reference = leaves(lambda t: t.to("aule")), leaves(widened)
    squares = leaves(lambda t: t.double().square() if t.is_floating_point() else t.clone()) if sums else None
    if tolerance is None:
        tolerance = RELATIVE_TOLERANCES[rounded[floating.index(True)].dtype]

    def compare(name, actual, expected, squared):
        assert len(actual) == len(expected), name
        for i, (a, e, s) in enumerate(zip(actual, expected, squared, strict=True)):
            if a is None or e is None:
                assert a is e, f"{name} {i}"
            elif not e.is_floating_point():
                a = a.cpu()
                assert torch.equal(a, e), f"{name} {i}: {(a != e).sum()} of {e.numel()} elements differ"
            else:
                least = scale if s is None else s.detach().clamp_min(0).sqrt().max().clamp_min(scale)
                error = relative_error(a, e, least)
                assert error <= tolerance, f"{name} {i}: relative error {error}, allowed {tolerance}"  # NaN fails too

    actual, expected = results_of(own), results_of(reference)
    squared = results_of(squares) if sums else [None] * len(expected)
    compare("result", actual, expected, squared)
    if not gradients:
        return
    drawn = [weights(e.shape).to(a.dtype) if e.is_floating_point() else None for a, e in zip(actual, expected)]

    def gradients_of(results, tensors, prepare):
        used = [(r, prepare(w)) for r, w in zip(results, drawn, strict=True) if w is not None]
        wanted = [t for t in tensors if t.requires_grad]
        return torch.autograd.grad([r for r, _ in used], wanted, [w for _, w in used], allow_unused=True)

    actual = gradients_of(actual, own, lambda w: w.to("aule"))
    expected = gradients_of(expected, reference, widened)
    squared = gradients_of(squared, squares, lambda w: w.double().square()) if sums else [None] * len(expected)
    compare("gradient of argument", actual, expected, squared)


def random_tensor(*size, dtype=torch.float32, low=None, high=None, requires_grad=False) -> torch.Tensor:
    """Random values on the CPU: normal for floats, -9..9 (0..9 unsigned) for integers, coin flips for bool."""
    if dtype == torch.bool:
        t = torch.rand(size) < 0.5
    elif dtype.is_floating_point or dtype.is_complex:
        if low is None:
            t = torch.randn(size, dtype=dtype if dtype.is_complex else torch.float32).to(dtype)
        else:
            t = (torch.rand(size) * (high - low) + low).to(dtype)
    else:
        smallest = 0 if dtype == torch.uint8 else -9
        t = torch.randint(smallest if low is None else low, 10 if high is None else high, size, dtype=dtype)
    return t.requires_grad_(requires_grad)


def layouts(t: torch.Tensor):
    """(name, tensor) pairs with the values of `t` in layouts that kernels get wrong: the values stay the same."""
    yield "contiguous", t.contiguous()
    if t.dim() >= 2:
        yield "transposed", t.transpose(0, -1).contiguous().transpose(0, -1)
    if t.dim() >= 1:
        wide = torch.zeros(*t.shape[:-1], t.shape[-1] * 2 + 3, dtype=t.dtype)
        view = wide[..., 3 : 3 + 2 * t.shape[-1] : 2]
        view.copy_(t)
        yield "offset and step", view
    if t.dim() == 4:
        yield "channels last", t.contiguous(memory_format=torch.channels_last)


def lasting_factor(size_on_cpu: int, device="aule") -> torch.Tensor:
    """Numbers in [0, 1), a square whose product with itself takes a GPU longer than the host takes to record it."""
    import torch_aule

    size = size_on_cpu if torch_aule._C.device_properties(0)["kind"] == "cpu" else 2500
    return torch.rand(size, size, device=device)


def launches(function) -> int:
    """How many commands this thread's call records."""
    from torch_aule import _C

    before = _C.recorded_commands()
    function()
    return _C.recorded_commands() - before


def shader_module(name: str):
    """A module of the shader compiler."""
    return importlib.import_module(f"torch_aule.glsl.{name}")


def interpreter() -> list[str]:
    """The command that starts Python; TORCH_AULE_TEST_LAUNCHER names a program that gives it its driver's C library."""
    launcher = os.environ.get("TORCH_AULE_TEST_LAUNCHER")
    return [launcher, sys.executable] if launcher else [sys.executable]


@functools.cache
def _server() -> ForkServer:
    return ForkServer(interpreter(), ROOT)


def without(*names: str) -> dict[str, str]:
    """The environment of a process that does without these switches or capabilities, and what this one does without."""
    inherited = os.environ.get("TORCH_AULE_DISABLE", "")
    return {"TORCH_AULE_DISABLE": ",".join(filter(None, [inherited, *names]))}


def limited(settings: str) -> dict[str, str]:
    """The environment of a process with these settings of TORCH_AULE_LIMITS after those of this one."""
    return {"TORCH_AULE_LIMITS": ",".join(filter(None, [os.environ.get("TORCH_AULE_LIMITS", ""), settings]))}


def loop_limit() -> int:
    """The number of iterations that TORCH_AULE_LIMITS gives planners; 0 if it gives none."""
    given = re.findall(r"max_loop_iterations=(\d+)", os.environ.get("TORCH_AULE_LIMITS", ""))
    return int(given[-1]) if given else 0


def does_without(name: str) -> bool:
    """Whether TORCH_AULE_DISABLE names it."""
    return name in os.environ.get("TORCH_AULE_DISABLE", "").split(",")


def keep_what_died(status: int, what: str, output: str) -> None:
    """Keep what a process that a signal ended has printed, in build/tests/signals.log: its tests may show a part."""
    folder = ROOT / "build" / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "signals.log").open("a") as log:
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        log.write(f"== signal {-status} in {test}: {what}\n{output}\n")


def run_interpreter(
    *arguments: str, timeout: float = 600, fresh: bool = False, **env: str | None
) -> subprocess.CompletedProcess:
    """Run an interpreter that has no torch_aule; keyword arguments set environment variables (None removes one).

    It has imported torch, which saves most of its start, unless it must be `fresh`, for tests of the start itself.
    """
    environment = dict(os.environ)
    for name, value in env.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    folders = [*map(str, SEARCHED), environment.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    forked = not fresh and hasattr(os, "fork") and (arguments[0] in ("-c", "-m") or arguments[0].endswith(".py"))
    # What is not ours or the loader's is read by the import of torch.
    others = {name for name in env if not name.startswith(("TORCH_AULE_", "VK_"))}
    if forked and all(environment.get(name) == os.environ.get(name) for name in others):
        done = _server().run(list(arguments), environment, timeout)
    else:
        command = [*interpreter(), *arguments]
        environment.setdefault("PYTHONFAULTHANDLER", "1")
        done = subprocess.run(command, env=environment, cwd=ROOT, timeout=timeout, capture_output=True, text=True)
    if done.returncode < 0:
        keep_what_died(done.returncode, str(done.args), done.stderr)
    assert "[vulkan validation]" not in done.stderr, done.stderr  # as in this process: conftest.py
    return done


def run_python(code: str, **options) -> subprocess.CompletedProcess:
    """Run a few lines in an interpreter; the options are those of :func:`run_interpreter`."""
    return run_interpreter("-c", code, **options)


@functools.cache
def program(name: str) -> str:
    """Path of test/*/programs/NAME.py."""
    (path,) = ROOT.glob(f"test/*/programs/{name}.py")
    return str(path)


def run_program(name: str, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run the program of this name in an interpreter; the options are those of :func:`run_interpreter`."""
    return run_interpreter(program(name), *arguments, **options)


def check_python(code: str, **options) -> str:
    """Like :func:`run_python`, and the interpreter must end well; returns what it printed."""
    return _printed(run_python(code, **options))


def check_program(name: str, *arguments: str, **options) -> str:
    """Like :func:`run_program`, and the interpreter must end well; returns what it printed."""
    return _printed(run_program(name, *arguments, **options))


def _printed(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def needs_shader_compiler() -> None:
    """Skips the module that calls it where nothing compiles GLSL."""
    from torch_aule.glsl.compiler import CompilerMissing, find_compiler

    try:
        find_compiler()
    except CompilerMissing as missing:
        pytest.skip(str(missing), allow_module_level=True)


def in_threads(work, count: int = 4) -> list:
    """The results of work(0), work(1), ... in as many threads, which begin together; an error of one is raised."""
    start = threading.Barrier(count)

    def begin(i):
        start.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def check_replays(graph, x: torch.Tensor, check) -> None:
    """Replay a graph with new values in its input `x`, which `check` gets in float64."""
    for _ in range(3):
        new = torch.randn(x.shape)
        x.copy_(new)
        torch.aule.synchronize()
        graph.replay()
        torch.aule.synchronize()
        check(new.double())
