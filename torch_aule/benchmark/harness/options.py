"""Options of ``run`` that describe cases, how long they are timed, and beside which libraries."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import sys

import torch

from torch_aule.benchmark.cases.chosen import FAMILIES
from torch_aule.benchmark.harness import run, timing
from torch_aule.benchmark.harness.case import Wanted
from torch_aule.benchmark.harness.kernels import KERNELS
from torch_aule.measure import roof

DTYPES = {
    "fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp64": "float64",
    "fp8": "float8_e4m3fn",
}  # fmt: skip
KNOWN = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
PROVIDERS = {
    "aule": None, "composed": "composed", "cpu": "cpu", "cuda": "cuda", "sdpa_cpu": "cpu", "sdpa_cuda": "cuda",
    "fa2": "fa2", "xformers": "xformers",
}  # fmt: skip


def numbers(text: str) -> tuple[int, ...]:
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"expected positive integers between commas, got {text!r}")
    return values


def dtypes(text: str) -> tuple[str, ...]:
    names = tuple(DTYPES.get(part, part) for part in text.split(","))
    if unknown := [name for name in names if name not in KNOWN]:
        raise argparse.ArgumentTypeError(f"no dtype {', '.join(unknown)}; there are {', '.join((*KNOWN, *DTYPES))}")
    return names


def providers(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in PROVIDERS]:
        raise argparse.ArgumentTypeError(f"no provider {', '.join(unknown)}; there are {', '.join(PROVIDERS)}")
    if "aule" not in names:
        raise argparse.ArgumentTypeError("aule must be among them: the others are timed beside it")
    return names


def pairs(text: str) -> dict[str, str]:
    """Of ``NAME=VALUE,NAME=VALUE``."""
    found = [part.partition("=") for part in text.split(",") if part]
    if not all(name and equals and value for name, equals, value in found):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE between commas, got {text!r}")
    return {name: value for name, _, value in found}


def add(p: argparse.ArgumentParser) -> None:
    """Adds the options to a parser."""
    for name in FAMILIES:
        p.add_argument(f"--{name}", action="store_true", help=f"{name} of the sizes below, instead of the groups")
    p.add_argument("--all", action="store_true", help="all of these, and all kernels")
    p.add_argument("--kernel", action="append", default=[], choices=list(KERNELS), help="the same of this kernel")
    p.add_argument("--sizes", type=numbers, default=(), metavar="N,N", help="of products, convolutions and kernels")
    p.add_argument("--seq-lens", type=numbers, default=(), metavar="N,N", help="of attention; keys of decoding")
    p.add_argument("--batches", type=numbers, default=(), metavar="N,N", help="of attention, decoding, convolutions")
    p.add_argument("--dtypes", type=dtypes, default=(), metavar="A,B", help="such as float32,fp16,bf16,fp8")
    p.add_argument("--fp8", action="store_true", help="float8_e4m3fn products too")
    p.add_argument("--backward", action="store_true", help="gradients too: attention, convolutions, kernels")
    p.add_argument("--warmup", type=int, default=0, metavar="N", help="further calls before a case is timed")
    p.add_argument("--iterations", type=int, metavar="N", help="samples of each case, by whatever clock")
    p.add_argument("--quiet", action="store_true", help="print no JSON lines: for --save, --markdown, --plot")
    p.add_argument("--providers", type=providers, metavar="A,B",
                   help=f"of {', '.join(PROVIDERS)}; absent ones are skipped")  # fmt: skip
    p.add_argument("--plot", metavar="PICTURE", help="draw attention (needs matplotlib)")
    p.add_argument("--max-memory", type=float, metavar="GIB", help="a case that needs more of the device fails")
    p.add_argument("--sol", action="store_true", help="each result's share of the measured roof, as values.sol")


def wanted(options: argparse.Namespace, gpu: bool) -> Wanted | None:
    """The described cases; None if no family and no kernel was asked for."""
    families = tuple(name for name in FAMILIES if options.all or getattr(options, name))
    kernels = tuple(KERNELS if options.all else dict.fromkeys(options.kernel))
    if options.fp8 and not families and not kernels:
        families = ("gemm",)
    if not families and not kernels:
        for name in ("sizes", "seq_lens", "batches", "dtypes", "backward"):
            if getattr(options, name):
                flags = ", ".join(f"--{family}" for family in FAMILIES)
                raise SystemExit(f"--{name.replace('_', '-')}: expected one of {flags}, --kernel beside it")
        return None
    dtypes = options.dtypes
    if options.fp8:
        dtypes = (*(dtypes or (("float16", "bfloat16") if gpu else ("float32",))), "float8_e4m3fn")
    return Wanted(families, kernels, options.sizes, options.seq_lens, options.batches,
                  tuple(dict.fromkeys(dtypes)), options.backward)  # fmt: skip


def settings(options: argparse.Namespace) -> timing.Settings:
    if options.warmup < 0 or options.iterations is not None and options.iterations < 1:
        raise SystemExit("--warmup must not be negative, and --iterations must be positive")
    made = timing.QUICK if options.quick else timing.Settings()
    made = dataclasses.replace(made, samples=options.samples, rest_s=options.rest, warmup=options.warmup)
    n = options.iterations
    return dataclasses.replace(made, samples=n, wall_samples=n, host_samples=n, exact=True) if n else made


def baselines(names: tuple[str, ...]) -> list[str]:
    """Runners of the providers that are here; of the others a line says why they are not."""
    found = []
    for name in names:
        runner, why = PROVIDERS[name], None
        if runner in ("cuda", *run.LIBRARIES) and not torch.cuda.is_available():
            why = "there is no CUDA device"
        elif runner in run.LIBRARIES and importlib.util.find_spec(run.LIBRARIES[runner]) is None:
            why = f"{run.LIBRARIES[runner]} is not installed"
        if why:
            print(f"provider {name} is skipped: {why}", file=sys.stderr)
        elif runner:
            found.append(runner)
    return list(dict.fromkeys(found))


def measured_roof(options: argparse.Namespace) -> roof.Roof | None:
    """For --sol: what is kept, or measured now."""
    return (roof.load() or roof.measure()) if options.sol else None


@contextlib.contextmanager
def memory_limit(gib: float | None):
    """So much of the current device may be reserved until the end."""
    if gib is None:
        yield
        return
    total = torch.aule.get_device_properties().total_memory
    if not 0 < gib * 2**30:
        raise SystemExit("--max-memory must be positive")
    before = torch.aule.get_per_process_memory_fraction()
    torch.aule.set_per_process_memory_fraction(min(1.0, gib * 2**30 / total))
    try:
        yield
    finally:
        torch.aule.set_per_process_memory_fraction(before)
