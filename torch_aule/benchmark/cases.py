"""The cases, by group. Sizes are those the project's aims are stated for, and a few around them."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness import Case


def _randn(*size, device, dtype=torch.float32, grad=False):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*size, generator=generator).to(dtype).to(device).requires_grad_(grad)


def _attention(b, h, n, d, *, causal=True, backward=False, dtype=torch.float32, kv_heads=None, limit=None) -> Case:
    kv = kv_heads or h

    def make(device):
        q = _randn(b, h, n, d, device=device, dtype=dtype, grad=backward)
        k, v = (_randn(b, kv, n, d, device=device, dtype=dtype, grad=backward) for _ in range(2))

        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv != h)

        if not backward:
            return forward
        out = forward()
        weight = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), weight, retain_graph=True)

    pairs = n * (n + 1) / 2 if causal else n * n
    kind = "backward" if backward else "forward"
    short = str(dtype).removeprefix("torch.")
    return Case(
        "attention", f"sdpa_{kind}" + ("_causal" if causal else ""), make, f"B{b} H{h}/{kv} N{n} D{d} {short}",
        flops=b * h * pairs * d * 4 * (2.5 if backward else 1), limit=limit,
    )  # fmt: skip


def attention(quick: bool) -> list[Case]:
    cases = [_attention(1, 8, 512, 64, limit=8.0), _attention(1, 8, 512, 64, backward=True, limit=10.0)]
    if not quick:
        cases += [
            _attention(1, 8, 512, 64, causal=False),
            _attention(4, 4, 128, 32),
            _attention(4, 4, 128, 32, backward=True),
            _attention(1, 8, 256, 64, kv_heads=2),
            _attention(1, 4, 1024, 64),
            _attention(1, 4, 256, 128),
            _attention(1, 8, 512, 64, dtype=torch.bfloat16),
        ]
    return cases


def _matmul(m, k, n, *, dtype=torch.float32, transposed=False, limit=None) -> Case:
    def make(device):
        a, b = (
            _randn(m, k, device=device, dtype=dtype),
            _randn(*((n, k) if transposed else (k, n)), device=device, dtype=dtype),
        )
        b = b.t() if transposed else b
        return lambda: a @ b

    short = str(dtype).removeprefix("torch.")
    return Case(
        "gemm",
        "mm_transposed" if transposed else "mm",
        make,
        f"{m}x{k}x{n} {short}",
        flops=2.0 * m * n * k,
        limit=limit,
    )


def gemm(quick: bool) -> list[Case]:
    cases = [_matmul(512, 512, 512, limit=8.0)]
    if not quick:
        cases += [_matmul(128, 128, 128), _matmul(1024, 1024, 1024), _matmul(512, 512, 512, transposed=True),
                  _matmul(1, 1024, 1024), _matmul(2048, 128, 512),
                  _matmul(512, 512, 512, dtype=torch.float16)]  # fmt: skip
    return cases


def pointwise(quick: bool) -> list[Case]:
    n = 1 << 24

    def binary(name, function, limit=None):
        def make(device):
            a, b = _randn(n, device=device), _randn(n, device=device)
            return lambda: function(a, b)

        return Case("pointwise", name, make, "2^24 float32", bytes=12.0 * n, limit=limit)

    def unary(name, function, size=n):
        def make(device):
            a = _randn(size, device=device)
            return lambda: function(a)

        return Case("pointwise", name, make, f"{size} float32", bytes=8.0 * size)

    cases = [binary("add", torch.add, limit=3.0)]
    if not quick:
        cases += [binary("mul", torch.mul), unary("gelu", F.gelu, 1 << 22), unary("exp", torch.exp, 1 << 22),
                  unary("sum", torch.sum, 1 << 22), unary("clone", torch.clone)]  # fmt: skip
        strided = Case(
            "pointwise", "transpose_copy",
            lambda device: (lambda a: lambda: a.t().contiguous())(_randn(2048, 2048, device=device)),
            "2048x2048 float32", bytes=8.0 * 2048**2,
        )  # fmt: skip
        cases.append(strided)
    return cases


def norms(quick: bool) -> list[Case]:
    rows, width = (1024, 256) if quick else (4096, 512)

    def case(name, function, backward=False):
        def make(device):
            x = _randn(rows, width, device=device, grad=backward)
            w, b = torch.ones(width, device=device), torch.zeros(width, device=device)
            if not backward:
                return lambda: function(x, w, b)
            y = function(x, w, b)
            g = torch.ones_like(y)
            return lambda: torch.autograd.grad(y, x, g, retain_graph=True)

        return Case("norms", name, make, f"{rows}x{width} float32", bytes=8.0 * rows * width)

    def layer_norm(x, w, b):
        return F.layer_norm(x, (width,), w, b)

    return [
        case("layer_norm", layer_norm),
        case("layer_norm_backward", layer_norm, backward=True),
        case("rms_norm", lambda x, w, b: F.rms_norm(x, (width,), w)),
        case("softmax", lambda x, w, b: x.softmax(-1)),
        case("log_softmax_backward", lambda x, w, b: x.log_softmax(-1), backward=True),
    ]


GROUPS = {"attention": attention, "gemm": gemm, "pointwise": pointwise, "norms": norms}


def tiny_ops() -> dict:
    """name -> function(device) -> a call whose host cost is measured."""

    def binary(device):
        a, b = torch.ones(16, device=device), torch.ones(16, device=device)
        return lambda: torch.add(a, b)

    def out(device):
        a, b, c = (torch.ones(16, device=device) for _ in range(3))
        return lambda: torch.add(a, b, out=c)

    def unary(device):
        a = torch.ones(16, device=device)
        return lambda: a.exp_()

    def matmul(device):
        a = torch.ones(8, 8, device=device)
        return lambda: a @ a

    def view(device):
        a = torch.ones(8, 8, device=device)
        return lambda: a.transpose(0, 1)

    return {"add": binary, "add_out": out, "exp_in_place": unary, "mm": matmul, "transpose_view": view}


def accuracy_cases() -> dict:
    """name -> (function, input sizes): forward and gradients are compared with float64 on the CPU."""

    def sdpa(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return {
        "sdpa_causal": (sdpa, [(1, 4, 128, 64)] * 3),
        "matmul": (torch.matmul, [(96, 257), (257, 64)]),
        "softmax": (lambda x: x.softmax(-1), [(64, 300)]),
        "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), [(64, 300)]),
        "gelu": (F.gelu, [(1000,)]),
        "exp": (torch.exp, [(1000,)]),
        "logsumexp": (lambda x: x.logsumexp(-1), [(64, 300)]),
        "sum": (lambda x: x.sum(), [(1 << 16,)]),
        "conv2d": (F.conv2d, [(2, 8, 17, 17), (16, 8, 3, 3)]),
    }
