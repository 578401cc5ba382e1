"""Pictures of a kernel's table: torch_aule/benchmark/report/visualize.py, benchmarks/reference.py --draw."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from torch_aule.benchmark.report import figure, table, visualize

ROOT = Path(__file__).resolve().parents[2]


def row(x=64, provider="aule", mode="forward", metric="speed", gpu="G1", m=8, dtype="float32", **columns):
    about = {"kernel_name": "layer_norm", "metric_unit": "ms", "x_name": "H", "x_label": "hidden size"}
    samples = [random.uniform(1, 3) for _ in range(5)] if metric == "speed" else [x / 64]
    return table.Row.of_samples(samples, **{
        **about, "kernel_provider": provider, "kernel_operation_mode": mode, "metric_name": metric, "x_value": x,
        "extra_config": {"M": m, "dtype": dtype}, "gpu_name": gpu, **columns,
    })  # fmt: skip


ROWS = [row(x, provider, mode, metric) for x in (64, 65, 1024) for provider in ("aule", "mine", "speed_of_light")
        for mode in ("forward", "full") for metric in ("speed", "memory")
        if (provider, metric) != ("speed_of_light", "memory")]  # fmt: skip


def axes_of(monkeypatch, rows, path=None):
    """The picture's axes, kept from being closed."""
    plt = figure.pyplot()
    with monkeypatch.context() as patch:
        patch.setattr(plt, "close", lambda *_: None)
        visualize.draw(rows, path)
    (axis,) = plt.gcf().axes
    texts = [text.get_text() for text in plt.gcf().legends[0].get_texts()]
    plt.close("all")
    return axis, texts


def test_a_line_for_each_provider_with_its_percentiles(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    rows = visualize.selected(ROWS, "speed", "forward")
    axis, texts = axes_of(monkeypatch, rows, tmp_path / "plots" / "a.png")
    assert (tmp_path / "plots" / "a.png").read_bytes().startswith(b"\x89PNG")
    assert texts == ["torch_aule (Vulkan)", "mine", "speed of light: bytes / copy bandwidth"]
    bars = {bar.get_label(): bar for bar in axis.containers}
    mine = sorted((one for one in rows if one.kernel_provider == "mine"), key=lambda one: one.x_value)
    line, _, (segments,) = bars["mine"].lines
    assert list(line.get_ydata()) == [one.y_value_50 for one in mine]
    for one, segment in zip(mine, segments.get_segments()):
        (x, low), (_, high) = segment
        assert (x, low, high) == pytest.approx((one.x_value, one.y_value_20, one.y_value_80))
    (dashed,) = [line for line in axis.lines if line.get_linestyle() == "--"]
    assert dashed.get_label().startswith("speed of light")
    ticks = [tick.get_text() for tick in axis.get_xticklabels()]
    assert ticks == ["64", "1k"], "65 would be written over 64"
    assert axis.get_ylabel() == "time, ms" and axis.get_xlabel() == "hidden size, H"


def test_memory_has_no_dashed_line_and_no_bars(monkeypatch):
    pytest.importorskip("matplotlib")
    rows = visualize.selected([row(x, p, metric="memory", metric_unit="MiB") for x in (64, 128) for p in ("aule", "b")],
                              "memory", "forward")  # fmt: skip
    axis, _ = axes_of(monkeypatch, rows)
    assert axis.get_ylabel() == "memory, MiB" and not [x for x in axis.lines if x.get_linestyle() == "--"]
    assert not any(bar.has_yerr for bar in axis.containers) and axis.get_yscale() == "linear"
    axis, _ = axes_of(monkeypatch, [row(x, metric="memory") for x in (64, 1 << 14)])
    assert axis.get_yscale() == "log"


def test_one_configuration_and_device_is_chosen():
    rows = [*ROWS, row(m=4), row(m=4, dtype="bfloat16"), row(gpu="G2", m=4)]
    with pytest.raises(ValueError, match="--gpu-name: expected one of G1; G2"):
        visualize.selected(rows, "speed", "forward")
    with pytest.raises(ValueError, match="--extra-config-filter: expected one of M=8,dtype=float32; M=4,dtype=float"):
        visualize.selected(rows, "speed", "forward", gpu="G1")
    found = visualize.selected(rows, "speed", "forward", {"M": "4", "dtype": "bfloat16"}, "1")
    assert [one.extra_config for one in found] == [{"M": 4, "dtype": "bfloat16"}]
    assert {one.x_value for one in visualize.selected(ROWS, "speed", "full", {"H": "1024"})} == {1024}
    for arguments, fault in (
        (("speed", "sideways"), "the table has no speed of sideways"),
        (("time", "full"), "the table has no time of full"),
        (("speed", "full", {"Z": "1"}), "no Z; there are H, M, dtype"),
        (("speed", "full", {"M": "5"}), "nothing has that; there are M=8,dtype=float32"),
        (("speed", "full", {}, "G3"), "--gpu-name: no G3; there are G1"),
    ):
        with pytest.raises(ValueError, match=fault):
            visualize.selected(ROWS, *arguments)


def test_a_picture_is_replaced_only_when_asked(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table.update(tmp_path / "data" / "layer_norm.csv", ROWS)
    arguments = ["--kernel-name", "layer_norm", "--metric-name", "speed", "--kernel-operation-mode", "forward",
                 "--extra-config-filter", "M=8", "--folder", str(tmp_path)]  # fmt: skip
    assert visualize.main(arguments) == 0
    (path,) = (tmp_path / "plots").iterdir()
    assert path.name == "layer_norm_speed_forward_M8_dtypefloat32.png"
    assert capsys.readouterr().out == f"{path}\n"
    path.write_bytes(b"mine")
    assert visualize.main(arguments) == 0
    assert path.read_bytes() == b"mine" and capsys.readouterr().out == f"{path} is kept; --overwrite replaces it\n"
    assert visualize.main([*arguments, "--overwrite", "--display"]) == 0
    assert path.read_bytes() != b"mine"
    assert visualize.main(["--kernel-name", "layer_norm", "--folder", str(tmp_path)]) == 0
    assert len(list((tmp_path / "plots").iterdir())) == 4


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    folder = ["--folder", str(tmp_path)]
    with pytest.raises(SystemExit, match="there is no .*none.csv; benchmarks/reference.py makes it"):
        visualize.main(["--kernel-name", "none", *folder])
    table.update(tmp_path / "data" / "layer_norm.csv", ROWS)
    with pytest.raises(SystemExit, match="the table has no speed of backward"):
        visualize.main(["--kernel-name", "layer_norm", "--metric-name", "speed", "--kernel-operation-mode", "backward",
                        *folder])  # fmt: skip
    with pytest.raises(SystemExit) as refused:
        visualize.main(["--kernel-name", "layer_norm", "--extra-config-filter", "M", *folder])
    assert refused.value.code == 2
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"pip install torch_aule\[demo\]"):
        visualize.main(["--kernel-name", "layer_norm", *folder])
    assert not (tmp_path / "plots").exists()


def test_the_script_measures_and_draws(device, tmp_path):
    pytest.importorskip("matplotlib")
    command = [sys.executable, str(ROOT / "benchmarks/reference.py"), "softmax", "--small", "--sizes", "8,16",
               "--config", "M=3", "--iterations", "2", "--providers", "aule", "--folder", str(tmp_path),
               "--bandwidth", "2", "--modes", "forward,full", "--draw", "--filter", "M=3"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = table.read(tmp_path / "data" / "softmax.csv")
    assert {one.kernel_operation_mode for one in rows} == {"forward", "full"}
    (bound,) = [one for one in rows if one.kernel_provider == "speed_of_light" and one.x_value == 16
                and one.kernel_operation_mode == "forward"]  # fmt: skip
    assert bound.y_value_50 == pytest.approx(2 * 4 * 3 * 16 / 2e9 * 1e3, rel=1e-4)
    pictures = {path.name.removesuffix("_M3_dtypefloat32.png") for path in (tmp_path / "plots").iterdir()}
    assert pictures == {f"softmax_{metric}_{mode}" for metric in ("speed", "memory") for mode in ("forward", "full")}
