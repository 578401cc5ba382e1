"""The command line; see ``python -m torch_aule.benchmark --help``."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys

import torch

from torch_aule.benchmark.cases import GROUPS
from torch_aule.benchmark.cases import chosen as described
from torch_aule.benchmark.harness import compiled
from torch_aule.benchmark.harness import options as run_options
from torch_aule.benchmark.harness import timing
from torch_aule.benchmark.harness.case import GPU, SOFTWARE, Case, Sizes
from torch_aule.benchmark.report import compare, markdown, plot, record, summary
from torch_aule.measure import roof

# Groups with sizes of their own for GPUs.
LARGE = (
    "attention",
    "gemm",
    "norms",
    "decode",
    "gpt2",
    "layers",
    "fft",
    "linalg",
    "models",
    "audio",
    "quantized",
    "reference",
    "startup",
    "chains",
)
FORMATS = {"markdown": markdown.markdown, "json": summary.as_json, "csv": summary.as_csv}  # of a report


def comparison(p: argparse.ArgumentParser) -> None:
    p.add_argument("--threshold", type=float, default=0.05, help="a change that counts (default %(default)s)")
    p.add_argument("--fail-on-regression", action="store_true", help="exit 1 if a case is slower, or failed")


def compared(before: list[record.Record], after: list[record.Record], options: argparse.Namespace) -> int:
    """Prints the comparison; 1 if that is what a regression gives, and there is one."""
    found = compare.compare(before, after, options.threshold)
    print(found.markdown() if options.markdown else found.text())
    failed = found.regressions()
    if failed:
        print(f"{len(failed)} case(s) slower or failed", file=sys.stderr)
    return 1 if failed and options.fail_on_regression else 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m torch_aule.benchmark", description=__doc__.splitlines()[0])
    top.add_argument("--package-root", metavar="DIR", help="time the torch_aule in DIR with these cases")
    commands = top.add_subparsers(dest="command", required=True)

    p = commands.add_parser("run", help="measure, and print or save a JSON line for each case")
    p.add_argument("--groups", default="", metavar="A,B", help=f"of {', '.join(GROUPS)} (default: all)")
    p.add_argument("--quick", action="store_true", help="only the main cases, fewer samples")
    p.add_argument("--save", metavar="FILE", help="write the JSON lines there too")
    p.add_argument("--append", action="store_true", help="--save adds to the file: compare puts samples together")
    p.add_argument("--markdown", action="store_true", help="print tables instead of JSON lines")
    p.add_argument("--device", type=int, default=0, help="index of the aule device")
    p.add_argument("--no-cpu", action="store_true", help="do not time the CPU beside it")
    p.add_argument("--no-cuda", action="store_true", help="do not time CUDA beside it")
    p.add_argument("--only", default="", metavar="TEXT", help="only cases whose name, sizes or dtype have it")
    p.add_argument("--seconds", type=float, default=float("inf"), help="then no more of the minor cases")
    p.add_argument("--samples", type=int, default=timing.Settings.samples, help="by events (default %(default)s)")
    p.add_argument("--rest", type=float, default=timing.Settings.rest_s, metavar="SECONDS",
                   help="idle before samples of attention and products (default %(default)s)")  # fmt: skip
    p.add_argument("--small", action="store_true", help="the cases of a software device, also on a GPU")
    p.add_argument("--large", action="store_true", help="the cases of a GPU, also on a software device")
    run_options.add(p)
    p.add_argument("--compare", metavar="FILE", help="hold the run against this record, as the command compare does")
    comparison(p)
    p.add_argument("--revision", help="what is measured, for the record (default: of the git tree around the package)")

    p = commands.add_parser("compare", help="hold two records against each other")
    p.add_argument("before")
    p.add_argument("after")
    comparison(p)
    p.add_argument("--markdown", action="store_true", help="print a table for a page")

    p = commands.add_parser("report", help="print tables of a record")
    p.add_argument("file")
    p.add_argument("--format", choices=FORMATS, default="markdown",
                   help="tables, one JSON object, or a CSV row for each result (default: markdown)")  # fmt: skip

    p = commands.add_parser("compiled", help="time whole models, eager and compiled, on this device and on CUDA")
    compiled.add(p)

    p = commands.add_parser("roof", help="measure what the device can reach, and keep it for the profiler's report")
    p.add_argument("--device", type=int, default=0, help="index of the aule device")

    p = commands.add_parser("plot", help="draw attention's TFLOPS over sequence length (needs matplotlib)")
    p.add_argument("file")
    p.add_argument("--out", required=True, metavar="PICTURE", help=".png or .svg")
    p.add_argument("--dtype", help="default: float16, or what the record has most of")
    p.add_argument("--dims", type=int, nargs="+", default=[64, 128], help="head dims, a row each (default 64 128)")
    p.add_argument("--mark", action="append", default=[], metavar="LABEL=TFLOPS",
                   help="a dashed line in the first panel, for what was measured elsewhere")  # fmt: skip
    return top


def chosen(options: argparse.Namespace, gpu: bool) -> list[tuple[Sizes, list[Case]]]:
    """Cases by the sizes they are of. A GPU takes its own list of a group, where there is one."""
    wanted = run_options.wanted(options, gpu)
    if wanted is not None:
        sizes = dataclasses.replace(GPU if gpu else SOFTWARE, wanted=wanted)
        cases = [case for case in described(sizes) if options.only in " ".join(case.key[1:])]
        return [(sizes, cases)] if cases else []
    names = [name for name in options.groups.split(",") if name] or list(GROUPS)
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise SystemExit(f"--groups: no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    found = []
    for sizes in (GPU, SOFTWARE):
        mine = [name for name in names if (gpu and name in LARGE) == (sizes is GPU)]
        cases = [case for name in mine for case in GROUPS[name](sizes) if case.main or not options.quick]
        cases = [case for case in cases if options.only in " ".join(case.key[1:])]
        if cases:
            found.append((sizes, cases))
    return found


def run(options: argparse.Namespace) -> int:
    from torch_aule.benchmark.harness import run as measuring

    if not torch.aule.is_available():
        print(f"no aule device: {torch.aule.unavailable_reason()}", file=sys.stderr)
        return 2
    torch.aule.set_device(options.device)
    gpu = options.large or not options.small and torch.aule.get_device_properties().kind != "cpu"
    lists = chosen(options, gpu)
    if not lists:
        print("no case is left; this device may be too small for the groups", file=sys.stderr)
        return 2
    settings = run_options.settings(options)
    before = record.read(options.compare) if options.compare else None  # a file that is none ends it now
    if options.fail_on_regression and before is None:
        raise SystemExit("--fail-on-regression: expected --compare FILE beside it")
    about = measuring.environment(settings, options.revision)
    cuda = ["cuda"] if torch.cuda.is_available() and not options.no_cuda else []
    cpu = [] if options.no_cpu else ["cpu"]
    asked = run_options.baselines(options.providers) if options.providers else None
    device_roof = run_options.measured_roof(options)

    records: list[record.Record] = []
    with contextlib.ExitStack() as stack:
        save = None
        if options.save:
            os.makedirs(os.path.dirname(options.save) or ".", exist_ok=True)
            save = stack.enter_context(open(options.save, "a" if options.append else "w"))

        def emit(one: record.Record) -> None:
            records.append(one)
            if not options.markdown and not options.quiet:
                print(one.line(), flush=True)
            if save:
                print(one.line(), file=save, flush=True)  # at once: what was measured survives a lost device

        stack.enter_context(run_options.memory_limit(options.max_memory))
        strict = torch.aule.is_strict()
        torch.aule.set_strict(True)  # a number must never be the CPU's in disguise
        try:
            for sizes, cases in lists:
                # At a GPU's sizes the CPU would take hours.
                beside = asked if asked is not None else cpu + cuda if sizes.software else cuda
                measuring.run(cases, about, emit, baselines=beside, sizes=sizes, settings=settings,
                              seconds=options.seconds, roof=device_roof, quiet=options.quiet)  # fmt: skip
        finally:
            torch.aule.set_strict(strict)
    if options.markdown:
        print(markdown.markdown(records))
    if options.plot:
        plot.draw(records, options.plot, dims=sorted(set(plot.dims(records))))
        print(options.plot)
    return compared(before, records, options) if before is not None else 0


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0].startswith("--") and arguments[0] != "--help":
        arguments.insert(0, "run")  # python -m torch_aule.benchmark --quick
    options = parser().parse_args(arguments)
    if options.command == "run":
        return run(options)
    if options.command == "compiled":
        return compiled.run(options)
    if options.command == "compare":
        return compared(record.read(options.before), record.read(options.after), options)
    if options.command == "report":
        found = record.read(options.file)
        print(FORMATS[options.format](found))
        return 0
    if options.command == "roof":
        if not torch.aule.is_available():
            print(f"no aule device: {torch.aule.unavailable_reason()}", file=sys.stderr)
            return 2
        print(roof.measure(options.device).text())
        return 0
    marks = [text.rpartition("=")[::2] for text in options.mark]
    plot.draw(record.read(options.file), options.out, options.dtype, options.dims,
              {label: float(value) for label, value in marks})  # fmt: skip
    print(options.out)
    return 0
