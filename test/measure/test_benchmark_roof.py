"""What a device can reach, measured and kept: torch_aule/measure/roof.py."""

import json

import pytest
import torch

from torch_aule import _C
from torch_aule.benchmark import command
from torch_aule.measure import roof


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(_C, "cache_directory", lambda: str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def found(device, folder):
    return roof.measure(copy_bytes=1 << 22, largest=256)


def test_measured_and_kept(found, folder):
    assert found.bandwidth > 1e6 and found.rates["float32"] > 1e6
    assert set(found.rates) <= set(roof.DTYPES) and found.device == torch.aule.get_device_name()
    (kept,) = folder.glob("roof-*.json")
    assert kept.stat().st_mode & 0o777 & 0o077 == 0 or folder.stat().st_mode & 0o077 == 0
    assert roof.load() == found
    assert "GB/s" in found.text() and f"{found.rates['float32'] / 1e12:.3f}" in found.text()


def test_of_another_driver_nothing_is_known(found, monkeypatch):
    monkeypatch.setattr(roof, "_names", lambda index: (found.device, "another driver 1.0"))
    assert roof.load() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"device": 1}', "damaged"])
def test_a_damaged_file_counts_as_none(found, folder, text):
    (kept,) = folder.glob("roof-*.json")
    kept.write_text(text)
    assert roof.load() is None
    damaged = {**vars(found), "bandwidth": 0}
    kept.write_text(json.dumps(damaged))
    assert roof.load() is None


def test_nothing_is_kept_without_a_folder(device, monkeypatch):
    monkeypatch.setattr(_C, "cache_directory", lambda: "")
    assert roof.measure(copy_bytes=1 << 20, largest=64).bandwidth > 0
    assert roof.load() is None


def test_least_seconds():
    one = roof.Roof("d", "v", bandwidth=100.0, rates={"float16": 1000.0}, seconds=0.0)
    assert one.least_seconds(50) == 0.5
    assert one.least_seconds(50, 2000, "float16") == 2.0
    assert one.least_seconds(500, 2000, "float16") == 5.0
    assert one.least_seconds(50, 2000, "float32") == 0.5  # not measured


def test_command(device, folder, monkeypatch, capsys):
    monkeypatch.setattr(roof, "COPY_BYTES", {False: 1 << 20, True: 1 << 20})
    monkeypatch.setattr(roof, "ENOUGH_S", 0.0)  # the first product is enough
    assert command.main(["roof"]) == 0
    assert capsys.readouterr().out.strip() == roof.load().text()


def test_errors(device):
    with pytest.raises(RuntimeError, match="invalid device"):
        roof.measure(99)
    with pytest.raises(RuntimeError, match="invalid device"):
        roof.load("aule:99")
