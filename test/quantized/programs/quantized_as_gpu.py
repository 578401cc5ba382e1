"""Weights and products by the plans for GPUs, whatever device is there."""

import numpy as np
import torch

from quantized_reference import FORMATS, decoded, random_blocks
from torch_aule import quantized

assert torch.aule.get_device_properties().kind != "cpu", "the kernels for GPUs"
rng = np.random.default_rng()
for name in ("q4_0", "q8_0", "q2_k", "q4_k", "q6_k", "iq4_nl"):  # every order of octets in a span
    n, k = 67, FORMATS[name].values * 9
    blocks = random_blocks(rng, name, n, k)
    expected = torch.from_numpy(decoded(blocks, name))
    packed = quantized.pack(torch.from_numpy(blocks).to("aule"), name)
    assert torch.equal(quantized.dequantize(packed, name, k, dtype=torch.float32).cpu(), expected), name
    for m in (1, 5):
        x = torch.randn(m, k)
        y = quantized.linear(x.to("aule"), packed, name).cpu().double()
        # Sums of k terms in float32, each of them rounded a few times: of w, of the product, of the sum.
        bound = (k + 8) * 2.0**-24 * (x.abs().double() @ (expected.abs() + expected.abs().amax()).double().T)
        assert ((y - x.double() @ expected.double().T).abs() <= bound).all(), (name, m)
