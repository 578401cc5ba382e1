"""Many rows by packed weights on matrix units: weights are decoded in the loader of the product."""

import numpy as np
import pytest
import torch

from quantized_reference import EPS, decoded, magnitudes, random_blocks
from torch_aule import quantized

K_SLACK = 32  # additions of a tree, beside those along k


def check_linear(x, weight, numbers, sizes, bias, *call):
    """`numbers` are the weights and `sizes` what each is the sum of, in float64.

    A sum has at most k + K_SLACK roundings of half a unit, or of a whole one on matrix units. A weight is rounded to
    x's dtype, the result too.
    """
    out = quantized.linear(x.to("aule"), weight.to("aule"), *call[:1], bias.to("aule"), *call[1:])
    x, bias, eps = x.double(), bias.double(), EPS[x.dtype]
    expected, terms = x @ numbers.mT + bias, x.abs() @ sizes.mT + bias.abs()
    tolerance = (x.size(-1) + K_SLACK) * 2.0**-23 * terms + eps * (x.abs() @ numbers.abs().mT)
    excess = (out.cpu().double() - expected).abs() - tolerance * (1 + eps) - eps * expected.abs() - 2.0**-25
    assert excess.max().item() <= 0


@pytest.mark.without_shuffles
@pytest.mark.parametrize("m, n, k", [(70, 45, 512)])
def test_runs_of_blocks_in_parts(m, n, k):
    """Spans of q4_k interleave over more k than a step of small tiles has."""
    blocks = random_blocks(np.random.default_rng(torch.randint(2**31, ()).item()), "q4_k", n, k)
    packed = quantized.pack(torch.from_numpy(blocks), "q4_k")
    numbers, sizes = torch.from_numpy(decoded(blocks, "q4_k")).double(), magnitudes(blocks, "q4_k")
    check_linear(torch.randn(m, k).half(), packed, numbers, sizes, torch.randn(n).half(), "q4_k")


@pytest.mark.without_shuffles
@pytest.mark.parametrize("m, n, k", [(100, 1100, 1280)])  # 140 tiles, of which 12 are shared
def test_groups_with_zeros_and_shared_tiles(m, n, k):
    q = torch.randint(16, (n, k), dtype=torch.uint8)
    scales, zeros = torch.rand(n, k // 32) + 0.1, torch.randint(16, (n, k // 32)).to(torch.int8)
    numbers = (q.float() - zeros.float().repeat_interleave(32, 1)) * scales.repeat_interleave(32, 1)
    sizes = (q.float() + zeros.float().repeat_interleave(32, 1)) * scales.repeat_interleave(32, 1)
    there = [t.to("aule") for t in (scales, zeros)]
    x, bias = torch.randn(m, k).half(), torch.randn(n).half()
    packed = q[:, 0::2] | q[:, 1::2] << 4
    check_linear(x, packed, numbers.double(), sizes.double(), bias, "int4", there, 32)


@pytest.mark.without_shuffles
@pytest.mark.parametrize("m", [17, 40])
def test_nan_stays_where_it_is(m):
    """A scale of NaN makes a column of the result NaN, and no other."""
    n, k = 33, 64
    q = torch.randint(-128, 128, (n, k), dtype=torch.int8)
    scales = torch.rand(n, 1) + 0.1
    scales[5] = float("nan")
    out = quantized.linear(
        torch.randn(m, k).half().to("aule"), q.view(torch.uint8).to("aule"), "int8", None, [scales.to("aule")], k
    )
    expected = torch.zeros(m, n, dtype=torch.bool)
    expected[:, 5] = True
    assert torch.equal(out.isnan().cpu(), expected)
