"""Speed and memory of fused_linear_rowsum into benchmarks/data: --help, docs/benchmarks.md."""

import sys

from torch_aule.benchmark import sweep

if __name__ == "__main__":
    sys.exit(sweep.main("fused_linear_rowsum"))
