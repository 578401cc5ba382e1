"""Which kernels a run of the tests has launched, from the log that TORCH_AULE_KERNEL_LOG names.

python test/support/kernel_coverage.py LOG     exits 1 where a kernel was not launched, and names it
"""

import re
import sys
from pathlib import Path

SHADERS = Path(__file__).parents[2] / "shaders"
# Kernels that no software device launches, each with the reason.
UNREACHED = {
    "gemv_coopmat": "NVIDIA's layout of cooperative matrices alone; test_matmul.py launches it there",
    "halo_pack_weight": "NVIDIA's layout of cooperative matrices alone; test_conv_halo.py launches it there",
}


def kernels() -> set[str]:
    """Names of all kernels: one for each .comp file."""
    return {path.stem for path in SHADERS.glob("**/*.comp")}


def not_launched(log: Path) -> set[str]:
    """Kernels that the log lacks. A line is the name of a variant: its kernel's name, then values of its axes."""
    launched = {re.match(r"\w*", line)[0] for line in log.read_text().splitlines()}
    return kernels() - launched - UNREACHED.keys()


if __name__ == "__main__":
    if missing := not_launched(Path(sys.argv[1])):
        print("the tests launched none of these kernels:", *sorted(missing))
        sys.exit(1)
