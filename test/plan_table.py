"""Tables of plans: a text file of problems, each a line, and below it the plan that each made-up device gives it.

A plan under several devices' names, or under `all`, is theirs alike.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable


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
