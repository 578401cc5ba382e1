"""Families of kernels by name."""

import pytest
import torch

import torch_aule
import torch_aule.tune
from attention_reference import check, inputs, reference, run
from torch_aule.attention import active_attention_variants

FAMILIES = set(torch_aule._C.attention_families())


@pytest.fixture(autouse=True)
def settings_of_before():
    before = torch_aule._C.overrides()
    yield
    torch_aule._C.set_overrides(before)


def test_each_available_family_serves(device):
    names = torch.aule.available_variants("flash_attn")
    assert set(names) <= FAMILIES and "simt" in names
    for_few_queries = [name for name in names if name.startswith("splitkv")]
    assert for_few_queries
    for name in names:
        torch.aule.set_kernel_variant("flash_attn", name)
        if name not in for_few_queries:
            assert active_attention_variants(64)["forward"] == name
    torch.aule.set_kernel_variant("flash_attn", "simt")
    q, k, v, grad = inputs(1, 2, 1, 9, 17, 8, 8)
    check(run(q, k, v, grad), reference(q, k, v, grad), torch.float32)


def test_none_is_the_choice_of_the_planner(device):
    with torch_aule.tune.override(attention_variant=None):
        usual = active_attention_variants(64)
    torch.aule.set_kernel_variant("flash_attn", "simt")
    assert set(active_attention_variants(64).values()) == {"simt"}
    torch.aule.set_kernel_variant("flash_attn", None)
    assert active_attention_variants(64) == usual


def test_looking_changes_nothing(device):
    torch.aule.set_kernel_variant("flash_attn", "simt")
    torch.aule.available_variants("flash_attn", 128, device=0)
    assert active_attention_variants(64)["dq"] == "simt"


def test_wide_heads_have_fewer_families(device):
    assert torch.aule.available_variants("flash_attn", 512) == ("simt",)


def test_errors(device):
    for call in (torch.aule.available_variants, lambda kernel: torch.aule.set_kernel_variant(kernel, None)):
        with pytest.raises(ValueError, match="expected kernel to be one of flash_attn, but got 'gemm'"):
            call("gemm")
    with pytest.raises(ValueError, match="expected name to be one of .*simt.*, but got 'fastest'"):
        torch.aule.set_kernel_variant("flash_attn", "fastest")
