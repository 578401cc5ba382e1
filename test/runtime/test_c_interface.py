"""The C interface: from a C program in which no interpreter runs, and through ctypes."""

import ctypes
import ctypes.util
import os
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

import torch_aule
from helpers import ROOT, relative_error
from torch_aule import _C

COMPILER = shlex.split(os.environ.get("CC", "cc"))
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
TORCH = Path(torch.__file__).parent / "lib"
pytestmark = pytest.mark.validated


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The C program, linked as docs/use/aule_attention.md says."""
    if sys.platform != "linux" or shutil.which(COMPILER[0]) is None:
        pytest.skip("no C compiler")
    library = ctypes.util.find_library(PYTHON)
    if library is None and not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip(f"there is no shared library of {PYTHON}")
    target = tmp_path_factory.mktemp("c_interface") / "program"
    search = [str(TORCH), *filter(None, [sysconfig.get_config_var("LIBDIR")])]
    command = [
        *COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", str(ROOT / "test/cpp/c_interface.c"),
        f"-I{torch_aule.get_include()}", _C.__file__, *(f"-L{folder}" for folder in search), "-Wl,--no-as-needed",
        "-ltorch_python", "-ltorch_cpu", "-lc10", f"-l:{library}" if library else f"-l{PYTHON}",
        "-Wl,--disable-new-dtags",  # the search path is also that of libraries that libraries need
        *(f"-Wl,-rpath,{folder}" for folder in search), "-o", str(target),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return target


def reference(q, k, v, causal, scale):
    q, k, v = (t.double() for t in (q, k, v))
    scores = q @ k.transpose(-1, -2) * (scale or q.size(-1) ** -0.5)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


def run(program, tmp_path, **environment):
    return subprocess.run(
        [str(program), str(tmp_path / "in"), str(tmp_path / "out")],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


SIZES = [(2, 3, 37, 29, 24, 1, 0.0), (1, 2, 5, 70, 65, 0, 0.3), (1, 1, 1, 1, 1, 0, 0.0), (1, 1, 300, 33, 9, 1, 0.0)]


@pytest.mark.parametrize("batch, heads, seq_q, seq_kv, dim, causal, scale", SIZES)
def test_a_program_without_python(device, program, tmp_path, batch, heads, seq_q, seq_kv, dim, causal, scale):
    q = torch.randn(batch, heads, seq_q, dim)
    k, v = (torch.randn(batch, heads, seq_kv, dim) for _ in range(2))
    head = struct.pack("=6qf", batch, heads, seq_q, seq_kv, dim, causal, scale)
    (tmp_path / "in").write_bytes(head + b"".join(t.numpy().tobytes() for t in (q, k, v)))
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr
    out = torch.frombuffer(bytearray((tmp_path / "out").read_bytes()), dtype=torch.float32).view(q.shape)
    assert relative_error(out, reference(q, k, v, causal, scale)) < 3e-5


def test_a_program_without_a_device(program, tmp_path):
    done = run(program, tmp_path, VK_DRIVER_FILES="/nowhere.json", VK_ICD_FILENAMES="/nowhere.json")
    assert done.returncode == 1 and "aule_init() == AULE_SUCCESS" in done.stderr and "driver" in done.stderr


@pytest.fixture
def library(device):
    """The extension of this process, as ctypes sees it; calls run without the interpreter's lock."""
    found = ctypes.CDLL(_C.__file__)
    found.aule_get_error.restype = ctypes.c_char_p
    floats, integer = ctypes.POINTER(ctypes.c_float), ctypes.c_int64
    found.aule_flash_attention_forward.argtypes = [*[floats] * 4, *[integer] * 5, ctypes.c_int32, ctypes.c_float]
    found.aule_test_multiply.argtypes = [floats, floats, integer]
    return found


def pointer(tensor):
    return ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_float))


def test_through_ctypes(library):
    q, k, v, out = (torch.randn(2, 2, 20, 16) for _ in range(4))
    assert library.aule_init() == 0
    assert library.aule_flash_attention_forward(*map(pointer, (q, k, v, out)), 2, 2, 20, 20, 16, 1, 0) == 0
    assert library.aule_get_error() == b""
    assert relative_error(out, reference(q, k, v, True, 0)) < 3e-5
    library.aule_shutdown()
    assert torch.ones(3, device="aule").sum().item() == 3


def test_out_of_memory_through_ctypes(library):
    values = torch.zeros(1 << 22)
    torch.aule.empty_cache()
    _C.inject_allocation_failures(1000, 2 << 20)
    try:
        code = library.aule_test_multiply(pointer(values), pointer(values), values.numel())
    finally:
        _C.inject_allocation_failures(0, 0)
    assert code == torch_aule.OutOfMemoryError.code, library.aule_get_error()
    assert b"allocate" in library.aule_get_error()


def test_the_header_is_shipped():
    folder = Path(torch_aule.get_include())
    assert (folder / "aule.h").is_file() and folder.parent == Path(torch_aule.__file__).parent
    assert 'torch_aule = ["include/*.h",' in (ROOT / "pyproject.toml").read_text()
