"""Products with quantized weights in compiled graphs: no break, and the numbers of the eager calls."""

import numpy as np
import torch

from helpers import assert_close, needs_shader_compiler
from quantized_reference import random_blocks
from torch_aule import quantized


def test_a_layer_is_one_graph_forward_and_backward(device):
    needs_shader_compiler()
    rng = np.random.default_rng(torch.randint(2**31, ()).item())
    blocks = torch.from_numpy(random_blocks(rng, "q8_0", 64, 128, scale=0.1))
    weight = quantized.pack(blocks, "q8_0").to(device)
    nibbles = torch.randint(256, (32, 32), dtype=torch.uint8, device=device)
    scales = torch.rand(32, device=device)

    def layer(ids, x):
        rows = quantized.rows(weight, ids, "q8_0", 128)
        y = torch.nn.functional.silu(quantized.linear(x + rows, weight, "q8_0"))
        return quantized.linear(y, nibbles, "nf4", None, [scales], 64) * 2

    ids = torch.randint(64, (4,), device=device)
    x = torch.randn(4, 128, device=device, requires_grad=True)
    g = torch.randn(4, 32, device=device)
    expected = layer(ids, x)
    (expected_grad,) = torch.autograd.grad(expected, x, g)
    actual = torch.compile(layer, fullgraph=True)(ids, x)
    (actual_grad,) = torch.autograd.grad(actual, x, g)
    # The products are the same kernels; silu and the sums before them may be rounded otherwise.
    for a, e in ((actual, expected), (actual_grad, expected_grad)):
        assert_close(a, e, rtol=0, atol=1e-5 * e.abs().max().item())
