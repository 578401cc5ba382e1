"""Wheels of several torches: how they are put together, and which extension is chosen at import."""

import base64
import hashlib
import importlib.machinery
import importlib.util
import zipfile
from pathlib import Path

import pytest

from torch_aule import _register

ROOT = Path(__file__).resolve().parents[2]
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build_wheel(tmp_path, monkeypatch):
    module = tool("build_wheel")
    monkeypatch.setattr(module, "WORK", tmp_path / "work")
    monkeypatch.setattr(module, "strip", lambda library: None)  # these are no libraries
    return module


def row(name, text):
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(text)}"


def single(folder, minor, **changed):
    """A wheel of one torch, without what merging does not look at."""
    info = f"torch_aule-0.1.0+torch{minor}.dist-info"
    files = {
        "torch_aule/__init__.py": "",
        "torch_aule/kernels.bin": "SPIR-V",
        f"torch_aule/_C_{minor.replace('.', '')}{SUFFIX}": f"extension of {minor}",
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: torch_aule\nVersion: 0.1.0+torch{minor}\n"
        f"Requires-Dist: torch=={minor}.*\nRequires-Dist: numpy\n\nA text.\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: setuptools for {minor}\nRoot-Is-Purelib: false\n"
        "Tag: cp311-cp311-linux_x86_64\n",
        f"{info}/RECORD": "",
    } | changed
    path = folder / f"torch_aule-0.1.0+torch{minor}-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as file:
        rows = [row(name, text) for name, text in files.items() if not name.endswith("RECORD")]
        for name, text in files.items():
            file.writestr(name, "\n".join(rows) if name.endswith("RECORD") else text)
    return path


def test_wheels_of_one_torch_each_become_one(build_wheel, tmp_path):
    wheels = [single(tmp_path, minor) for minor in ("2.11", "2.13")]
    licence = tmp_path / "LICENSE"
    licence.write_text("may be copied")
    merged = build_wheel.merge(wheels, tmp_path / "out", [(licence, "torch_aule/lib/LICENSE")])
    assert merged.name == "torch_aule-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(merged) as file:
        names = file.namelist()
        assert {n for n in names if "/_C_" in n} == {f"torch_aule/_C_211{SUFFIX}", f"torch_aule/_C_213{SUFFIX}"}
        assert names.count("torch_aule/kernels.bin") == 1 and "torch_aule/lib/LICENSE" in names
        assert not any("+torch" in name for name in names)
        metadata = file.read("torch_aule-0.1.0.dist-info/METADATA").decode().splitlines()
        record = file.read("torch_aule-0.1.0.dist-info/RECORD").decode()
    assert "Version: 0.1.0" in metadata and "Requires-Dist: numpy" in metadata
    assert "Requires-Dist: torch>=2.11,<2.14,!=2.12.*" in metadata
    assert f"torch_aule/_C_213{SUFFIX},sha256=" in record
    assert tool("try_wheel").served_by(merged) == ["2.11", "2.13"]


def test_wheels_that_differ_in_more_are_refused(build_wheel, tmp_path):
    wheels = [single(tmp_path, "2.11"), single(tmp_path, "2.13", **{"torch_aule/kernels.bin": "other SPIR-V"})]
    with pytest.raises(SystemExit, match=r"kernels.bin of .*torch2.13.* differs"):
        build_wheel.merge(wheels, tmp_path / "out", [])


@pytest.mark.parametrize(
    "minors, expected",
    [
        (["2.13"], "torch>=2.13,<2.14"),
        (["2.15", "2.11"], "torch>=2.11,<2.16,!=2.12.*,!=2.13.*,!=2.14.*"),
        (["2.9", "2.10"], "torch>=2.9,<2.11"),
    ],
)
def test_the_range_of_torch_that_a_wheel_asks_for(build_wheel, minors, expected):
    assert build_wheel.torch_requirement(minors) == expected


def test_the_needs_of_pyproject():
    needs = tool("needs").needs_of("build", "test")
    assert "ninja" in needs and any(need.startswith("pytest>=") for need in needs)
    assert not any(need.startswith("torch") for need in needs)
    assert "import torch_aule" in tool("try_wheel").readme_program()


def test_the_extension_of_this_torch_is_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(_register, "FOLDER", tmp_path)
    for digits in ("211", "213", "215"):
        (tmp_path / f"_C_{digits}{SUFFIX}").touch()
    (tmp_path / "_C_214.of-another-python.pyd").touch()
    (tmp_path / f"_C_more{SUFFIX}").touch()
    assert sorted(_register._extensions()) == [(2, 11), (2, 13), (2, 15)]
    for found, digits in [("2.11.0", "211"), ("2.13.1+cpu", "213"), ("2.15.0a0+gitabc", "215")]:
        assert _register._extension_for(found) == tmp_path / f"_C_{digits}{SUFFIX}"
    words = r"serves torch 2.11, 2.13, 2.15, and found torch 2.16.0, which is newer .*torch==2.15\.\*"
    with pytest.raises(ImportError, match=words):
        _register._extension_for("2.16.0")
    with pytest.raises(ImportError, match=r"found torch 2.14.1, which is not one of them"):
        _register._extension_for("2.14.1")
    with pytest.raises(ImportError, match="newer than the newest"):
        _register._extension_for("3.0.0")

