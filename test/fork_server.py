"""Runs programs of the tests in forks of an interpreter that has imported torch and nothing of ours.

That import is most of what a fresh interpreter does before its first line. The extension is not there yet, so what it
reads at its start (variables, drivers, devices) is read by each program. `helpers.run_interpreter` asks; what tests the
start itself has an interpreter of its own (`fresh=True`).
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SERVER = Path(__file__).resolve()


class ForkServer:
    """The asking side: one server, one program at a time."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._command, self._cwd = [*command, str(SERVER)], cwd
        self._process: subprocess.Popen | None = None
        self._lock = threading.Lock()
        atexit.register(self._stop)

    def run(self, arguments: list[str], env: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
        """As subprocess.run of Python with these arguments: a file and its own, or -c and a text."""
        with self._lock, tempfile.TemporaryDirectory() as folder:
            out, err = (str(Path(folder, name)) for name in ("out", "err"))
            status = self._ask({"arguments": arguments, "env": env, "out": out, "err": err}, arguments, timeout)
            texts = [Path(name).read_text(errors="replace") for name in (out, err)]
        return subprocess.CompletedProcess(arguments, status, *texts)

    def _ask(self, request: dict, arguments: list[str], timeout: float) -> int:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # a program that hangs is stopped with its server
            )
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            self._kill()

        timer = threading.Timer(timeout, stop)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            reply = self._process.stdout.readline()
        finally:
            timer.cancel()
        if timed_out.is_set():
            self._process = None
            raise subprocess.TimeoutExpired(arguments, timeout)
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


def _become(request: dict) -> None:
    """This fork becomes the program: its streams, variables, arguments and search path."""
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT),
        (2, request["err"], os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)
    os.environ.clear()
    os.environ.update(request["env"])
    first = request["arguments"][0]
    folders = [folder for folder in request["env"].get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:1] = ["" if first == "-c" else str(Path(first).parent), *folders]


def _run(arguments: list[str]) -> None:
    main = type(sys)("__main__")
    sys.modules["__main__"] = main  # as in an interpreter: what is pickled or waits for the exit lives there
    if arguments[0] == "-c":
        sys.argv, name, text = ["-c", *arguments[2:]], "<string>", arguments[1]
    else:
        sys.argv, name, text = list(arguments), arguments[0], Path(arguments[0]).read_text()
        main.__file__ = name
    exec(compile(text, name, "exec"), main.__dict__)


def _serve() -> None:
    import torch  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
            return _run(request["arguments"])  # and ends as any interpreter does
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


if __name__ == "__main__":
    _serve()
