"""The table of PyTorch's functions that are replaced for torch.compile, beside what is replaced in this PyTorch."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from helpers import check_program

pytest.importorskip("torch._inductor.codegen.simd")

from torch_aule._version import TORCH_NEWER_THAN_TESTED, TORCH_OLDEST  # noqa: E402
from torch_aule.compile.doors import patches  # noqa: E402

STEPS = ("inductor", "graphs", "flex", "triton")
ROOT = Path(__file__).resolve().parents[2]
HERE = [p for step in STEPS for p in patches._of(step)]


def test_what_is_replaced_has_a_row_and_the_other_way_round():
    found = [set(names) for names in json.loads(check_program("replaced_functions").splitlines()[-1])]
    targets = {p.target for p in HERE if not p.may_lack or p.original() is not None}
    assert [names for names in found if names.isdisjoint(targets)] == []
    assert targets - set().union(*found) == set()


def test_no_other_file_replaces_anything():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import diff_torch
    finally:
        sys.path.remove(str(ROOT / "tools"))
    uses = diff_torch.python_uses(ROOT / "torch_aule/compile", diff_torch.Torch(sys.executable))
    state = "torch._inductor.virtualized.V."  # of the graph that is compiled
    replaced = {name: file for name, (how, file) in uses.items() if how == "replaces" and not name.startswith(state)}
    assert replaced == {p.target: "compile/doors/patches.py" for p in patches.PATCHES}


@pytest.mark.parametrize("patch", patches.PATCHES, ids=lambda p: p.name)
def test_row(patch):
    assert patch.why.endswith(".") and patch.step in STEPS
    assert patch.issue == patches.NONE_KNOWN or all(
        issue.startswith("https://github.com/pytorch/pytorch/") for issue in patch.issue.split(", ")
    )
    assert TORCH_OLDEST <= patch.since < TORCH_NEWER_THAN_TESTED
    if patch.may_lack and patch.original() is None:
        return
    assert callable(patch.original())
    module, _, maker = patch.by.rpartition(".")
    replacement = getattr(importlib.import_module(f"torch_aule.compile.{module}"), maker)(patch.original())
    assert callable(replacement) and replacement is not patch.original()


def test_targets_are_unique():
    assert len({p.target for p in patches.PATCHES}) == len(patches.PATCHES)


def test_a_second_time_changes_nothing():
    before = [p.original() for p in HERE]
    assert [patches.install(step) for step in STEPS] == [[]] * len(STEPS)
    assert [p.original() for p in HERE] == before


def test_what_this_torch_lacks_is_named_and_the_rest_replaced(monkeypatch):
    from torch._inductor import compile_fx, utils

    monkeypatch.delattr(utils, "is_big_gpu")
    monkeypatch.setattr(compile_fx, "_recursive_pre_grad_passes", lambda gm, inputs: gm)
    assert patches.missing("inductor") == ["torch._inductor.utils.is_big_gpu"]
    assert patches.install("inductor") == ["torch._inductor.utils.is_big_gpu"]
    assert hasattr(compile_fx._recursive_pre_grad_passes, "_aule_original")


def test_a_version_that_needs_no_patch_has_none(monkeypatch):
    (row,) = [p for p in patches.PATCHES if p.name == "replace_random_passes"]
    for version, needs in (("2.11.0", False), ("2.13.1+cpu", False), ("2.14.0a0", True), ("2.15.0", True)):
        monkeypatch.setattr(torch, "__version__", version)
        assert (row in patches._of("inductor")) == needs
