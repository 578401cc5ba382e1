"""Times the cases of ``gpu_cases.py`` by GPU events, beside CUDA in the same run, and prints them against the aims."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import subprocess
import sys
import time
import warnings

from torch_aule.benchmark import gpu_timing
from torch_aule.benchmark.gpu_cases import GROUPS, NOTHING, GpuCase, Reach, Sizes, copy_reference
from torch_aule.benchmark.gpu_rival import Child, Remote
from torch_aule.benchmark.gpu_timing import FAILURES, SAMPLES, Blocker, Contestant, device_of, empty_cache, first_line

FIRST_CALL_AIM_S = 0.5


def run_case(case: GpuCase, rivals: list[str], blockers: dict[str, Blocker], child: Child | None = None) -> dict:
    """One line: the aule device and each rival that can, in alternating samples; their memory is given back.

    A rival that needs autograd runs in `child`, unless it is the CPU.
    """
    line = {"group": case.group, "case": case.name, "shapes": case.shapes, "dtype": case.dtype}
    contexts = {"aule": contextlib.nullcontext}
    forms = case.rivals or NOTHING
    for rival in rivals:
        contexts.update({rival: contextlib.nullcontext} if rival == "cpu" else forms)
    contestants = {}
    for name, context in contexts.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scaled_dot_product_attention says why a backend was not taken
                if child and case.autograd and name not in ("aule", "cpu"):
                    contestants[name] = Remote(child, case, name)
                else:
                    contestants[name] = Contestant(case, name, context, blockers)
        except FAILURES as error:
            line.setdefault("errors", {})[name] = first_line(error)
    for _ in range(SAMPLES):
        for name in list(contestants):
            try:
                contestants[name].sample()
            except FAILURES as error:
                line.setdefault("errors", {})[name] = first_line(error)
                del contestants[name]
    line.update({name: contestant.result(case) for name, contestant in contestants.items()})
    contestants.clear()
    gc.collect()
    if child:
        child.forget()
    for name in contexts:
        with contextlib.suppress(*FAILURES):  # a lost device: the rivals still have numbers
            empty_cache(device_of(name))
    for rival in ("cuda", "cudnn", "cpu"):
        if rival in line and "aule" in line:
            line[f"speed_to_{rival}"] = float(f"{line[rival]['ms'] / line['aule']['ms']:.4g}")
    return line


def judge(line: dict, reach: Reach | None, lines: dict, copy: float) -> None:
    """Write into `line` what its aim says about it."""
    if reach is None:
        return
    line["reach"], line["reach_of"] = reach.least, reach.of
    if reach.aim is not None:
        line["aim"] = reach.aim
    got = line.get("aule")
    if not got:
        line["met"] = False
        return
    if reach.of == "cuda":
        value = line.get("speed_to_cuda")
    elif reach.of == "tflops":
        value = got["tflops"]
    elif reach.of == "copy":
        value = got["gbytes_per_s"] / copy if copy else None
    elif reach.of == "us":
        value = got["ms"] * 1e3
    else:
        twin = lines.get(reach.twin, {}).get("aule")
        value = got["tflops"] / twin["tflops"] if twin else None
    if value is not None:
        line["reached"] = float(f"{value:.4g}")
        line["met"] = value <= reach.least if reach.of == "us" else value >= reach.least


FIRST_CALL = """
import time, torch, torch_aule
import torch.nn.functional as F
torch.aule.set_device({index})
start = time.perf_counter()
q, k, v = (torch.ones(1, 8, 512, 64, dtype=torch.float16, device="aule") for _ in range(3))
F.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().item()
print("seconds", time.perf_counter() - start)
"""


def first_call(index: int) -> dict:
    """Seconds from a process's first tensor to an attention result; the second process finds the pipeline cache."""
    line = {"group": "model", "case": "first_call", "shapes": "B1 H8 N512 D64", "dtype": "float16",
            "reach": FIRST_CALL_AIM_S, "reach_of": "s", "met": False}  # fmt: skip
    seconds = None
    for _ in range(2):
        try:
            done = subprocess.run(
                [sys.executable, "-c", FIRST_CALL.format(index=index)], capture_output=True, text=True, timeout=120
            )
        except subprocess.TimeoutExpired:
            return {**line, "errors": {"aule": "no answer in 120 s"}}
        answer = [x.split()[1] for x in done.stdout.splitlines() if x.startswith("seconds")]
        if not answer:
            return {**line, "errors": {"aule": done.stderr[-200:]}}
        seconds = float(answer[0])
    ms = round(seconds * 1e3, 1)
    result = {"ms": ms, "ms_min": ms, "ms_max": ms, "samples": 1}
    return {**line, "aule": result, "reached": round(seconds, 3), "met": seconds < FIRST_CALL_AIM_S}


def run(groups: list[str], about: dict, emit, *, rivals: list[str], sizes: Sizes | None = None, quick=False, index=0,
        cases_filter="", seconds=float("inf")) -> list[dict]:  # fmt: skip
    """All lines of `groups`; `emit` gets each as soon as it is measured, so that a crash loses one case only.

    The main cases come first; the others are left out once `seconds` have passed.
    """
    sizes = sizes or Sizes()
    about = {**about, "date": datetime.date.today().isoformat(), "rest_s": gpu_timing.REST_S}
    cases = [case for group in groups for case in GROUPS[group](sizes) if case.main or not quick]
    cases = [case for case in cases if cases_filter in " ".join(case.key)]
    cases.sort(key=lambda case: not case.main)
    start = time.perf_counter()
    blockers = {}
    for device in ("aule", *rivals):
        if device != "cpu":
            blockers[device] = Blocker(device, max(1024, sizes.cold_bytes // 4))
    copy, by_key, lines = 0.0, {}, []
    if any(case.reach and case.reach.of == "copy" for case in cases):
        cases = copy_reference(sizes) + cases
    left_out = 0
    child = Child(sizes) if any(r != "cpu" for r in rivals) else None
    for case in cases:
        if not case.main and time.perf_counter() - start > seconds:
            left_out += 1
            continue
        line = run_case(case, rivals, blockers, child)
        if case.name == "x+1" and not copy:
            speeds = [v["gbytes_per_s"] for v in line.values() if isinstance(v, dict) and "gbytes_per_s" in v]
            copy = max(speeds, default=0.0)
        judge(line, case.reach, by_key, copy)
        by_key[case.key] = line
        lines.append({**line, **about})
        emit(lines[-1])
    if child:
        child.close()
    if any(case.group == "model" for case in cases):
        lines.append({**first_call(index), **about})
        emit(lines[-1])
    words = f", {left_out} left out for want of time" if left_out else ""
    print(f"{len(lines)} cases in {time.perf_counter() - start:.0f} s{words}", file=sys.stderr)
    return lines


def _speed(result: dict | None) -> str:
    if not result:
        return ""
    if "tflops" in result:
        return f"{result['tflops']:.0f}" if result["tflops"] >= 100 else f"{result['tflops']:.3g}"
    return f"{result['gbytes_per_s']:.0f}" if "gbytes_per_s" in result else ""


def _milliseconds(result: dict | None) -> str:
    return f"{result['ms']:.4g}" if result else ""


REACH_WORDS = {
    "cuda": "{:g} x CUDA", "tflops": "{:g} TFLOPS", "copy": "{:.0%} of x+1", "us": "at most {:g} us",
    "s": "under {:g} s", "twin": "{:.0%} of the nearest above",
}  # fmt: skip


def _reached(line: dict) -> str:
    if "reached" not in line:
        return ""
    value = line["reached"]
    return f"{value:.0%}" if line["reach_of"] in ("copy", "twin") else f"{value:.3g}"


def markdown(lines: list[dict]) -> str:
    """The cases, group by group, with their aims; then how many aims hold and by how much the others miss."""
    if not lines:
        return ""
    about = lines[0]
    out = [f"{about['device']}, {about['driver']}; torch {about['torch']}; {about.get('date', '')}; "
           f"{about.get('rest_s', 0):g} s of rest before each sample of attention and products", ""]
    groups = list(dict.fromkeys(line["group"] for line in lines))
    for group in groups:
        rows = [line for line in lines if line["group"] == group]
        attention = any("cudnn" in line for line in rows)
        unit = "GB/s" if not any("tflops" in line.get("aule", {}) for line in rows) else "TFLOPS (or GB/s)"
        out.append(f"| {group} | sizes | dtype | aule, ms | {unit} | CUDA |" + (" cuDNN |" if attention else "")
                   + " aule / CUDA | reach at least | reached | met |")  # fmt: skip
        out.append("|---|---|---|---:|---:|---:|" + ("---:|" if attention else "") + "---:|---|---:|---|")
        for line in rows:
            got, cuda = line.get("aule"), line.get("cuda")
            speed = _speed(got)
            if not got:
                speed = "failed: " + line.get("errors", {}).get("aule", "").replace("|", "/")[:80]
            cells = [line["case"], line["shapes"], line["dtype"], _milliseconds(got), speed]
            cells.append(_speed(cuda) or _milliseconds(cuda))
            if attention:
                cells.append(_speed(line.get("cudnn")))
            ratio = line.get("speed_to_cuda")
            cells.append(f"{ratio:.2f}" if ratio else "")
            cells.append(REACH_WORDS[line["reach_of"]].format(line["reach"]) if "reach" in line else "")
            cells.append(_reached(line))
            cells.append({True: "yes", False: "**no**"}.get(line.get("met"), ""))
            out.append("| " + " | ".join(cells) + " |")
        out.append("")
    judged = [line for line in lines if "met" in line]
    missed = [line for line in judged if not line["met"]]
    out.append(f"{len(judged) - len(missed)} of {len(judged)} aims hold.")
    for line in missed:
        words = REACH_WORDS[line["reach_of"]].format(line["reach"])
        name = f"{line['case']} {line['shapes']} {line['dtype']}"
        out.append(f"- {name}: {_reached(line) or 'not measured'}, aim {words}")
    heavy = [line for line in lines if line.get("aule", {}).get("needed_mib")
             and line["aule"]["peak_mib"] > 1.05 * line["aule"]["needed_mib"] + 1]  # fmt: skip
    if heavy:
        out += ["", "Attention that takes more memory than its outputs and log-sum-exp:"]
        for line in heavy:
            name = f"{line['case']} {line['shapes']} {line['dtype']}"
            out.append(f"- {name}: {line['aule']['peak_mib']} MiB for {line['aule']['needed_mib']}")
    return "\n".join(out)


def is_gpu(kind: str) -> bool:
    return kind in ("discrete", "integrated", "virtual") or os.environ.get("TORCH_AULE_BENCHMARK_GPU") == "1"
