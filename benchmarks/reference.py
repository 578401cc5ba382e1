"""Speed and memory of a reference kernel over one of its sizes, into a table, and as pictures (docs/use/benchmarks.md).

    python benchmarks/reference.py layer_norm --modes forward --overwrite
    python benchmarks/reference.py layer_norm --bandwidth 1008 --draw

With ``--draw`` the time that the bytes take at the copy bandwidth is a row (``--sol``), and each mode is a picture.
``--filter`` chooses the configuration that is drawn if the table has several.
"""

import argparse
import sys
from pathlib import Path

from torch_aule.benchmark.harness import kernels, sweep
from torch_aule.benchmark.report import table, visualize


def main() -> int:
    """Measure, and draw what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], add_help=False)
    parser.add_argument("kernel", choices=kernels.KERNELS)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--filter")
    parser.add_argument("--modes", default=",".join(kernels.MODES))
    parser.add_argument("--folder", type=Path, default=table.folder())
    own, arguments = parser.parse_known_args()
    measured = ["--modes", own.modes, "--folder", str(own.folder), *(["--sol"] if own.draw else []), *arguments]
    status = sweep.main(own.kernel, measured)
    if status or not own.draw:
        return status
    for mode in own.modes.split(","):
        visualize.main([
            "--kernel-name", own.kernel, "--kernel-operation-mode", mode, "--folder", str(own.folder), "--overwrite",
            *(["--extra-config-filter", own.filter] if own.filter else []),
        ])  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
