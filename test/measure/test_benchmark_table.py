"""The CSV table of measurements: torch_aule/benchmark/report/table.py."""

import json
import random
import re
import stat
from pathlib import Path

import pytest

from torch_aule.benchmark.report import table


def row(**columns):
    samples = [random.uniform(1, 9) for _ in range(7)]
    about = {"kernel_name": "layer_norm", "kernel_provider": "aule", "kernel_operation_mode": "full",
             "metric_name": "speed", "metric_unit": "ms", "x_name": "H", "x_label": "hidden size", "x_value": 1 << 20,
             "extra_config": {"M": 7, "dtype": "float32"}, "gpu_name": 'a "GPU", with a comma'}  # fmt: skip
    return table.Row.of_samples(samples, **{**about, **columns})


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "data" / "a.csv"
    rows = [row(), row(x_value=0.125), row(kernel_provider="cuda", extra_config={}), row(x_label="two\nlines")]
    assert table.update(path, rows) == []
    assert table.read(path) == rows
    header = path.read_text().splitlines()[0]
    assert header == (
        "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,"
        "x_value,y_value_50,y_value_20,y_value_80,extra_config,gpu_name,timestamp"
    )
    assert ",1048576," in path.read_text()
    assert [one.name for one in path.parent.iterdir()] == ["a.csv"]


def test_percentiles_interpolate():
    samples = list(range(11))
    random.shuffle(samples)
    others = {name: "" for name in table.COLUMNS if not name.startswith("y_")}
    found = table.Row.of_samples(samples, **others)
    assert (found.y_value_20, found.y_value_50, found.y_value_80) == (2, 5, 8)
    one = table.Row.of_samples([3.5], **others)
    assert one.y_value_20 == one.y_value_50 == one.y_value_80 == 3.5
    with pytest.raises(ValueError, match="expected one sample at least"):
        table.Row.of_samples([], **others)


def test_a_row_is_replaced_only_when_asked(tmp_path):
    path = tmp_path / "a.csv"
    first, second = row(), row(x_value=3)
    table.update(path, [first, second])
    again, new = row(), row(x_value=4)
    assert table.update(path, [again, new]) == [first]
    assert table.read(path) == [first, second, new]
    assert table.update(path, [again], overwrite=True) == []
    assert table.read(path) == [again, second, new]


@pytest.mark.parametrize(
    "change",
    [{"kernel_name": "softmax"}, {"kernel_provider": "cpu"}, {"kernel_operation_mode": "forward"},
     {"metric_name": "memory"}, {"metric_unit": "us"}, {"x_name": "M"}, {"x_label": "width"}, {"x_value": 5},
     {"extra_config": {"M": 8, "dtype": "float32"}}, {"gpu_name": "another"}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_the_key_has_every_column_but_values_and_time(change):
    assert row(**change).key != row().key
    assert row(timestamp="2001-01-01T00:00:00Z").key == row().key
    assert row(extra_config={"dtype": "float32", "M": 7}).key == row().key


def test_of_rows_with_one_key_the_last_counts(tmp_path):
    path = tmp_path / "a.csv"
    first, last = row(), row()
    assert table.update(path, [first, last]) == []
    assert table.read(path) == [last]


@pytest.mark.parametrize(
    "cells, fault",
    [(["a"], ":2: expected 14 columns, got 1"), (["x"] * 14, ":2: could not convert"),
     (["x"] * 7 + ["1"] * 4 + ["[]", "g", "t"], "expected a JSON object"),
     (["x"] * 7 + ["1"] * 4 + ["{", "g", "t"], ":2: ")],
)  # fmt: skip
def test_what_is_no_table_is_refused_with_its_line(tmp_path, cells, fault):
    path = tmp_path / "a.csv"
    path.write_text(",".join(table.COLUMNS) + "\n" + ",".join(cells) + "\n")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=fault):
        table.update(path, [row()])
    assert path.read_bytes() == before
    path.write_text("a,b\n")
    with pytest.raises(ValueError, match=":1: expected the columns kernel_name"):
        table.read(path)


def test_the_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    table.update(path, [row()])
    path.chmod(0o640)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(table.os, "replace", fail)
        with pytest.raises(OSError, match="no room"):
            table.update(path, [row(x_value=2)])
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["a.csv"]
    table.update(path, [row(x_value=2)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and len(table.read(path)) == 2


def test_extra_config_is_sorted_json():
    cell = row(extra_config={"b": 1, "a": "x"}).cells()[table.COLUMNS.index("extra_config")]
    assert cell == '{"a": "x", "b": 1}' and json.loads(cell) == {"a": "x", "b": 1}


def test_the_example_of_the_page_runs(device):
    page = Path(__file__).resolve().parents[2] / "docs/use/benchmarks.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(block, str(page), "exec"), {})
