"""Printed baselines and the JSON report: torch_aule/benchmark/report/anchors.py, summary.py."""

import csv
import json
import random

import pytest

from torch_aule.benchmark import command
from torch_aule.benchmark.report import anchors, markdown, record
from torch_aule.benchmark.report.record import Record, Result, Run


def rated(group, case, shapes, dtype, tflops, **more):
    return Record(group, case, shapes, dtype, {"aule": Result.of_times([1.0], "ms", flops=tflops * 1e9, **more)})


def test_products_and_attention_are_printed_beside_what_is_known():
    speed = random.uniform(60, 90)
    records = [
        rated("gemm", "linear", "8192x8192 by 8192x8192", "float32", 31.5),
        rated("gemm", "linear", "8192x8192 by 8192x8192", "float16", 200),
        rated("attention", "sdpa_forward", "B1 H8/8 N2048 D64", "float16", speed),
        rated("attention", "sdpa_backward", "B1 H8/8 N2048 D64", "float16", 20, values={"sol": 0.25}),
        rated("attention", "sdpa_forward_causal", "B1 H8/8 N2048 D64", "float16", 1),
        rated("attention", "sdpa_forward", "B1 H8/8 N20480 D64", "float16", 1),
        rated("gemm", "linear", "4096x8192 by 8192x8192", "float32", 1),
        Record("attention", "sdpa_forward", "B1 H8/8 N8192 D64", "float16", errors={"aule": "lost"}),
    ]
    lines = anchors.lines(records)
    assert len(lines) == 2 + 3
    assert "31.5 TFLOPS" in lines[2]
    for known in ("18 (RTX 3090 Ti, float32)", "27.38 (RTX 3090 Ti, TF32, 68 % of its 40)", "59 (", "5.5 (", "156 ("):
        assert known in lines[2]
    kept = records[2].results["aule"].tflops  # a time is rounded, and 41.5 % are a hair's breadth from two numbers
    assert f"{kept / 200:.0%} of the fastest product here; aim 50: passed" in lines[3]
    assert "25% of the measured roof; aim 30: not passed" in lines[4]
    assert markdown.markdown(records).count("Beside rates of other GPUs, and aims:") == 1
    assert anchors.lines(records[4:7]) == []
    few = rated("gemm", "linear", "64x64 by 64x64", "float16", 200)
    assert "fastest" not in "".join(anchors.lines([records[2], few])), "too small to measure the matrix units"


def test_sizes_of_the_groups_are_known_too():
    found = anchors.beside(Record("gemm", "mm", "8192x8192x8192", "float32"))
    assert {anchor.tflops for anchor in found} == {18.0, 27.38, 59.0, 5.5, 156.0}


def test_the_json_report_has_each_result_in_the_same_units(tmp_path, capsys):
    ms = random.uniform(1, 2)
    one = Record("gemm", "linear", "2x3", "float32", flops=3e9, bytes=5e6, run=Run(device="d", driver="e"))
    one.results = {
        "aule": Result.of_times([ms], "ms", flops=3e9, values={"sol": 0.5, "peak_mib": 2.0}),
        "cpu": Result.of_times([ms * 1e3], "us", values={"difference": 1e-7}),
    }
    one.errors = {"cuda": "lost"}
    path = tmp_path / "a.jsonl"
    other = Record("memory", "loop", results={"aule": Result(values={"held": 1})})
    path.write_text(f"{one.line()}\n{other.line()}\n")
    assert command.main(["report", str(path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["run"]["device"] == "d" and found["run"]["driver"] == "e"
    ours, cpu, cuda, loop = found["results"]
    assert ours["time_us"] == pytest.approx(ms * 1e3, rel=1e-3) == cpu["time_us"]
    assert ours["tflops"] == pytest.approx(3 / ms, rel=1e-3) and ours["gb_per_s"] == pytest.approx(5 / ms, rel=1e-3)
    assert (ours["relative_error"], ours["sol"], ours["peak_mib"], ours["error"]) == (1e-7, 0.5, 2.0, None)
    assert (cpu["relative_error"], cpu["peak_mib"]) == (1e-7, None)
    assert cuda == {"group": "gemm", "case": "linear", "shapes": "2x3", "dtype": "float32", "provider": "cuda",
                    "error": "lost"}  # fmt: skip
    assert loop["time_us"] is None and loop["tflops"] is None
    assert command.main(["report", str(path), "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["provider"] for row in rows] == [one["provider"] for one in found["results"]]
    assert float(rows[0]["time_us"]) == ours["time_us"] and rows[2]["time_us"] == "" and rows[2]["error"] == "lost"


def test_a_measured_case_says_all_of_it(device, tmp_path):
    path = tmp_path / "a.jsonl"
    arguments = ["--gemm", "--sizes", "24", "--iterations", "2", "--quiet", "--small", "--providers", "aule,cpu"]
    assert command.main([*arguments, "--save", str(path)]) == 0
    (one,) = record.read(str(path))
    assert one.flops == 2 * 24**3 and one.bytes == 4 * 3 * 24**2
    assert one.results["aule"].values["peak_mib"] > 0 and "difference" in one.results["cpu"].values
