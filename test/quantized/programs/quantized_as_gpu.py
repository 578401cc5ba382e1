"""Weights and products by the plans for GPUs, whatever device is there; the argument: with dot products of integers."""

import sys

import numpy as np
import torch

from quantized_reference import EPS, FORMATS, decoded, integers_off, random_blocks
from torch_aule import quantized, tune

assert torch.aule.get_device_properties().kind != "cpu", "the kernels for GPUs"
rng = np.random.default_rng()
DOT = sys.argv[1:] == ["dot"]
LEVELS = ("iq4_nl", "iq4_xs", "mxfp4")  # no integers


def check(name, packed, scales, group, w, gated=False):
    n, k = w.shape
    for m, dtype in ((1, torch.float32), (1, torch.bfloat16), (2, torch.float16), (5, torch.bfloat16)):
        x = (torch.randn(m, k) * torch.randn(m, 1).exp()).to(dtype)
        with torch.aule.profiler.profile() as p:
            y = quantized.linear(x.to("aule"), packed, name, None, scales, group).cpu().double()
        kernels = [e.name for e in p.events() if e.name.startswith("gemv_quantized")]
        assert len(kernels) == 1, kernels
        by_integers = DOT and dtype != torch.float32 and name not in LEVELS
        assert ("DOT=1" in kernels[0]) == by_integers, kernels
        # Sums of k terms in float32, each of them rounded a few times: of w, of the product, of the sum.
        bound = (k + 8) * 2.0**-24 * (x.abs().double() @ (w.abs() + w.abs().amax()).double().T)
        expected = x.double() @ w.double().T
        if by_integers:
            bound = bound + integers_off(x, w)
        if dtype != torch.float32:
            bound = bound * (1 + EPS[dtype]) + EPS[dtype] * expected.abs()
        assert ((y - expected).abs() <= bound + 2.0**-25).all(), (name, m, dtype)


with tune.override(quantized_dot=DOT):
    # Without: every order of octets in a span.
    for name in FORMATS if DOT else ("q4_0", "q8_0", "q2_k", "q4_k", "q6_k", "iq4_nl"):
        n, k = 67, FORMATS[name].values * 9
        blocks = random_blocks(rng, name, n, k)
        w = torch.from_numpy(decoded(blocks, name))
        packed = quantized.pack(torch.from_numpy(blocks).to("aule"), name)
        assert torch.equal(quantized.dequantize(packed, name, k, dtype=torch.float32).cpu(), w), name
        check(name, packed, (), (), w)
    for name in ("int4", "int4_offset", "int8") if DOT else ():
        for k in (4608, 72):  # several chunks of x; spans of one octet
            packed, scales, group = quantized.random_weight(name, 67, k)
            w = quantized.dequantize(packed, name, k, torch.float32, scales, group).cpu()
            check(name, packed, scales, group, w)
    if DOT:
        packed, _, _ = quantized.random_weight("q4_k", 64, 512)
        w = quantized.dequantize(packed, "q4_k", 512).cpu().double()
        x = torch.randn(2, 512).bfloat16()
        x[1, 300] = torch.inf
        y = quantized.linear(x.to("aule"), packed, "q4_k").cpu()
        assert bool(torch.isfinite(y[0]).all()) and not bool(torch.isfinite(y[1]).any())
        assert bool((quantized.linear(torch.zeros_like(x).to("aule"), packed, "q4_k") == 0).all())
        gate = torch.ops.aule.quantized_norm_linear_act(
            x[:1].to("aule"), packed, "q4_k", None, (), (), None, 0.0, "silu", torch.ones(1, 32).bfloat16().to("aule")
        )
        a, b = (x[:1].double() @ w.T).chunk(2, -1)
        expected = torch.nn.functional.silu(a) * b + 1
        assert ((gate.cpu().double() - expected).abs() <= 0.02 * (a.abs() + 1) * (b.abs() + 1)).all()
        table = packed.view(4, 16, -1)
        ids = torch.tensor([[3, 1], [0, 2]])
        y = quantized.linear_by_expert(torch.ones(2, 512).bfloat16().to("aule"), table, ids.to("aule"), "q4_k").cpu()
        sums = w.view(4, 16, 512).sum(-1)
        assert ((y.double() - sums[ids]).abs() <= 2.0**-8 * sums[ids].abs() + 1e-3 * w.abs().sum(-1).max()).all()
