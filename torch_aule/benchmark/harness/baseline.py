"""The baseline of this device; CUDA in a process of its own, for the cases that need autograd.

Torch knows one accelerator per process. Where that is aule, CUDA's autograd engine finds no streams for its nodes and
stops ("opt_ready_stream && opt_parent_stream"), while forward calls work. So the benchmark starts one child in which
this package is a bare namespace: the cases and their timing are the same files, the backend is never loaded. Samples
still alternate, since the child takes them when told to; it is idle while the other side is timed.

The child also holds a CUDA context as long as the benchmark runs, whether CUDA is timed or not. The driver may lower
the clocks of a GPU that only Vulkan uses, and a run without a baseline would not compare with one that has it.
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

from torch_aule.benchmark.harness import timing
from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.report.record import Result

START = """
import sys, types
package = types.ModuleType("torch_aule")
package.__path__ = [sys.argv[1]]
sys.modules["torch_aule"] = package
from torch_aule.benchmark.harness.baseline import serve
serve()
"""


class Child:
    """Starts when it is first asked and again after a failure; an answer that takes too long ends it."""

    def __init__(self, sizes: Sizes, settings: timing.Settings, seconds: float = 120.0):
        self.sizes, self.settings, self.seconds, self.process = sizes, settings, seconds, None

    def ask(self, *message):
        if self.process is None:
            package = str(Path(__file__).resolve().parents[2])
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, package], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            )  # fmt: skip
            self._send((self.sizes, self.settings))
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
    """A runner in the child, with the methods of `timing.Runner` that the parent calls."""

    def __init__(self, child: Child, case: Case, name: str):
        self.child, self.name = child, name
        child.ask("make", name, case.key)

    def sample(self) -> None:
        self.child.ask("sample", self.name)

    def result(self) -> Result:
        return self.child.ask("result", self.name)


def serve() -> None:
    """The child: answers until its input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not get between the answers
    sizes, settings = pickle.load(sys.stdin.buffer)
    warnings.simplefilter("ignore")
    import torch

    from torch_aule.benchmark.cases import with_key

    gc.freeze()
    runners, blockers, held = {}, {}, []

    def answer(do, name="", key=()):
        if do == "hold":
            held.append(torch.zeros(1, device=name))
            return None
        if do == "forget":
            runners.clear()
            gc.collect()
            for device in blockers:
                timing.empty_cache(device)
            return None
        if do == "make":
            case = with_key(key, sizes)
            device = timing.device_of(name)
            if device not in blockers:
                blockers[device] = timing.Blocker(device, max(1024, sizes.cold_bytes // 4))
            context = case.contexts(name if name in (case.makers or {}) else device)[name]
            runners[name] = timing.runner(case, name, context, settings, blockers)
            return None
        return runners[name].sample() if do == "sample" else runners[name].result()

    while True:
        try:
            message = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            reply = True, answer(*message)
        except timing.FAILURES as error:
            reply = False, timing.first_line(error)
        pickle.dump(reply, answers)
        answers.flush()
