"""Programs of several processes: one of test/*/programs for each rank, and the end of all of them."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from fork_server import ForkServer
from helpers import ROOT, SEARCHED, interpreter, keep_what_died
from helpers import program as path_of


class Ended(NamedTuple):
    """What a rank left: negative statuses are signals; None, it had to be killed."""

    status: int | None
    output: str


# Most of a rank's start. What they import of optimizers and of torch.compile is no small part.
MODULES = (
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
)


@functools.cache
def _server() -> ForkServer:
    return ForkServer(interpreter(), ROOT, MODULES, OMP_NUM_THREADS="1")


def visible_devices(count: int) -> str:
    """The first device `count` times, or those that TORCH_AULE_TEST_DEVICES lists ("0,1"), in turn."""
    devices = os.environ.get("TORCH_AULE_TEST_DEVICES", "0").split(",")
    return ",".join(devices[rank % len(devices)] for rank in range(count))


def run_ranks(program: str, count: int, *arguments: str, timeout: float = 300, **env: str) -> list[Ended]:
    """Run test/*/programs/PROGRAM.py as `rank count store *arguments`, once for each rank, each with its device.

    The devices are those of `visible_devices`. Whoever has not ended after `timeout` seconds is killed.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, SEARCHED)),
        "TORCH_AULE_VISIBLE_DEVICES": visible_devices(count),
        "OMP_NUM_THREADS": "1",
        **env,
    }
    with tempfile.TemporaryDirectory() as folder:
        name, store = path_of(program), str(Path(folder, "store"))
        commands = [[name, str(rank), str(count), store, *arguments] for rank in range(count)]
        if hasattr(os, "fork"):
            ends = [Ended(*end) for end in _server().run_together(commands, environment, timeout)]
        else:
            ends = _run_fresh(commands, environment, timeout, Path(folder))
    for command, end in zip(commands, ends, strict=True):
        if end.status is not None and end.status < 0:
            keep_what_died(end.status, str(command), end.output)
    return ends


def _run_fresh(commands: list[list[str]], environment: dict[str, str], timeout: float, folder: Path) -> list[Ended]:
    processes, outputs = [], [folder / f"out{rank}" for rank in range(len(commands))]
    for command, output in zip(commands, outputs, strict=True):
        with output.open("w") as file:
            processes.append(
                subprocess.Popen(
                    [*interpreter(), *command], env=environment, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT
                )
            )
    end, statuses = time.monotonic() + timeout, []
    for process in processes:
        try:
            statuses.append(process.wait(max(0.1, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            statuses.append(None)
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    return [Ended(status, output.read_text()) for status, output in zip(statuses, outputs, strict=True)]


def check_ranks(program: str, count: int, *arguments: str, **options) -> list[str]:
    """Like :func:`run_ranks`, and every rank must end well; returns what they printed."""
    ended = run_ranks(program, count, *arguments, **options)
    bad = {rank: end for rank, end in enumerate(ended) if end.status != 0}
    assert not bad, "\n".join(f"rank {rank}: exit status {end.status}\n{end.output}" for rank, end in bad.items())
    return [end.output for end in ended]
