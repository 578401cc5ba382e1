"""Runs programs of the tests in forks of an interpreter that has imported torch and nothing of ours.

That import is most of what a fresh interpreter does before its first line. The extension is not there yet, so what it
reads at its start (variables, drivers, devices) is read by each program. `helpers.run_interpreter` asks, and
`ranks.run_ranks` for programs of several processes; what tests the start itself has an interpreter of its own
(`fresh=True`).
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SERVER = Path(__file__).resolve()


class ForkServer:
    """The asking side: one server, one request at a time.

    `modules` are imported beside torch, and `env` is the server's own.
    """

    def __init__(self, command: list[str], cwd: Path, modules: tuple[str, ...] = (), **env: str) -> None:
        self._command, self._cwd, self._env = [*command, str(SERVER), *modules], cwd, env
        self._process: subprocess.Popen | None = None
        self._lock = threading.Lock()
        atexit.register(self._stop)

    def run(self, arguments: list[str], env: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
        """As subprocess.run of Python with these arguments: a file and its own, -c and a text, or -m and a module."""
        with self._lock, tempfile.TemporaryDirectory() as folder:
            out, err = (str(Path(folder, name)) for name in ("out", "err"))
            (status,) = self._ask([{"arguments": arguments, "env": env, "out": out, "err": err}], timeout)
            texts = [Path(name).read_text(errors="replace") for name in (out, err)]
        if status is None:
            raise subprocess.TimeoutExpired(arguments, timeout)
        return subprocess.CompletedProcess(arguments, status, *texts)

    def run_together(
        self, commands: list[list[str]], env: dict[str, str], timeout: float
    ) -> list[tuple[int | None, str]]:
        """Programs beside each other: the status of each, None if it had to be killed, and all that it printed."""
        with self._lock, tempfile.TemporaryDirectory() as folder:
            outs = [str(Path(folder, str(i))) for i in range(len(commands))]
            programs = [
                {"arguments": arguments, "env": env, "out": out, "err": None}
                for arguments, out in zip(commands, outs, strict=True)
            ]
            statuses = self._ask(programs, timeout)
            return [(status, Path(out).read_text(errors="replace")) for status, out in zip(statuses, outs, strict=True)]

    def _ask(self, programs: list[dict], timeout: float) -> list[int | None]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **self._env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # what programs have started and left is stopped with their server
            )
        self._process.stdin.write(json.dumps({"programs": programs, "timeout": timeout}) + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        assert reply, "the server of interpreters has ended"
        return json.loads(reply)

    def _kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _stop(self) -> None:
        if self._process is not None:
            self._kill()
            self._process.wait()
            self._process = None


def show_stacks_of_fatal_signals() -> None:
    """Whoever dies by a signal prints the stacks of Python, and of C++ on every thread, to the standard error."""
    import torch

    if not faulthandler.is_enabled():
        faulthandler.enable()
    interrupt = signal.getsignal(signal.SIGINT)
    torch._C._set_print_stack_traces_on_fatal_signal(True)
    signal.signal(signal.SIGINT, interrupt)  # which PyTorch counts as fatal, and Python does not


def _become(request: dict) -> None:
    """This fork becomes the program: its streams, variables, arguments and search path."""
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT),
        (2, request["err"], os.O_WRONLY | os.O_CREAT),
    ):
        opened = 1 if name is None else os.open(name, flags, 0o600)  # None: with the output
        os.dup2(opened, number)
        if name is not None:
            os.close(opened)
    sys.stdin = open(0, closefd=False)
    os.environ.clear()
    os.environ.update(request["env"])
    first = request["arguments"][0]
    folders = [folder for folder in request["env"].get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:1] = ["" if first == "-c" else os.getcwd() if first == "-m" else str(Path(first).parent), *folders]


def _run(arguments: list[str]) -> None:
    main = type(sys)("__main__")
    sys.modules["__main__"] = main  # as in an interpreter: what is pickled or waits for the exit lives there
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if arguments[0] == "-c":
        sys.argv, name, text = ["-c", *arguments[2:]], "<string>", arguments[1]
    else:
        sys.argv, name, text = list(arguments), arguments[0], Path(arguments[0]).read_text()
        main.__file__ = name
    exec(compile(text, name, "exec"), main.__dict__)


def _wait(children: list[int], timeout: float) -> list[int | None]:
    """How they ended; who has not in time is killed."""
    deadline, statuses = time.monotonic() + timeout, {}
    while len(statuses) < len(children):
        late = time.monotonic() > deadline
        for child in children:
            if child in statuses:
                continue
            if late:
                os.kill(child, signal.SIGKILL)
            ended, status = os.waitpid(child, 0 if late else os.WNOHANG)
            if ended:
                statuses[child] = None if late else os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return [statuses[child] for child in children]


def _serve(modules: list[str]) -> None:
    for name in ("torch", *modules):
        importlib.import_module(name)
    gc.freeze()  # the forks' collector passes over all that was imported, and copies none of its pages
    show_stacks_of_fatal_signals()  # in the forks too
    for line in sys.stdin:
        request = json.loads(line)
        children = []
        for program in request["programs"]:
            child = os.fork()
            if child == 0:
                _become(program)
                return _run(program["arguments"])  # and ends as any interpreter does
            children.append(child)
        print(json.dumps(_wait(children, request["timeout"])), flush=True)
    return None


if __name__ == "__main__":
    _serve(sys.argv[1:])
