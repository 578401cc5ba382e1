"""FlexAttention, compiled, beside scaled_dot_product_attention on the same device: milliseconds, and SDPA's over them.

python benchmarks/studies/flex_attention.py [--length 4096 ...] [--dim 64 128] [--dtype bfloat16] [--only causal]
    ...  --dim 64 --only causal --shapes forward=4,2,32,2,1 dq=8,1,64,1,1 dkdv=4,1,64,1,1

The backward's time is that of both directions less the forward's. `--shapes` repeats the comparison with each of these
shapes on matrix units (torch_aule.compile.flex.matrices.Entry), `--tiles` the forward with these tiles of the
portable kernels (torch_aule.compile.flex.shape.Tiles).
"""

import argparse
import statistics

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import torch_aule  # noqa: F401
from torch_aule.measure.timing import Stopwatch

SAMPLE_SECONDS = 0.05


def milliseconds(call, repeats):
    """Median of five samples. With few short calls a sample is mostly the wait for the device."""
    call()
    torch.aule.synchronize()
    if repeats == 0:
        start = Stopwatch()
        call()
        torch.aule.synchronize()
        repeats = max(5, round(SAMPLE_SECONDS / start.seconds))
    times = []
    for _ in range(5):
        torch.aule.synchronize()
        start = Stopwatch()
        for _ in range(repeats):
            call()
        torch.aule.synchronize()
        times.append(start.seconds / repeats * 1e3)
    return statistics.median(times)


def both(call, operands, repeats):
    """Forward and backward."""
    with torch.no_grad():
        forward = milliseconds(lambda: call(*operands), repeats)
    grad = torch.randn_like(call(*operands))
    training = milliseconds(lambda: torch.autograd.grad(call(*operands), operands, grad), repeats)
    return forward, training - forward


def modifiers(n, device):
    """Name -> (arguments of flex_attention, arguments of SDPA that it is compared with)."""
    mask = lambda f: create_block_mask(f, None, None, n, n, device=device)  # noqa: E731
    return {
        "none": ({}, {}),
        "causal": ({"block_mask": mask(lambda b, h, q, k: q >= k)}, {"is_causal": True}),
        "window of 512": ({"block_mask": mask(lambda b, h, q, k: (q >= k) & (q - k < 512))}, {"is_causal": True}),
        "soft cap": ({"score_mod": lambda s, b, h, q, k: 20 * torch.tanh(s / 20)}, {}),
    }


def compare(options, length, dim, settings=None):
    """Prints a line for each kind of mask and direction."""
    from torch_aule.compile import config

    shape, dtype = (options.batch, options.heads, length, dim), getattr(torch, options.dtype)
    operands = [torch.randn(shape, device="aule", dtype=dtype, requires_grad=True) for _ in range(3)]
    for name, (flex, sdpa) in modifiers(length, "aule").items():
        if options.only and name not in options.only:
            continue
        torch._dynamo.reset()
        with config.patch(settings or {}):
            compiled = torch.compile(flex_attention, dynamic=False)
            own = both(lambda *t: compiled(*t, **flex), operands, options.repeats)  # noqa: B023
        other = both(lambda *t: scaled_dot_product_attention(*t, **sdpa), operands, options.repeats)  # noqa: B023
        for kind, x, y in zip(("forward", "backward"), own, other, strict=True):
            print(f"N {length} D {dim} {options.dtype} {name:14} {kind:9} flex {x:9.3f} ms  sdpa {y:9.3f} ms  "
                  f"sdpa / flex {y / x:5.2f}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, nargs="+", default=[4096])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dim", type=int, nargs="+", default=[64])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--repeats", type=int, default=0, help="calls of a sample; 0: as many as take 50 ms")
    parser.add_argument("--only", nargs="*", default=[], help="none, causal, 'window of 512', 'soft cap'")
    parser.add_argument("--shapes", nargs="*", default=[])
    parser.add_argument("--tiles", nargs="*", default=[])
    options = parser.parse_args()
    for length in options.length:
        for dim in options.dim:
            compare(options, length, dim)
            for shape in options.shapes:
                kind, _, numbers = shape.partition("=")
                print(f"with {shape}:")
                compare(options, length, dim, {f"flex_matrix_{kind}": numbers})
            for tiles in options.tiles:
                print(f"with tiles {tiles} of portable kernels:")
                compare(options, length, dim, {"flex_matrix_units": False, "flex_tiles_forward": tiles})


if __name__ == "__main__":
    main()
