"""Kernels compiled at run time on disk: the cache folder, what is kept there, and the headers of a package."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import check_program, needs_shader_compiler, run_program
from torch_aule.shader import spirv_cache
from user_shaders import AXPB

ROOT = Path(__file__).resolve().parents[2]
WITH_HEADERS = """
layout(local_size_x = 64) in;
struct Params { uint64_t x, y; uint n; };
#include <aule/common/params.glsl>
#include <aule/common/indexing.glsl>
#include <aule/common/dtype.glsl>
void main() {
  uint64_t i = linear_invocation();
  if (i < p.n) store_float(p.y, i, AULE_DT_F16, load_float(p.x, i, AULE_DT_BF16));
}
"""

needs_shader_compiler()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize("first", ["spirv", "pipelines"])
def test_the_cache_folder_is_private(tmp_path, first):
    """Whoever makes it, and the folders above it, under the umask of most systems."""
    folder = tmp_path / "new" / "cache"
    check_program("private_cache", first, TORCH_AULE_CACHE_DIR=str(folder))
    made = [folder.parent, folder, *(path for path in folder.rglob("*") if path.is_dir())]
    assert len(made) >= (2 if first == "pipelines" else 4)
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}, made


def test_spirv_is_kept_on_disk(tmp_path):
    def run(*options):
        return run_program("shader_cached", AXPB, *options, TORCH_AULE_CACHE_DIR=str(tmp_path))

    assert run().stdout.strip() == "[3.0, 3.0, 3.0, 3.0]"
    (file,) = (tmp_path / "spirv").glob("*/*.spv")
    good = file.read_bytes()
    assert run("cached").stdout.strip() == "[3.0, 3.0, 3.0, 3.0]"
    for damaged in (good[:-4], good[:100] + bytes([good[100] ^ 1]) + good[101:], b"", b"nothing"):
        file.write_bytes(damaged)
        assert spirv_cache.load(tmp_path, file.stem) is None
    assert run("cached").returncode != 0
    assert run().returncode == 0 and file.read_bytes() == good


def test_the_cache_on_disk_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(spirv_cache, "LIMIT_BYTES", 3000)
    keys = [f"{i:02x}" * 32 for i in range(6)]
    for i, key in enumerate(keys):
        monkeypatch.setattr(spirv_cache, "_untrimmed", {})
        spirv_cache.store(tmp_path, key, bytes([i]) * 1000)
        path = tmp_path / "spirv" / key[:2] / f"{key}.spv"
        os.utime(path, (1000 + i, 1000 + i))
    found = [spirv_cache.load(tmp_path, key) for key in keys]
    assert found[-1] == bytes([5]) * 1000 and found[0] is None
    assert sum(spirv is not None for spirv in found) in (2, 3)
    assert spirv_cache.load(None, keys[0]) is None
    oldest = min(i for i, spirv in enumerate(found) if spirv is not None)
    for i, key in enumerate(keys[oldest:]):
        path = tmp_path / "spirv" / key[:2] / f"{key}.spv"
        os.utime(path, (2000 + i, 2000 + i))
    assert spirv_cache.load(tmp_path, keys[oldest]) is not None  # used now, so it is no more the oldest
    monkeypatch.setattr(spirv_cache, "_untrimmed", {})
    spirv_cache.store(tmp_path, "ff" * 32, b"new " * 250)
    assert spirv_cache.load(tmp_path, keys[oldest]) is not None
    assert spirv_cache.load(tmp_path, keys[oldest + 1]) is None
    spirv_cache.store(tmp_path / "spirv" / "05" / (keys[5] + ".spv"), keys[0], b"1234")  # a file is no folder


def test_a_wheel_has_what_kernels_include(tmp_path):
    """Compiles a kernel with nothing but what `build_py` copies."""
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path), "build_py", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    folder = tmp_path / "torch_aule" / "glsl" / "include"
    assert {path.name for path in (folder / "common").iterdir()} == {
        path.name for path in (ROOT / "shaders" / "common").glob("*.glsl")
    }
    sources = [*folder.glob("**/*.*"), *(ROOT / "torch_aule" / "compile").glob("**/*.py")]
    named = {name for path in sources for name in re.findall(r'#\s*include "([^"{]+)"', path.read_text())}
    assert "inductor/prelude.glsl" in named and "pointwise/functions/math.glsl" in named
    assert not [name for name in named if not (folder / name).is_file()]
    assert int(check_program("shader_wheel", str(folder.parents[1]), WITH_HEADERS, fresh=True)) > 1000
