"""Operators of packages that are written in Triton, on the device, against the same operator of torch on the CPU.

``python benchmarks/studies/triton_packages.py [WORD ...]`` runs those whose name has a word (default: all) with small
random tensors, forward and backward, and prints a table: right, refused (what the backend does not serve), wrong,
failed (anything else) or late. Operators run in a process of their own that is started anew after one that was late.
Of each autotuned kernel one configuration is taken, one with four warps or close: others differ in time alone.

Needs ``pip install --no-deps liger-kernel flash-linear-attention fla-core einops bitsandbytes``; of packages that are
not installed nothing is run.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import multiprocessing
import os
import queue
import sys
import time
import traceback
from collections.abc import Callable

import torch

import torch_aule  # noqa: F401

MODULES = ("triton_liger", "triton_fla", "triton_bitsandbytes")
LIMIT = 60  # seconds of an operator


@dataclasses.dataclass
class Case:
    """An operator with its inputs.

    Attributes
    ----------
    name : str
        ``"package operator"``.
    call, reference : callable
        Both take the inputs and give a tensor or several; `reference` on the CPU in float64.
    inputs : callable
        Gives the inputs, in float32. Those that require gradients get them.
    tolerance : float
        Of the largest error in parts of the largest number.
    """

    name: str
    call: Callable
    reference: Callable
    inputs: Callable[[], list]
    tolerance: float = 1e-4


def _tensors(found) -> list[torch.Tensor]:
    found = found if isinstance(found, (tuple, list)) else [found]
    return [t for t in found if isinstance(t, torch.Tensor)]


def _run(call: Callable, inputs: list, to: Callable) -> list[torch.Tensor]:
    """Outputs and gradients, on the CPU in float64."""
    own = [to(t.detach()).requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in inputs]
    outputs = _tensors(call(*own))
    results = [o.detach().cpu().double() for o in outputs]
    differentiable = [o for o in outputs if o.requires_grad and o.is_floating_point()]
    if differentiable:
        torch.manual_seed(1)
        weights = [torch.randn(o.shape).to(o.dtype).to(o.device) for o in differentiable]
        torch.autograd.backward(differentiable, weights)
        wanted = [t for t in own if isinstance(t, torch.Tensor) and t.requires_grad]
        results += [(torch.zeros(t.shape) if t.grad is None else t.grad).cpu().double() for t in wanted]
    return results


def _as_double(t: torch.Tensor) -> torch.Tensor:
    return t.clone().double() if t.is_floating_point() else t.clone()


def _cause(error: BaseException) -> tuple[str, str]:
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__name__ == "Unsupported":
            return "refused", str(seen)
        seen = seen.__cause__ or seen.__context__
    return "failed", f"{type(error).__name__}: {str(error).strip()}"[:600]


def judge(case: Case) -> tuple[str, str]:
    """What became of an operator, and its error or the cause.

    Parameters
    ----------
    case : Case

    Returns
    -------
    (str, str)
    """
    torch.manual_seed(0)
    inputs = case.inputs()
    expected = _run(case.reference, inputs, _as_double)
    try:
        found = _run(case.call, inputs, lambda t: t.to("aule"))
    except Exception as error:
        if os.environ.get("TRACE"):
            traceback.print_exc()
        return _cause(error)
    if len(found) != len(expected):
        return "failed", f"{len(found)} results where the reference has {len(expected)}"
    worst = 0.0
    for a, b in zip(found, expected):
        error = ((a - b).abs().max() / b.abs().max().clamp_min(1e-6)).item() if b.numel() else 0.0
        worst = error if error != error else max(worst, error)
        if worst != worst:
            break
    return "right" if worst <= case.tolerance else "wrong", f"{worst:.1e}"


def cases() -> dict[str, Case]:
    """Every operator of the packages that are installed, by name."""
    found = {}
    for module in MODULES:
        try:
            found |= {case.name: case for case in importlib.import_module(module).cases()}
        except ModuleNotFoundError as error:
            print(f"{module}: {error}")
    return found


def _size(config) -> tuple:
    blocks = [value for value in config.kwargs.values() if isinstance(value, int)]
    return sum(blocks), abs(config.num_warps - 4)


def _one_configuration() -> None:
    owner = importlib.import_module("triton.runtime.autotuner").Autotuner
    own = owner.__init__

    def __init__(self, fn, arg_names, configs, *args, **kwargs):
        kept = [min(configs, key=_size)] if configs else configs
        own(self, fn, arg_names, kept, *args, **kwargs)

    owner.__init__ = __init__


def _work(names, results) -> None:
    _one_configuration()
    known = cases()
    results.put(list(known))
    for name in iter(names.get, None):
        begin = time.time()
        try:
            told = judge(known[name])
        except Exception as error:  # the reference or the inputs
            if os.environ.get("TRACE"):
                traceback.print_exc()
            told = ("failed", f"the reference: {error!r}")
        results.put((name, *told, time.time() - begin))


class Worker:
    """A process that runs cases by name, and is killed with one that takes too long.

    Parameters
    ----------
    work : callable
        Takes a queue of names and one of results, then `more`: puts the list of names first, then for each name a tuple
        (name, word, cause, seconds).
    *more
        For `work`.

    Attributes
    ----------
    known : list of str
        The names.
    """

    def __init__(self, work=_work, *more):
        spawn = multiprocessing.get_context("spawn")
        self.names, self.results = spawn.Queue(), spawn.Queue()
        self.process = spawn.Process(target=work, args=(self.names, self.results, *more), daemon=True)
        self.process.start()
        self.known = self.results.get(timeout=300)

    def run(self, name: str) -> tuple:
        """What became of a case."""
        self.names.put(name)
        end = time.time() + LIMIT
        while time.time() < end:
            try:
                return self.results.get(timeout=1)
            except queue.Empty:
                if not self.process.is_alive():
                    return name, "failed", f"the process ended ({self.process.exitcode})", 0.0
        return name, "late", f"more than {LIMIT} s", float(LIMIT)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", help="of names of operators")
    parser.add_argument("--jobs", type=int, default=1, help="this and --job: every jobs-th operator, from job on")
    parser.add_argument("--job", type=int, default=0)
    options = parser.parse_args()
    worker = Worker()
    wanted = [n for n in worker.known if not options.words or any(w in n for w in options.words)]
    rows = []
    for name in wanted[options.job :: options.jobs]:
        row = worker.run(name)
        rows.append(row)
        print(f"{row[1]:8} {row[0]:45} {row[3]:5.1f} s  {row[2]}", flush=True)
        if row[1] == "late" or not worker.process.is_alive():
            worker.stop()
            worker = Worker()
    worker.stop()
    packages = sorted({row[0].split()[0] for row in rows})
    for package in packages:
        own = [row[1] for row in rows if row[0].split()[0] == package]
        counts = ", ".join(f"{own.count(word)} {word}" for word in ("right", "refused", "wrong", "failed", "late"))
        print(f"{package}: {len(own)} tried, {counts}")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
