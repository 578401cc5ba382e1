"""Which kernels a run of the tests has launched, from the log that TORCH_AULE_KERNEL_LOG names.

python test/kernel_coverage.py LOG     exits 1 where a kernel was not launched, and names it
"""

import re
import sys
from pathlib import Path

SHADERS = Path(__file__).parents[1] / "shaders"
# Kernels that no device of the tests launches, each with the reason.
UNREACHED: dict[str, str] = {}


def kernels() -> set[str]:
    """Names of all kernels: one for each .comp file."""
    return {path.stem for path in SHADERS.glob("**/*.comp")}


def not_launched(log: Path) -> tuple[set[str], set[str]]:
    """Kernels that the log lacks, and those of UNREACHED that it has.

    A line is the name of a variant: its kernel's name, then values of its axes.
    """
    launched = {re.match(r"\w*", line)[0] for line in log.read_text().splitlines()}
    return kernels() - launched - UNREACHED.keys(), launched & UNREACHED.keys()


if __name__ == "__main__":
    missing, reached = not_launched(Path(sys.argv[1]))
    if missing:
        print("the tests launched none of these kernels:", *sorted(missing))
    if reached:
        print("launched, though test/kernel_coverage.py says why none can be:", *sorted(reached))
    sys.exit(bool(missing or reached))
