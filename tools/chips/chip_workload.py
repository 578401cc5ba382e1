"""Operators whose kernels `chip_statistics.py` has compiled: models' main ones in the sizes that planners tell apart.

Values are never read, because nothing runs there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from torch_aule.tune import override

HALF, BRAIN, FULL = torch.float16, torch.bfloat16, torch.float32
SHORT = {HALF: "f16", BRAIN: "bf16", FULL: "f32", torch.float64: "f64"}


@dataclass
class Job:
    """One operator, forward and, if it has one, backward."""

    name: str
    call: Callable[[], object]
    on_matrices: bool = False  # other kernels where the layout of the matrix units is known, unknown, or there are none
    smoke: bool = False
    float64: bool = False


def empty(*size: int, dtype: torch.dtype, grad: bool = False) -> torch.Tensor:
    return torch.empty(*size, dtype=dtype, device="aule").requires_grad_(grad)


def gradients(y: torch.Tensor, *inputs: torch.Tensor) -> None:
    torch.autograd.grad(y, inputs, torch.empty_like(y), allow_unused=True)


def attention(dtype, dim, causal=False, backward=True, n=2048, queries=None, heads=(4, 4), dropout=0.0, workspace=None,
              bias=False):  # fmt: skip
    def call():
        with override(attention_workspace=workspace):
            run()

    def run():
        q = empty(1, heads[0], queries or n, dim, dtype=dtype, grad=backward)
        k, v = (empty(1, heads[1], n, dim, dtype=dtype, grad=backward) for _ in range(2))
        mask = empty(n, n, dtype=dtype) if bias else None
        out = F.scaled_dot_product_attention(
            q, k, v, mask, is_causal=causal, dropout_p=dropout, enable_gqa=heads[0] != heads[1]
        )
        if backward:
            gradients(out, q, k, v)

    words = [f"attention {SHORT[dtype]} D{dim}", "causal" if causal else "", f"dropout {dropout}" if dropout else ""]
    words += [f"{queries} queries" if queries else "", "workspace" if workspace else "", "bias" if bias else ""]
    return Job(" ".join(w for w in words if w), call, dtype != FULL, smoke=words[0] == "attention f16 D64" and causal)


def matmul(dtype, layout, m, n, k):
    def call():
        a = empty(m, k, dtype=dtype) if layout[0] == "N" else empty(k, m, dtype=dtype).t()
        b = empty(k, n, dtype=dtype) if layout[1] == "N" else empty(n, k, dtype=dtype).t()
        a @ b

    smoke = layout == "NT" and m in (1, 4096) and k == 2048
    return Job(f"matmul {SHORT[dtype]} {layout} {m}x{n}x{k}", call, dtype not in (FULL, torch.float64), smoke)


def conv(dtype, images, channels, size, stride=1):
    def call():
        x = empty(images, channels, size, size, dtype=dtype, grad=True)
        w = empty(channels, channels, 3, 3, dtype=dtype, grad=True)
        gradients(F.conv2d(x, w, padding=1, stride=stride), x, w)

    step = f" stride {stride}" if stride != 1 else ""
    return Job(f"conv2d {SHORT[dtype]} {images}x{channels}x{size}x{size}{step}", call, dtype != FULL)


def rows(name, function, dtype, backward=True, smoke=False):
    def call():
        x = empty(4096, 4096, dtype=dtype, grad=backward)
        w, b = (empty(4096, dtype=dtype, grad=backward) for _ in range(2))
        y = function(x, w, b)
        if backward:
            gradients(y, x, w, b)

    return Job(f"{name} {SHORT[dtype]}", call, smoke=smoke, float64=dtype == torch.float64)


def single(name, function, smoke=False):
    return Job(name, function, smoke=smoke)


def adamw():
    p = torch.nn.Parameter(empty(1 << 20, dtype=FULL))
    p.grad = torch.empty_like(p)
    torch.optim.AdamW([p], fused=True).step()


def float32_by_pieces():
    torch.set_float32_matmul_precision("high")
    empty(2048, 2048, dtype=FULL) @ empty(2048, 2048, dtype=FULL)
    torch.set_float32_matmul_precision("highest")


def int8_products():
    for m in (4096, 1000):
        torch._int_mm(empty(m, 1024, dtype=torch.int8), empty(1024, m, dtype=torch.int8))


def lookups():
    w, at = empty(1000, 256, dtype=FULL, grad=True), torch.empty(4096, dtype=torch.int64, device="aule")
    gradients(F.embedding(at, w), w)
    x = empty(4096, 256, dtype=FULL)
    x.gather(0, at[:, None].expand(-1, 256))
    torch.zeros_like(x).scatter_add_(0, at[:, None].expand(-1, 256), x)
    x.index_select(0, at)


def images():
    x = empty(8, 32, 56, 56, dtype=FULL, grad=True)
    w, b = empty(32, dtype=FULL, grad=True), empty(32, dtype=FULL, grad=True)
    for y in (
        F.max_pool2d(x, 2),
        F.avg_pool2d(x, 2),
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.group_norm(x, 8, w, b),
        F.batch_norm(x, None, None, w, b, training=True),
        F.pad(x, (1, 1, 1, 1), mode="reflect"),
    ):
        gradients(y, x)


def draws():
    x = empty(1 << 20, dtype=FULL)
    x.normal_(), x.uniform_(), x.bernoulli_(0.5)
    torch.arange(1 << 20, device="aule"), torch.randint(9, (1 << 20,), device="aule")


def transforms(dtype):
    """Fourier transforms of one pass and of several, by rows and by columns, of primes, real to complex and back."""
    real, complex_ = dtype, torch.complex128 if dtype == torch.float64 else torch.complex64

    def call():
        for n in (7, 256, 1000, 4096, 1009, 1 << 16):
            torch.fft.fft(empty(64, n, dtype=complex_))
        torch.fft.fft2(empty(4, 1024, 1024, dtype=complex_))
        for n in (1024, 1 << 16):
            torch.fft.irfft(torch.fft.rfft(empty(64, n, dtype=real)))

    return Job(f"fft {SHORT[dtype]}", call, smoke=dtype == FULL, float64=dtype == torch.float64)


def workload(float64: bool, bfloat16: bool) -> list[Job]:
    """All jobs of a device with or without float64 and arithmetic in bfloat16."""
    narrow = (HALF, BRAIN) if bfloat16 else (HALF,)  # the same portable kernels serve both
    jobs = [attention(dtype, dim, c) for dtype in (*narrow, FULL) for dim in (64, 128) for c in (False, True)]
    jobs += [attention(dtype, dim) for dtype in narrow for dim in (32, 80, 96, 192, 256)]
    jobs += [attention(FULL, dim) for dim in (32, 256)]
    jobs += [attention(dtype, dim, dropout=0.1) for dtype in (HALF, FULL) for dim in (64, 128)]
    jobs += [attention(HALF, dim, True, workspace=1024) for dim in (64, 128)]
    jobs += [attention(HALF, dim, True) for dim in (32, 80, 96, 192, 256)]
    jobs += [attention(HALF, dim, bias=True) for dim in (64, 96, 128, 192)]
    jobs += [attention(HALF, 128, backward=False, n=16384, queries=q, heads=(32, 8)) for q in (1, 4, 16)]
    for dtype in (*narrow, FULL):
        jobs += [matmul(dtype, layout, 4096, 4096, 2048) for layout in ("NN", "NT", "TN", "TT")]
        few = [(m, 4096, 4096) for m in (1, 8, 16)]
        for m, n, k in ((512, 512, 512), (100, 77, 50), *few, (64, 64, 65536)):
            jobs.append(matmul(dtype, "NT", m, n, k))
        for channels, size, stride in ((64, 56, 1), (128, 28, 1), (256, 28, 2)):
            jobs.append(conv(dtype, 32, channels, size, stride))
        jobs.append(conv(dtype, 4, 64, 32))
    jobs += [Job("matmul int8", int8_products, on_matrices=True), Job("matmul f32 high", float32_by_pieces, True)]
    target = torch.empty(4096, dtype=torch.int64, device="aule")
    for dtype in (FULL, *narrow, torch.float64):
        main = dtype == FULL
        jobs += [
            rows("layer_norm", lambda x, w, b: F.layer_norm(x, (4096,), w, b), dtype, smoke=main),
            rows("rms_norm", lambda x, w, b: F.rms_norm(x, (4096,), w), dtype),
            rows("softmax", lambda x, w, b: x.softmax(-1), dtype, smoke=main),
            rows("cross_entropy", lambda x, w, b: F.cross_entropy(x, target), dtype, smoke=main),
            rows("gelu", lambda x, w, b: F.gelu(x), dtype),
            rows("dropout", lambda x, w, b: F.dropout(x, 0.1), dtype),
            rows("x + 1", lambda x, w, b: x + 1, dtype, backward=False, smoke=main),
            rows("sum", lambda x, w, b: x.sum(-1), dtype, backward=False),
            rows("sum of columns", lambda x, w, b: x.sum(0), dtype, backward=False),
            rows("cumsum", lambda x, w, b: x.cumsum(-1), dtype, backward=False),
            rows("sort", lambda x, w, b: x[:64].sort(-1)[0], dtype, backward=False, smoke=main),
            rows("transposed copy", lambda x, w, b: x.t().contiguous(), dtype, backward=False),
        ]
    jobs += [
        single("lookups f32", lookups, smoke=True),
        single("images f32", images),
        single("draws f32", draws),
        single("fused AdamW f32", adamw, smoke=True),
        transforms(FULL),
        transforms(torch.float64),
    ]
    return [job for job in jobs if float64 or not job.float64]
