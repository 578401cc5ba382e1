"""Speed and memory of diagonal_matmul into benchmarks/data: --help, docs/benchmarks.md."""

import sys

from torch_aule.benchmark import sweep

if __name__ == "__main__":
    sys.exit(sweep.main("diagonal_matmul"))
