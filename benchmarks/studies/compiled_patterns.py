"""What graph patterns of torch.compile gain: microseconds eager, compiled without the pattern, compiled with it.

python benchmarks/studies/compiled_patterns.py [--dtype bfloat16] [--seconds 0.2] [--small]

Patterns: epilogues of products, softmax of long rows in one pass, attention by hand, an optimizer over many tensors.
"""

import argparse
import math
import statistics

import torch
import torch.nn.functional as F

import torch_aule  # noqa: F401  makes the device
from torch_aule.measure.timing import Stopwatch


def mlp(scale, dtype):
    rows, width = 8192 // scale, 768 // scale
    x = torch.randn(rows, width, device="aule", dtype=dtype)
    up, down = (torch.randn(s, device="aule", dtype=dtype) / 30 for s in ((4 * width, width), (width, 4 * width)))
    b, c = torch.randn(4 * width, device="aule", dtype=dtype), torch.randn(width, device="aule", dtype=dtype)
    return lambda: x + F.linear(F.gelu(F.linear(x, up, b)), down, c)


def cross_entropy(columns, backward):
    def make(scale, dtype):
        rows, n = 8192 // scale**2, columns // scale
        x = torch.randn(rows, n, device="aule").to(dtype).requires_grad_(backward)
        t = torch.randint(0, n, (rows,), device="aule")

        def call():
            loss = F.cross_entropy(x, t)
            return torch.autograd.grad(loss, x)[0] if backward else loss

        return call

    return make


def attention(scale, dtype):
    q, k, v = (torch.randn(8, 12, 1024 // scale**2, 64, device="aule").to(dtype) for _ in range(3))
    return lambda: torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(64), -1) @ v


def adamw(scale, dtype):
    sizes = [(768, 64), (768,), (3072,), (64, 64), (768, 3)] * (20 // scale)
    parameters = [torch.nn.Parameter(torch.randn(size, device="aule")) for size in sizes]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, foreach=True, capturable=True)
    optimizer.step()
    return optimizer.step


def without_lists():
    """As before lists of tensors shared launches."""
    from unittest.mock import patch

    from torch._inductor.codegen.common import BackendFeature

    from torch_aule.compile.doors.scheduling import GlslScheduling

    features = GlslScheduling.backend_features - {BackendFeature.FOREACH}
    return patch.object(GlslScheduling, "backend_features", features)


def without_epilogues():
    from torch_aule.compile import config

    return config.patch(epilogues=False)


def inductor(**settings):
    return lambda: torch._inductor.config.patch(**settings)


CASES = {
    "mlp": (mlp, without_epilogues),
    "cross entropy 50257": (cross_entropy(50257, False), inductor(online_softmax=False)),
    "cross entropy 50257, both ways": (cross_entropy(50257, True), inductor(online_softmax=False)),
    "cross entropy 50304": (cross_entropy(50304, False), inductor(online_softmax=False)),
    "attention by hand": (attention, inductor(pattern_matcher=False)),
    "AdamW, 100 tensors": (adamw, without_lists),
}


def timed(call, seconds):
    times = []
    for _ in range(5):
        call()
    torch.aule.synchronize()
    whole = Stopwatch()
    while whole.seconds < seconds or len(times) < 5:
        start = Stopwatch()
        for _ in range(10):
            call()
        torch.aule.synchronize()
        times.append(start.seconds / 10)
    return statistics.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--small", action="store_true", help="sizes for software devices")
    options = parser.parse_args()
    import torch._inductor.compile_fx  # noqa: F401  the settings exist from here on

    torch._inductor.config.force_disable_caches = True
    print(f"{'case':32}{'eager':>10}{'without':>10}{'with':>10}  eager / with")
    for name, (make, without) in CASES.items():
        call = make(4 if options.small else 1, getattr(torch, options.dtype))
        times = [timed(call, options.seconds)]
        for pattern in (without(), inductor()()):
            torch._dynamo.reset()
            with pattern:
                times.append(timed(torch.compile(call), options.seconds))
        print(f"{name:32}" + "".join(f"{t:10.1f}" for t in times) + f"{times[0] / times[2]:12.2f}", flush=True)


if __name__ == "__main__":
    main()
