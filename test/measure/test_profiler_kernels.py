"""What a trace says of a kernel beside its time: arithmetic where planners know it, and the file of generated code."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from torch_aule import profiler
from torch_aule.measure import roof


@pytest.fixture
def kernels(tmp_path):
    """function -> kernel rows of a trace of its second call."""

    def take(function):
        function()
        path = tmp_path / "trace.json"
        with profiler.profile() as p:
            function()
            torch.aule.synchronize()
        p.export_chrome_trace(str(path))
        rows = [row for row in json.loads(path.read_text())["traceEvents"] if row.get("cat") == "kernel"]
        assert rows
        return rows

    return take


def flops(rows):
    """All of them: a kernel that was cut into several submissions is a row for each, with its share."""
    return pytest.approx(sum(row["args"].get("flops", 0) for row in rows), rel=1e-6)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("sizes", [(65, 33, 17), (1, 70, 90), (3, 257, 5)], ids=str)
def test_products(device, kernels, sizes, dtype):
    m, k, n = sizes
    a, b = torch.randn(m, k, device=device).to(dtype), torch.randn(n, k, device=device).to(dtype).t()
    rows = kernels(lambda: a @ b)
    assert flops(rows) == 2 * m * k * n
    (name,) = {row["args"]["flops of"] for row in rows if "flops" in row["args"]}
    assert name == str(dtype).removeprefix("torch.")


def test_batches_and_additions(device, kernels):
    a, b, c = (torch.randn(3, *size, device=device) for size in ((9, 13), (13, 7), (9, 7)))
    assert flops(kernels(lambda: torch.baddbmm(c, a, b))) == 2 * 3 * 9 * 13 * 7
    assert flops(kernels(lambda: c + c)) == 0


@pytest.mark.parametrize("groups", [1, 8])
def test_convolutions(device, kernels, groups):
    """Forward and both gradients, by whatever kernels: sizes for which none multiplies more than the others."""
    x = torch.randn(2, 8, 9, 11, device=device, requires_grad=True)
    w = torch.randn(16, 8 // groups, 3, 3, device=device, requires_grad=True)
    each = 2 * 2 * 16 * 9 * 11 * (8 // groups) * 9
    with torch.no_grad():
        assert flops(kernels(lambda: F.conv2d(x, w, padding=1, groups=groups))) == each
    y = F.conv2d(x, w, padding=1, groups=groups)
    rows = kernels(lambda: torch.autograd.grad(y, (x, w), y.detach(), retain_graph=True))
    assert flops(rows) == 2 * each


def seen(q_len, k_len, left, right):
    return sum(1 for i in range(q_len) for j in range(k_len) if i - left <= j <= i + right)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(13, 21), (21, 13), (1, 300)], ids=str)
def test_attention(device, kernels, lengths, causal):
    """Of pairs that are seen: 2 products forward; 3 and 4 for the gradients, which have the scores again."""
    q_len, k_len = lengths
    q, k, v = (torch.randn(2, 3, n, 16, device=device, requires_grad=True) for n in (q_len, k_len, k_len))
    product = 2 * 2 * 3 * 16 * seen(q_len, k_len, 1000, 0 if causal else 1000)
    with torch.no_grad():
        assert flops(kernels(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))) == 2 * product
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    rows = kernels(lambda: torch.autograd.grad(out, (q, k, v), out.detach(), retain_graph=True))
    assert flops(rows) == 7 * product


def test_share_of_the_roof(device, kernels, monkeypatch):
    """The time at the roof over the time taken: of the bytes, or of the arithmetic where that takes longer."""
    a = torch.randn(64, 64, device=device)
    for bandwidth, rate in ((1e9, 1e15), (1e15, 1e9)):
        known = roof.Roof("d", "v", bandwidth, {"float32": rate}, 0.0)
        monkeypatch.setattr(roof, "load", lambda device=None, known=known: known)
        row, *_ = kernels(lambda: a @ a)
        args = row["args"]
        least = max(args["bytes"] / bandwidth, args["flops"] / rate)
        assert args["of the roof (%)"] == pytest.approx(100 * least / (row["dur"] * 1e-6), rel=0.05)
    monkeypatch.setattr(roof, "load", lambda device=None: None)
    row, *_ = kernels(lambda: a @ a)
    assert "of the roof (%)" not in row["args"]


def test_windows(device, kernels):
    q, k, v = (torch.randn(1, 2, 24, 16, device=device) for _ in range(3))
    rows = kernels(lambda: torch.ops.aule.flash_attn_fwd(q, k, v, window_left=3, window_right=2))
    assert flops(rows) == 2 * 2 * 2 * 16 * seen(24, 24, 3, 2)


def test_generated_kernels_lead_to_their_module(device, kernels, fresh_compiler):
    """The file is the one that TORCH_LOGS=output_code names, and has the kernel's text."""

    @torch.compile
    def function(x):
        return (x.sin() + x.cos()).sum(1)

    x = torch.randn(33, 65, device=device)
    (row,) = kernels(lambda: function(x))
    source = Path(row["args"]["source"])
    name = row["name"].partition("(")[0]
    assert name.startswith("aule_") and source.suffix == ".py" and f"{name} = aule_kernel" in source.read_text()


def test_only_generated_kernels_have_a_source(device, kernels):
    x = torch.randn(100, device=device)
    assert not any("source" in row["args"] for row in kernels(lambda: x.exp()))
