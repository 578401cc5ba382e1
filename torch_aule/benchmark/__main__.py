"""The command line; see ``python -m torch_aule.benchmark --help``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys

import torch

import torch_aule
from torch_aule.benchmark import cases, gpu_cases, gpu_report, gpu_timing, harness
from torch_aule.benchmark.memory import run_memory


def environment() -> dict:
    """What a result belongs to; repeated in each line, so that a line can be read alone."""
    p = torch.aule.get_device_properties()
    return {
        "device": p.name,
        "driver": f"{p.driver_name} {p.driver_info}",
        "host": f"{platform.machine()}, {os.cpu_count()} CPUs, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "torch_aule": torch_aule.__version__,
    }


def run_group(group: str, devices: list[str], quick: bool):
    for case in cases.GROUPS[group](quick):
        try:
            times = harness.measure(case, devices, quick=quick)
        except (RuntimeError, NotImplementedError) as error:
            yield {"group": group, "case": case.name, "shapes": case.shapes, "error": str(error).splitlines()[0][:200]}
            continue
        line = {"group": group, "case": case.name, "shapes": case.shapes, **{d: _rounded(t) for d, t in times.items()}}
        if "cpu" in times and "aule" in times:
            line["ratio_to_cpu"] = round(times["aule"]["ms"] / times["cpu"]["ms"], 2)
            if case.limit is not None:
                line["limit"] = case.limit
        for device, result in times.items():
            if case.flops:
                line[device]["gflops"] = round(case.flops / result["ms"] / 1e6, 2)
            elif case.bytes:
                line[device]["gbytes_per_s"] = round(case.bytes / result["ms"] / 1e6, 2)
        yield line


def _rounded(values: dict) -> dict:
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}


def run_dispatch(devices: list[str], quick: bool):
    for name, make in cases.tiny_ops().items():
        line = {"group": "dispatch", "case": name, "shapes": "16 values"}
        for device in devices:
            try:
                line[device] = _rounded(harness.issue_rate(make(device), device, calls=300 if quick else 2000))
            except (RuntimeError, NotImplementedError) as error:
                line["error"] = str(error).splitlines()[0][:200]
        yield line


def run_accuracy():
    """Largest error against float64, relative to the largest value of each result."""
    for name, (function, sizes) in cases.accuracy_cases().items():
        generator = torch.Generator().manual_seed(7)
        inputs = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            line = {"group": "accuracy", "case": name, "shapes": f"{sizes} {str(dtype).removeprefix('torch.')}"}
            rounded = [t.to(dtype) for t in inputs]
            reference = [t.double().requires_grad_() for t in rounded]
            expected = function(*reference)
            weight = torch.randn(expected.shape, generator=generator, dtype=torch.float64).to(dtype)
            gradients = torch.autograd.grad(expected, reference, weight.double())
            for device in ("aule", "cpu"):
                try:
                    leaves = [t.to(device).requires_grad_() for t in rounded]
                    actual = function(*leaves)
                    got = torch.autograd.grad(actual, leaves, weight.to(device))
                except (RuntimeError, NotImplementedError) as error:
                    line["error"] = str(error).splitlines()[0][:200]
                    continue
                line[device] = {
                    "forward": _error(actual, expected),
                    "gradients": max(_error(a, e) for a, e in zip(got, gradients)),
                }
            yield line


def _error(actual, expected) -> float:
    difference = (actual.detach().cpu().double() - expected.detach()).abs().max().item()
    return float(f"{difference / max(expected.detach().abs().max().item(), 1e-30):.3g}")


def key(line: dict) -> tuple:
    return line["group"], line["case"], line["shapes"], line.get("dtype", "")


def value(line: dict) -> float | None:
    result = line.get("aule") or {}
    return result.get("ms", result.get("us"))


def compare(lines: list[dict], path: str, threshold: float) -> int:
    """Print each case against an older run; returns how many became slower by more than `threshold`."""
    with open(path) as file:
        old = {key(line): line for line in map(json.loads, file) if "group" in line}
    slower = 0
    for line in lines:
        before, now = value(old.get(key(line), {})), value(line)
        if not before or not now:
            continue
        change = now / before
        slower += change > 1 + threshold
        mark = "SLOWER" if change > 1 + threshold else "faster" if change < 1 / (1 + threshold) else ""
        print(
            f"{line['group']:10} {line['case']:24} {line['shapes']:32} "
            f"{before:10.4f} -> {now:10.4f}  x{change:.2f} {mark}"
        )
    return slower


def markdown(lines: list[dict], about: dict) -> str:
    out = [f"{about['device']}, {about['driver']}; {about['host']}; torch {about['torch']}", ""]
    timed = [x for x in lines if x["group"] not in ("accuracy", "dispatch", "memory")]
    if timed:
        out += ["| case | sizes | aule, ms | CPU, ms | aule / CPU | aim |", "|---|---|---:|---:|---:|---:|"]
        for x in timed:
            if "aule" not in x:
                out.append(f"| {x['case']} | {x['shapes']} | {x.get('error', '-')} | | | |")
                continue
            cpu = f"{x['cpu']['ms']:.3f}" if "cpu" in x else ""
            aim = f"{x['limit']:g}" if "limit" in x else ""
            out.append(
                f"| {x['case']} | {x['shapes']} | {x['aule']['ms']:.3f} | {cpu} | {x.get('ratio_to_cpu', '')} | {aim} |"
            )
        out.append("")
    dispatch = [x for x in lines if x["group"] == "dispatch"]
    if dispatch:
        out += ["| host cost of one call | aule, us | CPU, us |", "|---|---:|---:|"]
        out += [
            f"| {x['case']} | {x.get('aule', {}).get('us', '-')} | {x.get('cpu', {}).get('us', '-')} |"
            for x in dispatch
        ] + [""]
    accuracy = [x for x in lines if x["group"] == "accuracy"]
    if accuracy:
        out += [
            "| error against float64 | sizes | forward | gradients | CPU forward | CPU gradients |",
            "|---|---|---:|---:|---:|---:|",
        ]
        for x in accuracy:
            a, c = x.get("aule", {}), x.get("cpu", {})
            out.append(f"| {x['case']} | {x['shapes']} | {a.get('forward', '-')} | {a.get('gradients', '-')} | "
                       f"{c.get('forward', '-')} | {c.get('gradients', '-')} |")  # fmt: skip
    for x in lines:
        if x["group"] == "memory":
            kib = [x[when]["reserved"] >> 10 for when in ("after_step_10", "after_last_step")]
            out.append(f"Training, {x['shapes']}: {kib[0]} KiB reserved after the tenth step, {kib[1]} after the last.")
    return "\n".join(out)


def wanted_groups(options, gpu: bool) -> tuple[list[str], list[str]]:
    """Groups of the GPU's cases, and groups of the others, which are small enough for a CPU."""
    large = list(gpu_cases.GROUPS) if gpu else []
    others = [g for g in (*cases.GROUPS, "dispatch", "accuracy", "memory") if g not in large]
    if not options.all:
        named = {g for g in (*large, *others) if getattr(options, g)}
        if {"attention", "gemm", "norms", "decode"} <= named:
            named |= {"chains", "model"}  # the rest of the table of aims
        if named:
            return [g for g in large if g in named], [g for g in others if g in named]
    return large, others


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_aule.benchmark", description=__doc__.splitlines()[0])
    for group in dict.fromkeys((*gpu_cases.GROUPS, *cases.GROUPS, "dispatch", "accuracy", "memory")):
        only = ", GPUs only" if group in gpu_cases.GROUPS and group not in cases.GROUPS else ""
        parser.add_argument(f"--{group}", action="store_true", help=f"the group {group}{only}")
    parser.add_argument("--all", action="store_true", help="every group (the default)")
    parser.add_argument("--quick", action="store_true", help="only the sizes that have a stated aim, fewer rounds")
    parser.add_argument("--save", metavar="FILE", help="write the JSON lines there too")
    parser.add_argument("--compare", metavar="FILE", help="compare with lines saved before")
    parser.add_argument("--threshold", type=float, default=0.05, help="change that counts in --compare (default 0.05)")
    parser.add_argument("--fail-on-regression", action="store_true", help="exit 1 when --compare finds a slower case")
    parser.add_argument("--markdown", action="store_true", help="print tables instead of JSON lines")
    parser.add_argument("--device", type=int, default=0, help="index of the aule device")
    parser.add_argument("--no-cpu", action="store_true", help="do not time the CPU beside it")
    parser.add_argument("--no-cuda", action="store_true", help="do not time CUDA beside it")
    parser.add_argument("--only", default="", metavar="TEXT", help="on a GPU: only cases whose name or sizes have it")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="on a GPU: then no more of the minor cases")
    parser.add_argument("--rest", type=float, default=gpu_timing.REST_S, metavar="SECONDS",
                        help="idle before samples of attention and products (default %(default)s)")  # fmt: skip
    parser.add_argument("--small", action="store_true", help="on a GPU: the cases of a software device")
    options = parser.parse_args()

    if not torch.aule.is_available():
        print(f"no aule device: {torch.aule.unavailable_reason()}", file=sys.stderr)
        return 2
    torch.aule.set_device(options.device)
    torch.aule.set_strict(True)  # a number must never be the CPU's in disguise
    cuda = ["cuda"] if torch.cuda.is_available() and not options.no_cuda else []
    devices = ["aule"] + ([] if options.no_cpu else ["cpu"]) + cuda
    gpu = gpu_report.is_gpu(torch.aule.get_device_properties().kind) and not options.small
    large, wanted = wanted_groups(options, gpu)
    gpu_timing.REST_S = options.rest
    about = environment()

    lines: list[dict] = []
    with contextlib.ExitStack() as stack:
        save = None
        if options.save:
            os.makedirs(os.path.dirname(options.save) or ".", exist_ok=True)
            save = stack.enter_context(open(options.save, "w"))

        def emit(line: dict) -> None:
            lines.append(line)
            text = json.dumps(line)
            if not options.markdown:
                print(text, flush=True)
            if save:
                print(text, file=save, flush=True)  # at once: what was measured survives a lost device

        if large:
            gpu_report.run(large, about, emit, rivals=cuda, quick=options.quick, index=options.device,
                           cases_filter=options.only, seconds=options.seconds)  # fmt: skip
        for group in wanted:
            if group == "dispatch":
                source = run_dispatch(devices, options.quick)
            elif group == "accuracy":
                source = run_accuracy()
            elif group == "memory":
                source = run_memory()
            else:
                source = run_group(group, devices, options.quick)
            for line in source:
                emit({**line, **about})
    if options.markdown:
        tables = [gpu_report.markdown([x for x in lines if "date" in x])] if large else []
        tables += [markdown([x for x in lines if "date" not in x], about)] if wanted else []
        print("\n\n".join(tables))
    slower = compare(lines, options.compare, options.threshold) if options.compare else 0
    if slower:
        print(f"{slower} case(s) slower than in {options.compare}", file=sys.stderr)
    return 1 if slower and options.fail_on_regression else 0


if __name__ == "__main__":
    sys.exit(main())
