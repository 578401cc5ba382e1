"""A run as one JSON object or as rows of CSV: what it belongs to, and each result in the same units."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

from torch_aule.benchmark.report.record import Record, Result


def _of_result(record: Record, provider: str, result: Result) -> dict:
    seconds = result.seconds if result.median else None
    apart = [
        other.values["difference"] for other in record.results.values() if "difference" in other.values
    ] if provider == "aule" else [result.values.get("difference")]  # fmt: skip
    return {
        "time_us": seconds and seconds * 1e6,
        "tflops": seconds and record.flops and record.flops / seconds / 1e12,
        "gb_per_s": seconds and record.bytes and record.bytes / seconds / 1e9,
        "relative_error": max((a for a in apart if a is not None), default=None),
        "sol": result.values.get("sol"),
        "peak_mib": result.values.get("peak_mib"),
        "samples": result.count,
    }


def summary(records: list[Record]) -> dict:
    """`run`, and `results`: one for each case and provider. What is unknown is null; of rates, what a case counts."""
    results = []
    for record in records:
        for provider in (*record.results, *(name for name in record.errors if name not in record.results)):
            measured = record.results.get(provider)
            results.append({
                "group": record.group, "case": record.case, "shapes": record.shapes, "dtype": record.dtype,
                "provider": provider, **(_of_result(record, provider, measured) if measured else {}),
                "error": record.errors.get(provider),
            })  # fmt: skip
    return {"run": dataclasses.asdict(records[0].run) if records else {}, "results": results}


def as_json(records: list[Record]) -> str:
    """:func:`summary` as text."""
    return json.dumps(summary(records), indent=1)


def as_csv(records: list[Record]) -> str:
    """The results of :func:`summary`: a head, and a row for each case and provider. What is unknown is empty."""
    rows = summary(records)["results"]
    text = io.StringIO()
    lines = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    lines.writeheader()
    lines.writerows(rows)
    return text.getvalue().rstrip("\n")
