"""Tables of plans: a text file of problems, each a line, and below it the plan that each made-up device gives it.

A plan under several devices' names, or under `all`, is theirs alike.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterable

import plan_problems
from helpers import check_python

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i8": 1, "u8": 1, "b8": 1, "c64": 8, "c128": 16}
# The limit that planners obey where the driver ends loops after 65,535 iterations: lavapipe of Mesa 22.3, and the
# kernels of GPUs there.
LOOPS_END = {"max_loop_iterations": 65519}
COMMON_DEVICES = {
    **{name: plan_problems.DEVICES[name] for name in ("h200", "rdna3", "arc", "lavapipe")},
    "lavapipe, loops end": plan_problems.DEVICES["lavapipe"] | LOOPS_END,
    "gpu, loops end": plan_problems.DEVICES["lavapipe_as_gpu"] | LOOPS_END,
}


def read(path: pathlib.Path, devices: Iterable[str]) -> dict[str, dict[str, str]]:
    """The table: problem -> device -> plan."""
    table, line = {}, None
    for text in path.read_text().splitlines():
        if not text or text.startswith("#"):
            continue
        if not text.startswith(" "):
            line = text
            table[line] = {}
            continue
        names, words = text.strip().split(": ", 1)
        for name in devices if names == "all" else names.split(" | "):
            table[line][name] = words
    return table


def written(head: str, lines: Iterable[str], devices: Iterable[str], plan: Callable[[str, str], str]) -> str:
    """The same as text; `plan` is called with a device's name and a line."""
    devices = list(devices)
    out = [f"# {head}", ""]
    for line in lines:
        by_plan = {}
        for device in devices:
            by_plan.setdefault(plan(device, line), []).append(device)
        out.append(line)
        for words, names in by_plan.items():
            out.append(f"    {'all' if len(names) == len(devices) else ' | '.join(names)}: {words}")
    return "\n".join(out) + "\n"


def print_anew(path: pathlib.Path, head: str, devices: Iterable[str], plan: Callable[[str, str], str]) -> None:
    """The program of a module with a table: its lines, or those of the file that is named, with the plans of today."""
    lines = read(path, devices) if len(sys.argv) < 2 else pathlib.Path(sys.argv[1]).read_text().splitlines()
    print(written(head, lines, devices, plan), end="")


def check_asks_no_device(module: str, line: str, expected: str, **environment: str) -> None:
    """A driver that is not there, and the environment of another device: the same plan, and no device is made."""
    text = check_python(
        f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import {module}, torch_aule
print({module}.plan("h200", {line!r}))
print(torch_aule._C.is_initialized(), torch_aule._C.device_count())
""",
        VK_ICD_FILENAMES="/nowhere.json",
        VK_DRIVER_FILES="/nowhere.json",
        **environment,
    )
    assert text.splitlines() == [expected, "False 0"]
