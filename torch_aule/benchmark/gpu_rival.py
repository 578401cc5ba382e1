"""CUDA in a process of its own, for the cases that need autograd.

Torch knows one accelerator per process. Where that is aule, CUDA's autograd engine finds no streams for its nodes and
stops ("opt_ready_stream && opt_parent_stream"), while forward calls work. So the benchmark starts one child in which
this package is a bare namespace: the cases and their timing are the same files, the backend is never loaded. Samples
still alternate, since the child takes them when told to; it is idle while the other side is timed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

from torch_aule.benchmark import gpu_timing
from torch_aule.benchmark.gpu_cases import GROUPS, NOTHING, GpuCase, Sizes

START = """
import sys, types
package = types.ModuleType("torch_aule")
package.__path__ = [sys.argv[1]]
sys.modules["torch_aule"] = package
from torch_aule.benchmark.gpu_rival import serve
serve()
"""


class Child:
    """Starts when it is first asked and again after a failure; an answer that takes too long ends it."""

    def __init__(self, sizes: Sizes, seconds: float = 120.0):
        self.sizes, self.seconds, self.process = sizes, seconds, None

    def ask(self, *message):
        if self.process is None:
            package = str(Path(__file__).resolve().parent.parent)
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, package], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            )  # fmt: skip
            self._send((self.sizes, gpu_timing.SAMPLE_MS, gpu_timing.REST_S))
        self._send(message)
        timer = threading.Timer(self.seconds, self.process.kill)
        timer.start()
        try:
            good, answer = pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            self.close()
            raise RuntimeError("the process for CUDA ended without an answer") from error
        finally:
            timer.cancel()
        if not good:
            raise RuntimeError(answer)
        return answer

    def _send(self, message) -> None:
        try:
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()
        except OSError as error:
            self.close()
            raise RuntimeError("the process for CUDA has ended") from error

    def forget(self) -> None:
        """Gives back the memory of the last case."""
        if self.process is not None:
            with contextlib.suppress(RuntimeError):
                self.ask("forget")

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Remote:
    """A contestant in the child, with the methods of :class:`gpu_timing.Contestant`."""

    def __init__(self, child: Child, case: GpuCase, name: str):
        self.child, self.name = child, name
        child.ask("make", name, case.group, case.key)

    def sample(self) -> None:
        self.child.ask("sample", self.name)

    def result(self, case: GpuCase) -> dict:
        return self.child.ask("result", self.name)


def serve() -> None:
    """The child: answers until its input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not get between the answers
    sizes, gpu_timing.SAMPLE_MS, gpu_timing.REST_S = pickle.load(sys.stdin.buffer)
    warnings.simplefilter("ignore")
    contestants, blockers = {}, {}

    def answer(do, name="", group="", key=()):
        if do == "forget":
            contestants.clear()
            gc.collect()
            for device in blockers:
                gpu_timing.empty_cache(device)
            return None
        if do == "make":
            case = next(case for case in GROUPS[group](sizes) if case.key == key)
            device = gpu_timing.device_of(name)
            if device not in blockers:
                blockers[device] = gpu_timing.Blocker(device, max(1024, sizes.cold_bytes // 4))
            context = contextlib.nullcontext if device == "cpu" else (case.rivals or NOTHING)[name]
            contestants[name] = case, gpu_timing.Contestant(case, name, context, blockers)
            return None
        case, contestant = contestants[name]
        return contestant.sample() if do == "sample" else contestant.result(case)

    while True:
        try:
            message = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            reply = True, answer(*message)
        except gpu_timing.FAILURES as error:
            reply = False, gpu_timing.first_line(error)
        pickle.dump(reply, answers)
        answers.flush()
