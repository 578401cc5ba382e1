"""Other devices that this one may pretend to be: the sets of limits that TORCH_AULE_LIMITS takes by name."""

from __future__ import annotations

import os
import subprocess
import sys

from torch_aule.measure.numbers import table

VARIABLE = "TORCH_AULE_LIMITS"


def sets() -> dict[str, dict]:
    """The sets by their names: devices, limits as text, capabilities that are lacking, and whether it is in force."""
    from torch_aule import _C

    return {one["name"]: one for one in _C.sets_of_limits()}


def unknown(name: str) -> str:
    """The message for a name that no set has."""
    known = [f"  {one['name']:18} {one['devices']}" for one in sets().values()]
    return "\n".join([f"no set of limits is named '{name}'; there are", *known])


def run(name: str, arguments: list[str]) -> int:
    """The command line in a process that pretends it, since limits are read once; its exit status."""
    given = [text for text in (os.environ.get(VARIABLE), name) if text]
    command = [sys.executable, "-m", "torch_aule.doctor", *arguments]
    return subprocess.run(command, env={**os.environ, VARIABLE: ",".join(given)}).returncode


def lines(index: int) -> list[str]:
    """The values in place of the device's own, for each set that is in force; nothing where none is."""
    from torch_aule import _C

    found = []
    for name, one in sets().items():
        if not one["active"]:
            continue
        asked: dict[str, str] = {}
        for part in one["limits"].split(","):
            limit, equals, value = part.rpartition("=")
            limit = limit or list(asked)[-1]  # a further axis of the one before
            asked[limit] = value if equals else f"{asked[limit]},{value}"
        has = _C.device_limits(index)
        rows = [[limit, asked[limit], ",".join(map(str, has[limit] if isinstance(has[limit], tuple) else [has[limit]]))]
                for limit in asked]  # fmt: skip
        found += [f"pretends {name}: {one['devices']}", *table(["limit", "of the set", "here"], rows)]
        found.append(f"  without {', '.join(one['without'])}, and with the kernels for GPUs")
    return found
