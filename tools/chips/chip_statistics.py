"""Compiles every kernel variant for GPUs that are not there, and reports registers, spills, memory and occupancy.

    python tools/chips/chip_statistics.py --out benchmarks/results/chips-mesa-26.2.md       (Debian or Ubuntu, x86-64)
    python tools/chips/chip_statistics.py --smoke         (a minute; exit status only; what passed is not run again)
    python tools/chips/chip_statistics.py --smoke --every     (all chips)

`tools/chip_compilers.sh` brings Mesa's drivers on stand-ins for the kernel's: real compilers, devices that execute
nothing. Each chip takes three kinds of passes, in processes of their own, because a compiler may end the process:

1. Operators (`chip_workload.py`): each pipeline that the planner uses where the probe of matrix layouts gets no answer.
2. The same on chips with matrix units, with the answer stated by hand (`matrix_probes.py`): in the order in which the
   driver keeps elements, and in an order that the kernels do not follow.
3. Variants of the kernel table that no operator took, with their default constants.

A failure is what does not compile, and a kernel on matrix units that was compiled for other subgroups than it was
planned for. The exit status tells of failures, and of spilled vector registers in AMD's attention and product kernels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matrix_probes

ROOT = Path(__file__).resolve().parents[2]
CHIPS = {
    "gfx1201": "RDNA4", "navi31": "RDNA3", "navi33": "RDNA3", "phoenix": "RDNA3, integrated", "strix1": "RDNA3.5",
    "navi21": "RDNA2", "rembrandt": "RDNA2, integrated", "vangogh": "RDNA2, integrated", "navi10": "RDNA1",
    "polaris10": "Polaris", "vega10": "Vega", "vega20": "Vega 20", "renoir": "Vega, integrated", "m1": "Apple M1",
    "adreno618": "Adreno 618", "adreno660": "Adreno 660", "adreno730": "Adreno 730", "adreno740": "Adreno 740",
    "adreno750": "Adreno 750", "adreno810": "Adreno 810", "adreno830": "Adreno 830", "tu102": "NVIDIA Turing, by Mesa",
    "ga102": "NVIDIA Ampere, by Mesa", "nvk": "NVIDIA Ada, by Mesa", "gb202": "NVIDIA Blackwell, by Mesa",
}  # fmt: skip
# What these drivers lack of what every device must have: the device is refused, and must be.
REFUSED = {
    "adreno618": "storageBuffer16BitAccess, storageBuffer8BitAccess",
    "adreno660": "storageBuffer8BitAccess",
}
ASKED = ("chip_statistics.py", "chip_workload.py", "matrix_probes.py")
SMOKE = ("gfx1201", "m1", "adreno750")  # in `make test`; at night the handful of operators runs on all
SECONDS = 150  # of processor time, for one operator or one variant
NO_ANSWER, STATED, OTHER = "no answer", "stated layout", "order unknown"
MAIN = re.compile(r"flash_|gemm|gemv|implicit_gemm|conv_direct|grouped_conv")
# Variants that are planned for subgroups of one size, because they multiply on matrix units.
ON_MATRICES = (
    r"flash_attn_\w+_coopmat(_opaque)?<", r"flash_attn_\w+_from_ds<", r"gem[mv]_coopmat<",
    r"gemm_int8<MATRIX=(8|16)", r"gemm_quantized<", r"implicit_gemm<T=b?float16", r"halo_conv(_weight)?<",
)  # fmt: skip
# Column -> its names with RADV, Honeykrisp, Turnip and NVK.
COLUMNS = {
    "registers": ("VGPRs", "GPRs", "Registers used", "Number of GPRs"),
    "spilled": ("Spilled VGPRs", "Spills", "STP Count", "Spills to memory"),
    "scalar spilled": ("Spilled SGPRs",),
    "shared": ("LDS size",),
    "scratch": ("Scratch size", "Scratch", "SLM size"),
    "occupancy": ("Subgroups per SIMD", "Threads", "Max Waves Per Core", "Max warps/SM"),
    "subgroup": ("Subgroup size",),
}


def is_on_matrices(label: str) -> bool:
    """True for a variant, or a pipeline of one, that multiplies on matrix units."""
    return any(re.match(pattern, label) for pattern in ON_MATRICES)


def tiers(chip: str) -> dict[str, list[int] | None]:
    """Answers of the probe of matrix layouts to plan with; None: the probe itself is run."""
    stated = {
        **dict.fromkeys(("navi31", "navi33", "phoenix", "strix1"), matrix_probes.rdna3(64)),
        **dict.fromkeys(("tu102", "ga102", "nvk", "gb202"), matrix_probes.nvidia()),
        "gfx1201": matrix_probes.rdna4(64),
    }.get(chip)
    if stated is None:
        return {NO_ANSWER: None}
    found = {STATED: stated, NO_ANSWER: None}
    if chip != "gfx1201":  # whose order is unknown to the kernels as it is
        other = list(stated)
        accumulator = 4 + 2 * matrix_probes.LANES * matrix_probes.ELEMENTS
        other[accumulator], other[accumulator + 1] = other[accumulator + 1], other[accumulator]
        found[OTHER] = other
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The child: one process on one chip


def say(**values) -> None:
    print(json.dumps(values), flush=True)


def compiled(native) -> list:
    """What was compiled since the last call: [[label, {name: value}], ...]."""
    return [(label, dict(values)) for label, values in native.keep_pipeline_statistics(True)]


def child(kind: str, chip: str, tier: str, start: int, smoke: bool, skip: set[str]) -> None:
    import torch

    import torch_aule  # noqa: F401

    native = torch_aule._C
    if native.device_count() == 0:
        say(refused=native.unavailable_reason(), end=True)
        os._exit(0)
    native.keep_pipeline_statistics(True)
    properties = native.device_properties(0)
    words = tiers(chip)[tier]
    if words is not None:
        native.state_matrix_probe(0, False, words)
        native.state_matrix_probe(0, True, words)
    say(properties=properties, layouts=[native.matrix_layout(0, bfloat16) for bfloat16 in (False, True)])
    if kind == "operators":
        from chip_workload import workload

        jobs = [job for job in workload(properties["float64"], properties["bfloat16"]) if job.smoke or not smoke]
        # What does not depend on matrix units is compiled once.
        jobs = [(job.name, job.call) for job in jobs if job.on_matrices or tier == next(iter(tiers(chip)))]
    else:
        rows = native.registered_kernels()
        say(lacking=[name for name, _, supported in rows if not supported], rows=len(rows))
        jobs = [(name, lambda name=name: native.compile_kernel(0, name, [])) for name, _, ok in rows if ok]
        jobs = [job for job in jobs if job[0] not in skip]
    for index, (name, call) in enumerate(jobs):
        if index < start:
            continue
        say(index=index, job=name)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process
        try:
            call()
            torch.aule.synchronize()
        except Exception as error:
            say(job=name, failed=str(error).splitlines()[0][:200])
        say(job=name, pipelines=compiled(native))
    say(end=True)
    os._exit(0)


# ---------------------------------------------------------------------------------------------------------------------
# The parent


class Result:
    """What one chip's compiler made of the kernels."""

    def __init__(self, chip: str):
        self.chip = chip
        self.properties: dict = {}
        self.layouts: dict[str, list[dict]] = {}  # tier -> float16's and bfloat16's
        self.planned: dict[str, tuple[str, str, dict[str, int]]] = {}  # label -> tier, operator, statistics
        self.plain: dict[str, dict[str, int]] = {}  # variants with default constants
        self.lacking: list[str] = []
        self.rows = 0
        self.refused = ""  # why there is no such device
        self.failures: list[tuple[str, str]] = []

    def take(self, kind: str, tier: str, line: dict) -> None:
        if "properties" in line:
            self.properties, self.layouts[tier] = line["properties"], line["layouts"]
        elif "lacking" in line:
            self.lacking, self.rows = line["lacking"], line["rows"]
        elif "refused" in line:
            self.refused = line["refused"]
        elif "failed" in line:
            self.failures.append((f"{line['job']} ({tier})", line["failed"]))
        for label, values in line.get("pipelines", ()):
            if kind == "rows":
                self.plain[label] = values
            else:
                self.planned.setdefault(label, (tier, line["job"], values))
                planned, size = self.layouts[tier][0]["subgroup"], values.get("Subgroup size")
                if is_on_matrices(label) and planned and size != planned:
                    self.failures.append((label, f"planned for subgroups of {planned}, compiled for {size}"))

    def variants(self) -> set[str]:
        return {label.split("(")[0] for label in (*self.planned, *self.plain)}

    def main(self) -> dict[str, tuple[str, str, dict[str, int]]]:
        return {label: found for label, found in self.planned.items() if MAIN.match(label)}

    def spilling(self) -> list[str]:
        return [label for label, (_, _, values) in self.main().items() if column(values, "spilled")]

    def breaks_the_aim(self) -> bool:
        return bool(self.failures) or (self.properties.get("vendor_id") == 0x1002 and bool(self.spilling()))


def column(values: dict[str, int], name: str) -> int | None:
    return next((values[key] for key in COLUMNS[name] if key in values), None)


def run_child(result: Result, kind: str, tier: str, folder: Path, options: argparse.Namespace) -> None:
    """Starts the child, again after each job that ended it, until one comes to its end."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TORCH_AULE_DISABLE": "pipeline_cache,compile_threads",  # a launch says what does not compile
        "TORCH_AULE_STRICT": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "MESA_SHADER_CACHE_DIR": str(folder / "shader-cache"),  # of SPIR-V and constants, with the statistics
    }
    env.pop("VK_LAYERS", None)
    start = 0
    while True:
        command = [folder / f"run-{result.chip}", sys.executable, __file__, "--child", kind, "--chips", result.chip,
                   "--tier", tier, "--start", str(start)]  # fmt: skip
        if options.smoke:
            command.append("--smoke")
        skip = "\n".join(sorted(result.variants())) if kind == "rows" else ""
        done = subprocess.run(command, env=env, input=skip, capture_output=True, text=True, errors="replace")
        job = None
        for text in done.stdout.splitlines():
            line = json.loads(text)
            if "index" in line:
                start, job = line["index"] + 1, line["job"]
            result.take(kind, tier, line)
        if '"end": true' in done.stdout:
            return
        if job is None:
            raise SystemExit(f"{result.chip} does not start:\n{done.stderr[-2000:]}")
        tail = done.stderr.strip().splitlines()[-1:] or [""]
        result.failures.append((f"{job} ({tier})", f"the process ended with {done.returncode}: {tail[0][:160]}"))


def revision() -> str:
    """Of everything that results depend on: kernels and planners, and what is asked of them."""
    digest = hashlib.sha256()
    for path in (*sorted(ROOT.glob("torch_aule/_C*")), *(Path(__file__).with_name(name) for name in ASKED)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compilers(folder: Path) -> str:
    """Which files the drivers are, and so of what version."""
    found = sorted(folder.glob("root/usr/lib/*/libvulkan_*.so"))
    return " ".join(f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in found)


def measure(chip: str, folder: Path, options: argparse.Namespace) -> Result:
    result = Result(chip)
    kept = folder / f"{chip}-results.json"  # compilation takes many minutes: a run that was cut goes on
    stamp = revision()
    if not options.smoke and kept.exists():
        stored = json.loads(kept.read_text())
        if stored["revision"] == stamp:
            vars(result).update(stored["result"])
            return result
    for tier in tiers(chip):
        run_child(result, "operators", tier, folder, options)
    expected = REFUSED.get(chip, "")  # a driver that has it one day is to be told, too
    if bool(expected) != bool(result.refused) or expected not in result.refused:
        result.failures.append(("the device", result.refused or f"is not refused, though it lacked {expected}"))
    if not options.smoke and not result.refused:
        # With the layout that most variants have been planned for; those that were are skipped.
        run_child(result, "rows", next(iter(tiers(chip))), folder, options)
        kept.write_text(json.dumps({"revision": stamp, "result": vars(result)}))
    found = (f"{len(result.planned)} pipelines of operators, {len(result.plain)} other variants, "
             f"{len(result.failures)} failures, {len(result.spilling())} main kernels spill")  # fmt: skip
    print(f"{chip}: {result.refused or found}", flush=True)
    for what, why in result.failures:
        print(f"  {what}: {why}", flush=True)
    return result


# ---------------------------------------------------------------------------------------------------------------------
# The report


def summary(results: list[Result]) -> list[str]:
    out = [
        "| chip | family | subgroup | matrix shapes | pipelines of operators | variants compiled | lack a feature | "
        "failed | main kernels that spill |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        if r.refused:
            out.append(f"| {r.chip} | {CHIPS[r.chip]} | refused: lacks {REFUSED.get(r.chip)} |" + " |" * 6)
            continue
        p = r.properties
        least, size, most = p["min_subgroup_size"], p["subgroup_size"], p["max_subgroup_size"]
        subgroup = str(size) if least == most else f"{size} ({least} to {most})"
        out.append(
            f"| {r.chip} | {CHIPS[r.chip]} | {subgroup} | {len(p['coopmat_shapes'])} | {len(r.planned)} | "
            f"{len(r.variants())} of {r.rows} | {len(r.lacking)} | {len(r.failures)} | {len(r.spilling())} |"
        )
    return out


def main_kernels(result: Result) -> list[str]:
    """One row for each variant and tier: the worst of its pipelines."""
    groups: dict[tuple[str, str], list[tuple[str, str, dict[str, int]]]] = {}
    for label, (tier, job, values) in result.main().items():
        groups.setdefault((label.split("(")[0], tier), []).append((label, job, values))
    names = [name for name in COLUMNS if any(column(v, name) is not None for _, _, v in result.main().values())]
    out = [
        f"| kernel | with | pipelines | most registers | {' | '.join(n for n in names[1:])} | of these constants |",
        "|---|---|---:|---:|" + "---:|" * (len(names) - 1) + "---|",
    ]
    for (kernel, tier), found in sorted(groups.items()):
        worst = max(found, key=lambda x: (column(x[2], "spilled") or 0, column(x[2], "registers") or 0))
        cells = [str(column(worst[2], name)) for name in names]
        constants = f"({worst[0].partition('(')[2]} {worst[1]}" if "(" in worst[0] else worst[1]
        tier = tier if len(tiers(result.chip)) > 1 else ""
        out.append(f"| {kernel} | {tier} | {len(found)} | {' | '.join(cells)} | {constants} |")
    return out


def others(result: Result) -> list[str]:
    """What of the rest spills or needs scratch memory, one row for each variant."""
    rest = [(f"{label}, {job}", values) for label, (_, job, values) in result.planned.items() if not MAIN.match(label)]
    rest += [(f"{label}, default constants", values) for label, values in result.plain.items()]
    bad = [(what, v) for what, v in rest if column(v, "spilled") or column(v, "scratch")]
    if not bad:
        return ["No other kernel spills or uses scratch memory."]
    out = ["Others that spill or use scratch memory:", ""]
    return out + [
        f"- {what}: " + ", ".join(f"{n} {column(v, n)}" for n in ("registers", "spilled", "scratch")) for what, v in bad
    ]


def report(results: list[Result]) -> str:
    driver = next(r for r in results if not r.refused).properties["driver_info"]
    out = [
        "# What the compilers of chips make of the kernels",
        "",
        f"{driver}, on stand-ins for the hardware; written by `python tools/chips/chip_statistics.py`. Nothing ran:",
        "speeds are unknown and results unchecked. Registers are per invocation (vector registers with AMD, of 16 bits",
        "with Apple, of four times 32 bits with Adreno), shared memory and scratch in bytes. Spilled means to memory,",
        "with AMD of vector registers; a scalar register spills to a lane of a vector register. Adreno's driver tells",
        "stores to private memory instead. Occupancy is in the driver's terms: subgroups of a SIMD (AMD), of a core",
        "(Adreno), of a multiprocessor (NVK), invocations of a core (Apple).",
        "",
        f'"{STATED}": kernels as planned where the probe of matrix layouts gives the driver\'s own order of elements,',
        f'stated by hand in `matrix_probes.py`; "{OTHER}": where it gives one that kernels do not follow (RDNA4\'s own',
        f'with subgroups of 64 is such a one); "{NO_ANSWER}": where it gives nonsense, as on these devices.',
        "",
        *summary(results),
    ]
    for r in (r for r in results if not r.refused):
        out += ["", f"## {r.chip} ({CHIPS[r.chip]}, {r.properties['name'].strip()})", ""]
        if r.failures:
            out += ["Failed:", "", *(f"- {what}: {why}" for what, why in r.failures), ""]
        features = ("bfloat16", "float64", "float32_atomic_add", "cooperative_matrix", "cooperative_matrix2")
        features = [feature for feature in features if not r.properties[feature]]
        lacking = f"{len(r.lacking)} variants need what this driver lacks ({', '.join(features)})."
        out += [lacking if r.lacking else "Every variant of the table was built.", *others(r), ""]
        out += main_kernels(r)
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    parser.add_argument("--drivers", type=Path, default=ROOT / "build/modern-lavapipe", help="where Mesa is fetched to")
    parser.add_argument("--chips", nargs="+", choices=list(CHIPS))
    parser.add_argument("--jobs", type=int, default=2, help="chips at a time")
    parser.add_argument("--smoke", action="store_true", help="a handful of operators on three chips, no report")
    parser.add_argument("--every", action="store_true", help="with --smoke: all chips, and what passed before, too")
    parser.add_argument("--child", choices=["operators", "rows"], help=argparse.SUPPRESS)
    parser.add_argument("--tier", default=NO_ANSWER, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        skip = set(sys.stdin.read().split("\n")) if options.child == "rows" else set()
        child(options.child, options.chips[0], options.tier, options.start, options.smoke, skip)
    folder = options.drivers.resolve()
    fetched = subprocess.run([ROOT / "tools/chip_compilers.sh", folder], stdout=subprocess.PIPE, text=True)
    if fetched.returncode != 0:
        return 77  # nothing was tried
    chips = options.chips or (SMOKE if options.smoke and not options.every else list(CHIPS))
    missing = set(chips) - set(fetched.stdout.split())
    if missing:
        sys.exit(f"the fetched Mesa has no driver for {', '.join(sorted(missing))}")
    passed, stamp = folder / "smoke-passed.txt", f"{revision()}\n{' '.join(chips)}\n{compilers(folder)}\n"
    if options.smoke and not options.every and passed.exists() and passed.read_text() == stamp:
        print("as in the last run, which passed: the same kernels, planners and compilers")
        return 0
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda chip: measure(chip, folder, options), chips))
    if options.out:
        options.out.write_text(report(results))
    failed = any(r.breaks_the_aim() for r in results)
    if options.smoke and not failed:
        passed.write_text(stamp)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
