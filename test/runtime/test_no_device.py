"""A machine without a Vulkan device: everything imports, and attention on NumPy arrays and CPU tensors is computed."""

import math
import os
import subprocess
import sys
import warnings

import pytest
import torch

from helpers import ROOT, assert_close, check_program, program
from torch_aule.attention import cpu, flash_attention

NOWHERE = {"VK_DRIVER_FILES": "/nowhere.json", "VK_ICD_FILENAMES": "/nowhere.json", "TORCH_AULE_STRICT": "1"}


def test_attention_falls_back_to_the_cpu_and_says_so_once():
    check_program("no_device_attention", **NOWHERE)


def test_a_missing_loader_is_named():
    check_program("no_device_loader", TORCH_AULE_VULKAN_LIBRARY="/nowhere/libvulkan.so.1")


def test_a_driver_below_the_baseline_is_told_with_all_that_it_lacks():
    """SwiftShader computes, but has no 64-bit integers and no 16-bit and 8-bit storage."""
    fetched = subprocess.run([ROOT / "tools/swiftshader.sh"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if fetched.returncode != 0:
        pytest.skip(fetched.stderr.strip().splitlines()[-1])
    command = [ROOT / "build/swiftshader/run", sys.executable, program("below_baseline")]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TORCH_AULE_VALIDATION": "0"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and not done.stderr, done.stdout + done.stderr
    found = done.stdout[done.stdout.index("self-test") :]
    assert "lacks shaderInt64, storageBuffer16BitAccess, storageBuffer8BitAccess; " in found
    assert "update its driver, or use another device" in found and "1 of 1 checks failed: device" in found


CASES = [
    {},
    {"causal": True},
    {"causal": True, "causal_bottom_right": True},
    {"window": (3, 2)},
    {"window": (2, -1), "causal_bottom_right": True},
    {"softcap": 2.0, "causal": True},
    {"scale": 0.3, "mask": "float"},
    {"mask": "bool"},
]


@pytest.mark.parametrize(
    "case, dtype",
    [(case, torch.float32) for case in CASES] + [({"causal": True}, torch.float16), ({"mask": "bool"}, torch.bfloat16)],
    ids=str,
)
def test_cpu_equals_the_device(device, case, dtype):
    """Forward, log-sum-exp and gradients of the CPU's form and of the kernels."""
    q = torch.randn(2, 4, 300, 16, dtype=dtype)
    k, v = torch.randn(2, 2, 37, 16, dtype=dtype), torch.randn(2, 2, 37, 24, dtype=dtype)
    mask = {"float": torch.randn(300, 37, dtype=dtype), "bool": torch.rand(2, 1, 300, 37) < 0.3}.get(case.get("mask"))
    if mask is not None and mask.dtype is torch.bool:
        mask[:, :, 5] = False  # a row that sees no key
    grad = torch.randn(2, 4, 300, 24, dtype=dtype)
    results = []
    for where in ("cpu", device):
        q1, k1, v1 = (t.detach().to(where).requires_grad_() for t in (q, k, v))
        window = case.get("window", (-1, -1))
        options = (0.0, case.get("causal", False), case.get("scale"), *window)
        options = (*options, case.get("softcap", 0.0), case.get("causal_bottom_right", False))
        m = None if mask is None else mask.to(where)
        forward = cpu.attention if where == "cpu" else torch.ops.aule.flash_attn_fwd
        out, lse = forward(q1, k1, v1, m, *options)[:2]
        out.backward(grad.to(where))
        results.append((out, lse, q1.grad, k1.grad, v1.grad))
    tolerance = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    for host, kernel in zip(*results, strict=True):
        scale = max(1.0, host[host.isfinite()].abs().max().item())
        assert_close(kernel.cpu(), host, rtol=0, atol=tolerance * scale)


def test_dropout_on_the_cpu():
    q = torch.randn(1, 2, 64, 8)
    ones = torch.ones(1, 2, 512, 1)
    k = torch.randn(1, 2, 512, 8)
    out, _ = cpu.attention(q, k, ones, None, 0.25, False, None, -1, -1, 0.0, False)
    assert abs(out.mean().item() - 1) < 0.05 and out.std().item() > 0
    out, _ = cpu.attention(q, k, ones, None, 1.0, False, None, -1, -1, 0.0, False)
    assert not out.any()


def test_no_keys_and_no_queries_on_the_cpu():
    q, nothing = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 0, 8)
    options = (None, 0.0, False, None, -1, -1, 0.0, False)
    out, lse = cpu.attention(q, nothing, nothing, *options)
    assert not out.any() and (lse == -math.inf).all()
    out, lse = cpu.attention(nothing, q, q, *options)
    assert out.shape == (1, 2, 0, 8) and lse.shape == (1, 2, 0)


def test_no_word_where_there_is_a_device(device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flash_attention(*(torch.randn(1, 1, 4, 8) for _ in range(3)))
