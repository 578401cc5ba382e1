"""FlexAttention, compiled, beside scaled_dot_product_attention on the same device: milliseconds, and their ratio.

python benchmarks/flex_attention.py [--length 4096] [--dim 64] [--dtype bfloat16] [--tiles 128,8,8,8,8,1,2,2,8,64 ...]

`--tiles` repeats the forward with each of these shapes (torch_aule._inductor.flex.shape.Tiles).
"""

import argparse
import statistics
import time

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import torch_aule  # noqa: F401


def milliseconds(call, repeats):
    call()
    times = []
    for _ in range(5):
        torch.aule.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        torch.aule.synchronize()
        times.append((time.perf_counter() - start) / repeats * 1e3)
    return statistics.median(times)


def both(call, operands, repeats):
    """Forward, and forward with backward."""
    with torch.no_grad():
        forward = milliseconds(lambda: call(*operands), repeats)
    grad = torch.ones_like(operands[0])
    training = milliseconds(lambda: torch.autograd.grad(call(*operands), operands, grad), repeats)
    return forward, training


def modifiers(n, device):
    """Name -> (arguments of flex_attention, arguments of SDPA that it is compared with)."""
    mask = lambda f: create_block_mask(f, None, None, n, n, device=device)  # noqa: E731
    return {
        "none": ({}, {}),
        "causal": ({"block_mask": mask(lambda b, h, q, k: q >= k)}, {"is_causal": True}),
        "window of 512": ({"block_mask": mask(lambda b, h, q, k: (q >= k) & (q - k < 512))}, {"is_causal": True}),
        "soft cap": ({"score_mod": lambda s, b, h, q, k: 20 * torch.tanh(s / 20)}, {}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tiles", nargs="*", default=[])
    options = parser.parse_args()
    shape, dtype = (1, options.heads, options.length, options.dim), getattr(torch, options.dtype)
    operands = [torch.randn(shape, device="aule", dtype=dtype, requires_grad=True) for _ in range(3)]
    for name, (flex, sdpa) in modifiers(options.length, "aule").items():
        torch._dynamo.reset()
        compiled = torch.compile(flex_attention, dynamic=False)
        own = both(lambda *t: compiled(*t, **flex), operands, options.repeats)  # noqa: B023
        other = both(lambda *t: scaled_dot_product_attention(*t, **sdpa), operands, options.repeats)  # noqa: B023
        for kind, x, y in zip(("forward", "training"), own, other, strict=True):
            print(f"{name:14} {kind:9} flex {x:9.3f} ms  sdpa {y:9.3f} ms  {x / y:6.2f}", flush=True)
    from torch_aule._inductor import config

    for tiles in options.tiles:
        torch._dynamo.reset()
        with config.patch(flex_tiles_forward=tiles), torch.no_grad():
            compiled = torch.compile(flex_attention, dynamic=False)
            print(f"tiles {tiles:32} forward {milliseconds(lambda: compiled(*operands), options.repeats):9.3f} ms")  # noqa: B023


if __name__ == "__main__":
    main()
