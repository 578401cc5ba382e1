"""Errors have types of their own, whichever way they reach Python, and are what programs caught before."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_aule
from helpers import check_program, without
from torch_aule import _C, errors
from torch_aule.attention import flash_attention

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/use/aule_attention.md").read_text()
HEADER = (ROOT / "torch_aule/include/aule.h").read_text()
NOWHERE = {"VK_DRIVER_FILES": "/nowhere.json", "VK_ICD_FILENAMES": "/nowhere.json"}

# In the order of FailureKind, csrc/core/failure.h.
KINDS = ("VulkanInitError", "NoComputeQueueError", "OutOfMemoryError", "ShaderCompileError", "DeviceLostError")


def test_codes_are_those_of_the_header_and_of_the_page():
    header = {name: int(code) for name, code in re.findall(r"#define AULE_ERROR_(\w+) \((-\d+)\)", HEADER)}
    rows = re.findall(r"^\| `(\w+Error)` \| ([\w.]+) \| `AULE_ERROR_(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(name for name, *_ in rows) == errors.__all__ and len(header) == len(rows)
    for name, base, code in rows:
        error = getattr(torch_aule, name)
        assert error.code == header[code], name
        assert base in {f"{t.__module__}.{t.__name__}".removeprefix("builtins.").removeprefix("torch_aule.errors.")
                        for t in error.__mro__[1:]}, name  # fmt: skip
        assert issubclass(error, errors.AuleError) and issubclass(error, RuntimeError)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_failures_of_the_device_layer_have_their_type(device, kind):
    with pytest.raises(getattr(errors, KINDS[kind]), match="^the text$") as caught:
        _C.raise_failure(kind, "the text")
    assert type(caught.value).__name__ == KINDS[kind]


def test_an_index_stays_an_index_error(device):
    with pytest.raises(IndexError, match="the text"):
        _C.raise_failure(len(KINDS), "the text")


def test_a_missing_feature_is_not_implemented(device):
    """So that the operator falls back to the CPU."""
    with pytest.raises(NotImplementedError, match="the text"):
        _C.raise_failure(len(KINDS) + 1, "the text")


def huge():
    return torch.empty(1 << 50, dtype=torch.uint8, device="aule")


def host():
    return torch.empty(1 << 46, dtype=torch.uint8, pin_memory=True)


@pytest.mark.parametrize("allocate", [huge, host])
@pytest.mark.parametrize("kind", [errors.OutOfMemoryError, torch.OutOfMemoryError, RuntimeError, errors.AuleError])
def test_out_of_memory(device, allocate, kind):
    if allocate is host and torch.cuda.is_available():
        pytest.skip("CUDA pins memory where it is there")
    with pytest.raises(kind, match="allocate") as caught:
        allocate()
    assert isinstance(caught.value, errors.OutOfMemoryError)
    assert torch.ones(3, device=device).sum().item() == 3  # and the device goes on


def test_out_of_memory_in_a_backward_pass(device):
    """The error is made on a thread of PyTorch, and raised on this one."""
    x = torch.randn(1 << 23, device=device, requires_grad=True)
    y = (x * x).exp().sum()
    torch.aule.empty_cache()
    _C.inject_allocation_failures(1000, 2 << 20)
    try:
        with pytest.raises(errors.OutOfMemoryError):
            y.backward()
    finally:
        _C.inject_allocation_failures(0, 0)


def test_shapes_are_also_value_errors(device):
    q, k = torch.randn(1, 2, 4, 8, device=device), torch.randn(1, 3, 4, 8, device=device)
    for kind in (errors.InvalidShapeError, ValueError, RuntimeError):
        with pytest.raises(kind, match="flash_attention: expected a number of k heads that divides the 2 of q"):
            flash_attention(q, k, k)
    with pytest.raises(errors.InvalidShapeError, match="expected k of head size 8"):
        flash_attention(q, q[..., :4], q)


def test_shaders_that_do_not_compile(device):
    assert issubclass(torch_aule.ShaderCompileError, errors.AuleError)
    with pytest.raises(torch_aule.ShaderCompileError):
        torch_aule.load_spirv(b"\0" * 64)


def test_without_a_device():
    check_program("no_device_errors", **NOWHERE)


@pytest.fixture(scope="module")
def faulty_loader(tmp_path_factory):
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or shutil.which(compiler[0]) is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("loader") / "libfaulty.so"
    command = [
        *compiler,
        "-shared",
        "-fPIC",
        "-Wall",
        str(ROOT / "test/cpp/faulty_loader.c"),
        "-o",
        str(library),
        "-ldl",
    ]
    subprocess.run(command, check=True, timeout=600)
    return library


@pytest.mark.parametrize("fault", ["queues", "pipelines", "memory"])
def test_faults_of_a_driver(device, faulty_loader, fault):
    check_program(
        "faulty_loader_errors",
        TORCH_AULE_VULKAN_LIBRARY=str(faulty_loader),
        AULE_TEST_FAULT=fault,
        **without("pipeline_cache"),
    )


def test_a_lost_device():
    check_program("faults_lost_device_errors")
