"""Injected faults: each gives a clear Python error, and whatever can go on goes on."""

import gc
import os
import sys

import pytest
import torch

from helpers import check_program, check_python, run_program, run_python, without
from torch_aule import _C

pytestmark = pytest.mark.validated

WORK = "x = torch.arange(1000.0, device='aule'); y = (x.clone() * 2).sum(); assert y.item() == 999000.0\n"
HEAD = "import torch, torch_aule\nfrom torch_aule import _C\n"


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_cached_segments(device):
    torch.ones(1, device=device).item()  # statistics are empty before first use
    gc.collect()
    torch.aule.synchronize()
    torch.aule.empty_cache()
    yield
    _C.inject_allocation_failures(0, 0)


def test_out_of_memory_says_numbers_and_the_process_goes_on(no_cached_segments, device):
    ooms = torch.aule.memory_stats()["num_ooms"]
    allocated = torch.aule.memory_allocated()
    _C.inject_allocation_failures(10, 2 << 20)
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(64 << 20, dtype=torch.uint8, device=device)
    _C.inject_allocation_failures(0, 0)
    text = str(error.value)
    assert "64.00 MiB" in text or "64 MiB" in text or str(64 << 20) in text, text
    assert "aule" in text and any(c.isdigit() for c in text), text
    assert issubclass(torch.aule.OutOfMemoryError, RuntimeError)
    assert torch.aule.memory_allocated() == allocated
    assert torch.aule.memory_stats()["num_ooms"] == ooms + 1
    x = torch.ones(4 << 20, device=device)
    assert x.sum().item() == 4 << 20


def test_one_failure_is_retried_after_releasing_the_cache(no_cached_segments, device):
    keep = torch.empty(24 << 20, dtype=torch.uint8, device=device)
    del keep  # its segment stays cached, too small for what follows
    retries = torch.aule.memory_stats()["num_alloc_retries"]
    reserved = torch.aule.memory_reserved()
    _C.inject_allocation_failures(1, 2 << 20)
    x = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    assert torch.aule.memory_stats()["num_alloc_retries"] == retries + 1
    assert torch.aule.memory_reserved() < reserved + (64 << 20) + (1 << 20), "the cached segment was not released"
    x.fill_(3)
    assert x[-1].item() == 3


def test_more_than_the_device_has(device):
    total = torch.aule.get_device_properties().total_memory
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(total * 2, dtype=torch.uint8, device=device)
    with pytest.raises((torch.OutOfMemoryError, RuntimeError)):
        torch.empty(1 << 62, dtype=torch.uint8, device=device)
    assert torch.ones(3, device=device).sum().item() == 3


def test_staging_memory_runs_out():
    """The stream's own chunks, not a tensor: in a fresh process, where no chunk is kept from earlier."""
    check_program("faults_staging")


def test_failure_inside_backward(no_cached_segments, device):
    x = torch.randn(1 << 22, device=device, requires_grad=True)
    y = (x * 2).sum()
    torch.aule.synchronize()
    torch.aule.empty_cache()
    _C.inject_allocation_failures(100, 2 << 20)  # tensors, not the stream's own chunks of 1 MiB
    with pytest.raises(torch.OutOfMemoryError):
        y.backward()
    _C.inject_allocation_failures(0, 0)
    (x * 2).sum().backward()
    assert x.grad[0].item() == 2


# --- the device is lost -------------------------------------------------------------------------------------------


def test_lost_device():
    text = check_program("faults_lost_device")
    assert "lost" in text.lower()


# --- loader and devices -------------------------------------------------------------------------------------------


def test_missing_loader():
    text = check_program("faults_no_loader", TORCH_AULE_VULKAN_LIBRARY="/nonexistent/libvulkan.so.1")
    assert "/nonexistent/libvulkan.so.1" in text and "libvulkan1" in text


def test_no_driver():
    code = "import torch, torch_aule\nassert not torch.aule.is_available()\nprint(torch.aule.unavailable_reason())\n"
    text = check_python(
        code, VK_ICD_FILENAMES="/nonexistent.json", VK_DRIVER_FILES="/nonexistent.json", VK_LOADER_DRIVERS_DISABLE="*"
    )
    assert text.strip()


def test_unknown_visible_device():
    code = "import torch, torch_aule\nassert torch.aule.device_count() == 0\nprint(torch.aule.unavailable_reason())\n"
    text = check_python(code, TORCH_AULE_VISIBLE_DEVICES="17")
    assert "TORCH_AULE_VISIBLE_DEVICES" in text


# --- the pipeline cache -------------------------------------------------------------------------------------------


def cache_files(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


@pytest.mark.parametrize("damage", ["truncated", "flipped bits", "empty", "garbage"])
def test_damaged_pipeline_cache(device, tmp_path, damage):
    check_python(HEAD + WORK, TORCH_AULE_CACHE_DIR=str(tmp_path))
    (file,) = cache_files(tmp_path)
    good = file.read_bytes()
    assert len(good) > 40
    middle = len(good) // 2
    file.write_bytes({
        "truncated": good[:middle],
        "flipped bits": good[:middle] + bytes([good[middle] ^ 0xFF]) + good[middle + 1 :],
        "empty": b"",
        "garbage": b"not a cache " * 100,
    }[damage])  # fmt: skip
    check_python(HEAD + WORK, TORCH_AULE_CACHE_DIR=str(tmp_path))
    (file,) = cache_files(tmp_path)
    assert len(file.read_bytes()) > 40, "the damaged file was not replaced"
    assert file.read_bytes()[:8] == good[:8]


def test_cache_folder_that_cannot_be_written(device, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    done = run_python(HEAD + WORK, TORCH_AULE_CACHE_DIR=str(blocker / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pipeline cache") <= 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_full_disk_for_the_cache(device, tmp_path):
    done = run_program("faults_full_disk", TORCH_AULE_CACHE_DIR=str(tmp_path))
    # lavapipe keeps device memory in a file of its own on some systems; then the device itself cannot work
    if done.returncode != 0 and "memory" in done.stderr:
        pytest.skip("this driver keeps device memory in files")
    assert done.returncode == 0, done.stderr
    assert all(p.stat().st_size == 0 or p.suffix != ".bin" for p in cache_files(tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_cache_is_private(device, tmp_path):
    folder = tmp_path / "cache"
    check_python(HEAD + WORK, TORCH_AULE_CACHE_DIR=str(folder))
    assert folder.stat().st_mode & 0o077 == 0
    os.chmod(tmp_path, 0o755)
    check_python(HEAD + WORK, TORCH_AULE_CACHE_DIR=str(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o755, "a folder that was there keeps its permissions"


# --- bad values found by kernels ----------------------------------------------------------------------------------


def test_index_error_is_raised_once_and_the_device_goes_on(device):
    table = torch.randn(5, 3, device=device)
    torch.nn.functional.embedding(torch.tensor([0, 7], device=device), table)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        torch.aule.synchronize()
    torch.aule.synchronize()
    assert torch.nn.functional.embedding(torch.tensor([1], device=device), table).shape == (1, 3)
    torch.aule.synchronize()


@pytest.mark.parametrize("wait", ["accelerator", "stream", "event", "item", "cpu", "empty_cache"])
def test_index_error_wherever_it_surfaces(device, wait):
    table, event = torch.randn(5, 3, device=device), torch.Event(device=device)
    torch.nn.functional.embedding(torch.tensor([0, 7], device=device), table)
    event.record()
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        {
            "accelerator": torch.accelerator.synchronize,
            "stream": torch.accelerator.current_stream().synchronize,
            "event": event.synchronize,
            "item": table[0, 0].item,
            "cpu": table.cpu,
            "empty_cache": torch.aule.empty_cache,
        }[wait]()
    torch.aule.synchronize()


def test_a_reported_error_does_not_cut_waiting_short(device):
    sides = [torch.Stream(device=device) for _ in range(3)]
    table = torch.randn(5, 3, device=device)
    torch.nn.functional.embedding(torch.tensor([9], device=device), table)
    x = torch.ones(1 << 20, device=device)
    for side in sides:
        with torch.aule.stream(side):
            for _ in range(20):
                x = x * 1.0
    with pytest.raises(IndexError):
        torch.aule.synchronize()
    assert all(side.query() for side in sides)


def test_capability_switches():
    code = HEAD + WORK + "assert not torch.aule.get_device_properties().float64\n"
    check_python(code, **without("float64"))
