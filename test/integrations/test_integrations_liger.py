"""Liger's operators choose for aule: on stand-ins for what is hooked in liger-kernel 0.8."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest
import torch

from torch_aule.integrations import liger
from torch_aule.integrations._registry import Registry

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="beside CUDA the package chooses it")

STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture
def stubs(tmp_path, monkeypatch, device):
    """The package on disk, and the registry of its hooks."""
    for name in [name for name in sys.modules if name.split(".")[0] == "liger_kernel"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "liger_kernel/ops").mkdir(parents=True)
    for name in ("__init__.py", "ops/__init__.py"):
        (tmp_path / "liger_kernel" / name).touch()
    shutil.copy(STAND_INS / "liger_utils.py", tmp_path / "liger_kernel/utils.py")
    shutil.copy(STAND_INS / "liger_norm.py", tmp_path / "liger_kernel/ops/rms_norm.py")
    (tmp_path / "liger_kernel/ops/dyt.py").write_text("def backward(x):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    told = [(hook, hook.state, hook.reason) for hook in liger.HOOKS]
    registry = Registry(liger.HOOKS)
    registry.start()
    yield registry
    registry.disable(())
    for hook, state, reason in told:
        hook.state, hook.reason = state, reason
        hook.patches.forget()
    for name in [name for name in sys.modules if name.split(".")[0] == "liger_kernel"]:
        del sys.modules[name]


def test_operators_choose_for_the_device(stubs, device):
    norm = importlib.import_module("liger_kernel.ops.rms_norm")
    x = torch.zeros(1, device=device)
    count = torch.aule.get_device_properties(x.device.index or 0).as_dict()["multiprocessors"]
    assert norm.DEVICE == "aule"
    assert (norm.backward(x), norm.backward(x.cpu())) == (count, 1)
    states = {row.hook: row.state for row in stubs.status()}
    assert (states["device"], states["rms_norm"], states["layer_norm"]) == ("applied", "applied", "pending")


def test_a_module_that_counts_nothing_is_left(stubs):
    importlib.import_module("liger_kernel.ops.dyt")
    (row,) = [row for row in stubs.status() if row.hook == "dyt"]
    assert row.state == "skipped" and "get_npu_core_count" in row.reason


def test_what_was_changed_is_taken_back(stubs, device):
    norm = importlib.import_module("liger_kernel.ops.rms_norm")
    stubs.disable(())
    utils = importlib.import_module("liger_kernel.utils")
    assert (utils.infer_device(), norm.infer_device()) == ("cpu", "cpu")
    assert norm.backward(torch.zeros(1, device=device)) == 1
