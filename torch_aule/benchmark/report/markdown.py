"""Tables of one record: this device beside its baselines, and its targets."""

from __future__ import annotations

import statistics

from torch_aule.benchmark.report import anchors
from torch_aule.benchmark.report.record import Record, Result

BASELINES = {"cuda": "CUDA", "cudnn": "cuDNN", "cpu": "CPU", "fa2": "flash_attn", "xformers": "xFormers",
             "composed": "composed"}
TARGETS = {
    "cuda": "{:g} x CUDA's speed", "tflops": "{:g} TFLOPS", "copy": "{:.0%} of x+1",
    "twin": "{:.0%} of the nearest above", "cpu": "at most {:g} x the CPU's time", "us": "at most {:g} us",
    "s": "at most {:g} s",
}  # fmt: skip


def rate(result: Result | None, with_unit: bool) -> str:
    if result is None or result.rate is None:
        return ""
    number = f"{result.rate:.0f}" if result.rate >= 100 else f"{result.rate:.3g}"
    return f"{number} {result.rate_unit}" if with_unit else number


def time(result: Result | None) -> str:
    if result is None:
        return ""
    value = result.median if result.median is not None else result.min
    return f"{value:.4g}" if value is not None else ""


def reached(record: Record) -> str:
    verdict = record.target
    if verdict is None or verdict.reached is None:
        return ""
    return f"{verdict.reached:.0%}" if verdict.of in ("copy", "twin") else f"{verdict.reached:.3g}"


def wanted(record: Record) -> str:
    return TARGETS[record.target.of].format(record.target.bound) if record.target else ""


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def failure(record: Record) -> str:
    return "failed: " + record.errors.get("aule", "not measured").replace("|", "/")[:80]


def timed_table(group: str, records: list[Record]) -> list[str]:
    """One group whose cases are timed; times in the unit of the group, rates at the median."""
    results = [result for record in records for result in record.results.values()]
    unit = next((result.unit for result in results), "ms")
    rates = list(dict.fromkeys(result.rate_unit for result in results if result.rate_unit))
    mixed = len(rates) > 1
    names = [name for name in BASELINES if any(name in r.results for r in records)]
    judged = any(r.target for r in records)
    columns = [group, "sizes", "dtype", f"aule, {unit}"] + ([rates[0] if not mixed else "rate"] if rates else [])
    for name in names:
        columns += [f"{BASELINES[name]}, {unit}"] + ([rates[0] if not mixed else "rate"] if rates else [])
    columns += [f"speed / {BASELINES[name]}" for name in names] + (["target", "reached", "met"] if judged else [])
    out = [row(columns), "|---|---|---|" + "---:|" * (len(columns) - 3 - 3 * judged) + "---|---:|---|" * judged]
    for record in records:
        got = record.results.get("aule")
        cells = [record.case, record.shapes, record.dtype, time(got) or failure(record)]
        cells += [rate(got, mixed)] if rates else []
        for name in names:
            theirs = record.results.get(name)
            cells += [time(theirs)] + ([rate(theirs, mixed)] if rates else [])
        speeds = [record.speed(name) for name in names]
        cells += [f"{speed:.2f}" if speed else "" for speed in speeds]
        if judged:
            met = record.target.met if record.target else None
            cells += [wanted(record), reached(record), {True: "yes", False: "**no**", None: ""}[met]]
        out.append(row(cells))
    return out


def accuracy_table(records: list[Record]) -> list[str]:
    names = ["aule", *(name for name in BASELINES if any(name in r.results for r in records))]
    columns = ["error against float64", "sizes", "dtype"]
    for name in names:
        columns += [f"{BASELINES.get(name, name)}, {what}" for what in ("forward", "gradients")]
    out = [row(columns), "|---|---|---|" + "---:|" * (len(columns) - 3)]
    for record in records:
        cells = [record.case, record.shapes, record.dtype]
        for name in names:
            values = record.results[name].values if name in record.results else {}
            cells += [f"{values[what]:g}" if what in values else "" for what in ("forward", "gradients")]
        out.append(row(cells))
    return out


def memory_lines(records: list[Record]) -> list[str]:
    out = []
    for record in records:
        if "aule" not in record.results:
            out.append(f"- {record.case}, {record.shapes}: {failure(record)}")
            continue
        held = record.results["aule"].values
        tenth, last = (held[when]["reserved"] >> 10 for when in ("after_step_10", "after_last_step"))
        out.append(f"- {record.case}, {record.shapes}: {tenth} KiB reserved after step 10, {last} after the last")
    return out


def targets_lines(records: list[Record]) -> list[str]:
    """The number of targets that are met, and by how much the others miss."""
    judged = [r for r in records if r.target and r.target.met is not None]
    missed = [r for r in judged if not r.target.met]
    out = [f"{len(judged) - len(missed)} of {len(judged)} targets are met."] if judged else []
    return out + [f"- {r.name}: {reached(r) or 'not measured'}, target {wanted(r)}" for r in missed]


def mean_lines(records: list[Record]) -> list[str]:
    """Speed beside CUDA of the layers of each name and dtype, as geometric means."""
    speeds: dict[tuple[str, str], list[float]] = {}
    for record in records:
        speed = record.speed("cuda") if record.group == "layers" else None
        if speed:
            speeds.setdefault((record.case, record.dtype), []).append(speed)
    out = [
        f"- {case} {dtype}: {statistics.geometric_mean(found):.2f} of {len(found)}"
        for (case, dtype), found in speeds.items()
        if len(found) > 1
    ]
    return ["", "Layers' speed / CUDA, geometric means:", *out] if out else []


def heavy_lines(records: list[Record]) -> list[str]:
    out = []
    for record in records:
        values = record.results["aule"].values if "aule" in record.results else {}
        if values.get("needed_mib") and values["peak_mib"] > 1.05 * values["needed_mib"] + 1:
            out.append(f"- {record.name}: {values['peak_mib']} MiB for {values['needed_mib']}")
    return ["", "Attention that takes more memory than its outputs and log-sum-exp:", *out] if out else []


def kernel_lines(records: list[Record]) -> list[str]:
    """Of models and factorizations: how far outputs are apart, and the dearest kernels with their share of the time."""
    out = []
    for record in records:
        ours = record.results.get("aule")
        if ours is None or "kernels" not in ours.values:
            continue
        busy = ours.values["device_ms"]
        words = [f"{name} {ms / busy:.0%} ({count})" for name, ms, count in ours.values["kernels"]] if busy else []
        where = f"{busy:.3g} of {time(ours)} {ours.unit} on the device"
        line = f"- {record.case} {record.shapes}: {where}; {', '.join(words)}"
        apart = [f"outputs {result.values['difference']:.1g} from {BASELINES[name]}'s"
                 for name, result in record.results.items() if "difference" in result.values]  # fmt: skip
        out.append("; ".join([line, *apart]))
    return ["", "Dearest kernels (calls):", *out] if out else []


def heading(records: list[Record]) -> str:
    about = records[0].run
    rest = (
        f"{about.rest_s:g} s of rest before each sample of attention and products" if about.rest_s is not None else ""
    )
    parts = [about.device, about.driver, about.host, about.torch and f"torch {about.torch}",
             about.revision and f"revision {about.revision}", about.date, rest]  # fmt: skip
    return "; ".join(filter(None, parts))


def markdown(records: list[Record]) -> str:
    """Group by group, with the targets; then how many targets are met and by how much the others miss."""
    if not records:
        return ""
    out = [heading(records), ""]
    for group in dict.fromkeys(record.group for record in records):
        mine = [record for record in records if record.group == group]
        tables = {"accuracy": accuracy_table, "memory": memory_lines}
        out += [*(tables[group](mine) if group in tables else timed_table(group, mine)), ""]
    notes = dict.fromkeys(f"- {record.name}: {record.note}" for record in records if record.note)
    return "\n".join([*out, *notes, *targets_lines(records), *mean_lines(records), *heavy_lines(records),
                      *anchors.lines(records), *kernel_lines(records)]).rstrip()
