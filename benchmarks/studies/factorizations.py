"""Cholesky, LU and eigenvalues in float32: milliseconds on aule and CUDA, CUDA's time divided by ours, the residual.

python benchmarks/studies/factorizations.py [--seconds 60] [--only cholesky] [--small] [--no-cuda] [--kernels]

`auto` is the planner's choice; the other ways are settings of `torch_aule.tune.override`. A time is the median of
samples between two events, without a queue before them, as in the benchmark. The residual is the Frobenius norm of what
the factors miss, divided by that of the matrix and by eps sqrt(n), in float64 on the CPU, of one matrix of a batch;
`!` behind it: it is above 10. Matrices of more than 2,048 rows are multiplied with ten random vectors instead.
"""

import argparse
import statistics
import time

import torch

import torch_aule.tune
from torch_aule.benchmark.report import dearest
from torch_aule.measure.timing import Stopwatch

CASES = [("cholesky", 1000, 128), ("cholesky", 1, 512), ("cholesky", 1, 1024), ("cholesky", 1, 4096),
         ("solve", 1, 1024), ("solve", 1, 4096), ("solve", 1000, 128), ("eigh", 1, 1024)]  # fmt: skip
SMALL = [("cholesky", 3, 128), ("cholesky", 1, 300), ("solve", 1, 300), ("eigh", 1, 64)]
# Cholesky: columns of a panel, rows of a workgroup, side of an update's tile. LU: invocations, columns of a block.
WAYS = {
    "cholesky": {"halves": {"cholesky_panel": (0,)}}
    | {f"{16 * t}/{16 * b}/{16 * u}": {"cholesky_panel": (t, b, u)}
       for t, b, u in ((2, 2, 8), (2, 4, 4), (2, 4, 8), (2, 8, 8), (4, 4, 8), (8, 4, 8))},
    "solve": {"halves": {"lu_step": (0,)}}
    | {f"{local}/{block}": {"lu_step": (local, block)}
       for local, block in ((256, 64), (512, 64), (512, 128), (512, 256), (1024, 128))},
}  # fmt: skip


def operands(batch, n):
    generator = torch.Generator().manual_seed(n)
    a = torch.randn(batch, n, n, generator=generator)
    return a, torch.randn(batch, n, 4, generator=generator)


def call_of(name, a, b):
    if name == "solve":
        return lambda: torch.linalg.solve_ex(a, b).result
    n = a.size(-1)
    definite = a @ a.mT / n + torch.eye(n, device=a.device)
    if name == "cholesky":
        return lambda: torch.linalg.cholesky_ex(definite).L
    return lambda: torch.linalg.eigh(definite)


def residual(name, a, b, result):
    """Of the last matrix, in units of eps sqrt(n)."""
    wide = [t[-1].double().cpu() for t in (result if isinstance(result, tuple) else (result,))]
    a, b = a[-1].double(), b[-1].double()
    n = a.size(0)
    seen = torch.eye(n, dtype=torch.float64) if n <= 2048 else torch.randn(n, 10, dtype=torch.float64)

    def definite(x):
        return (a @ (a.mT @ x)) / n + x

    if name == "solve":
        x = wide[0]
        missed, size = a @ x - b, a.norm() * x.norm()
    elif name == "cholesky":
        missed = wide[0] @ (wide[0].mT @ seen) - definite(seen)
        size = definite(seen).norm()
    else:
        values, vectors = wide
        missed = vectors @ (values[:, None] * (vectors.mT @ seen)) - definite(seen)
        size = definite(seen).norm()
    return float(missed.norm() / size) / (torch.finfo(torch.float32).eps * n**0.5)


def measured(call, device, samples=5, sample_ms=10.0):
    """Milliseconds of a call: the median of samples."""
    module = getattr(torch, device)
    call()
    module.synchronize()
    watch = Stopwatch()
    call()
    module.synchronize()
    each = 1e3 * watch.seconds
    calls = max(1, min(100, int(sample_ms / max(each, 1e-3))))
    found = []
    for _ in range(samples if each < 1000 else 1):
        begin, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        module.synchronize()
        found.append(begin.elapsed_time(end) / calls)
    return statistics.median(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="no case begins after them (%(default)s)")
    parser.add_argument("--only", default="", help="part of a case's name, such as 'cholesky 1x4096'")
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--small", action="store_true", help="sizes of a software device")
    parser.add_argument("--kernels", action="store_true", help="also the dearest kernels: name, milliseconds, launches")
    options = parser.parse_args()
    start, has_cuda = time.monotonic(), torch.cuda.is_available() and not options.no_cuda
    print(f"{'case':22}{'way':>14}{'aule ms':>10}{'cuda ms':>10}{'speed':>7}{'residual':>10}")
    for name, batch, n in SMALL if options.small else CASES:
        title = f"{name} {batch}x{n}"
        if options.only not in title:
            continue
        a, b = operands(batch, n)
        cuda = measured(call_of(name, a.cuda(), b.cuda()), "cuda") if has_cuda else None
        for way, settings in {"auto": {}, **WAYS.get(name, {})}.items():
            if time.monotonic() - start > options.seconds:
                print(f"{title:22}{way:>14} left out: {options.seconds:g} s are over", flush=True)
                continue
            with torch_aule.tune.override(**settings):
                call = call_of(name, a.to("aule"), b.to("aule"))
                ms, missed = measured(call, "aule"), residual(name, a, b, call())
            beside = f"{cuda:10.3f}{cuda / ms:7.2f}" if has_cuda else f"{'':17}"
            print(f"{title:22}{way:>14}{ms:10.3f}{beside}{missed:10.2f}{'!' * (not missed <= 10)}", flush=True)
            if options.kernels and way == "auto":
                print("  ", dearest.kernels(call), flush=True)


if __name__ == "__main__":
    main()
