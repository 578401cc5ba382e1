"""Memory-bound operators over rows: norms, softmax, cross entropy, AdamW, rotary embedding; x + 1 is their measure."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes, randn, short
from torch_aule.benchmark.harness.targets import MEMORY_BOUND


def copy_reference(sizes: Sizes) -> list[Case]:
    """x + 1, whose bandwidth measures the memory-bound kernels."""
    return [_rows_case(*sizes.rows, "x+1", torch.float32, 2, lambda x, w, b: x + 1)]


def _rows_case(rows, width, name, dtype, passes, function, backward=False, **more) -> Case:
    """`passes`: how often the rows are read or written, at least."""

    def make(device):
        x = randn(rows, width, device=device, dtype=dtype, grad=backward)
        w, b = torch.ones(width, device=device, dtype=dtype), torch.zeros(width, device=device, dtype=dtype)
        if not backward:
            return lambda: function(x, w, b)
        wanted = (x,)
        if "norm" in name:
            wanted = (x, w.requires_grad_(), b.requires_grad_()) if "layer" in name else (x, w.requires_grad_())
        y = function(x, w, b)
        g = torch.randn(y.shape, device=device, dtype=y.dtype)
        return lambda: torch.autograd.grad(y, wanted, g, retain_graph=True)

    return Case(
        "norms", name, f"{rows}x{width}", short(dtype), make, bytes=float(passes * dtype.itemsize * rows * width),
        autograd=backward, **{"target": MEMORY_BOUND, **more},
    )  # fmt: skip


def layer_norm(x, w, b):
    return F.layer_norm(x, w.shape, w, b)


def rms_norm(x, w, b):
    return F.rms_norm(x, w.shape, w)


def softmax(x, w, b):
    return x.softmax(-1)


def log_softmax(x, w, b):
    return x.log_softmax(-1)


def _software() -> list[Case]:
    cases = []
    for rows, width, main in ((1024, 256, True), (4096, 512, False)):
        for function, backward in ((layer_norm, False), (layer_norm, True), (rms_norm, False), (softmax, False),
                                   (log_softmax, True)):  # fmt: skip
            name = function.__name__ + ("_backward" if backward else "")
            cases.append(_rows_case(rows, width, name, torch.float32, 2, function, backward, target=None, main=main,
                                    clock="wall"))  # fmt: skip
    return cases


def norms(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return _software()
    cases = []
    for dtype in (torch.float32, torch.float16):
        if dtype is torch.float16:  # in float32 it is the reference that runs first
            cases.append(_rows_case(*sizes.rows, "x+1", dtype, 2, lambda x, w, b: x + 1))
        for function in (layer_norm, rms_norm, softmax):
            cases.append(_rows_case(*sizes.rows, function.__name__, dtype, 2, function))
            cases.append(_rows_case(*sizes.rows, function.__name__ + "_backward", dtype, 3, function, backward=True))
        cases += [_cross_entropy(sizes, dtype, backward) for backward in (False, True)]
        cases += [_adamw(sizes, dtype), _rotary(sizes, dtype)]
    return cases


def _adamw(sizes, dtype) -> Case:
    rows, width = sizes.rows

    def make(device):
        p = torch.nn.Parameter(randn(rows, width, device=device, dtype=dtype))
        p.grad = randn(rows, width, device=device, dtype=dtype)
        return torch.optim.AdamW([p], lr=1e-4, fused=True).step

    return Case("norms", "adamw_fused", f"{rows}x{width}", short(dtype), make, target=MEMORY_BOUND,
                bytes=7.0 * dtype.itemsize * rows * width)  # fmt: skip


def _rotary(sizes, dtype) -> Case:
    rows, width = sizes.rows
    head = min(width, 128)

    def make(device):
        x = randn(rows, width // head, head, device=device, dtype=dtype).transpose(0, 1)
        angles = torch.outer(torch.arange(rows), 10000 ** (-torch.arange(0, head, 2) / head))
        cos, sin = angles.cos().to(device), angles.sin().to(device)
        if device == "aule":
            from torch_aule.attention.rotary import rotary_embedding

            return lambda: rotary_embedding(x, cos, sin)
        cos, sin = (torch.cat((t, t), -1).to(dtype) for t in (cos, sin))

        def composed():  # as models write it
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat((-b, a), -1) * sin

        return composed

    return Case("norms", "rotary_embedding", f"{width // head} heads, {rows} tokens, {head}", short(dtype), make,
                bytes=2.0 * dtype.itemsize * rows * (width // head * head), target=MEMORY_BOUND)  # fmt: skip


def _cross_entropy(sizes, dtype, backward) -> Case:
    rows, width = sizes.rows

    def make(device):
        x = randn(rows, width, device=device, dtype=dtype, grad=backward)
        target = torch.arange(rows, device=device) % width
        if not backward:
            return lambda: F.cross_entropy(x, target)
        loss = F.cross_entropy(x, target)
        return lambda: torch.autograd.grad(loss, x, retain_graph=True)

    # Bytes that must move: the logits are read, and for the gradient read and written. Eager PyTorch writes
    # log_softmax too.
    passes = 2.0 if backward else 1.0
    return Case("norms", "cross_entropy" + ("_backward" if backward else ""), f"{rows}x{width}", short(dtype), make,
                bytes=passes * dtype.itemsize * rows * width, autograd=backward)  # fmt: skip
