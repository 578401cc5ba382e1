"""Attention of the family simt in tile shapes like those of GPUs, which no software device would take by itself."""

import pytest
import torch

from attention_reference import check, check_dropout, inputs, reference, run
from torch_aule.attention import active_attention_variants

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

# As the override attention_tiles takes them.
FEW_LANES = "32,8,8,2,8,1,2,1,1,32"
MANY_LANES = "64,16,4,2,16,2,2,1,1,64"  # more lanes than a subgroup of lavapipe: rows are reduced in shared memory


def take(override, shape):
    override(attention_variant="simt")
    for name in ("", "_DQ", "_DKDV"):
        override(**{f"attention_tiles{name.lower()}": shape})
    assert active_attention_variants(64)["dq"] == "simt"


@pytest.mark.parametrize("shape, dim", [(FEW_LANES, 24), (MANY_LANES, 23)])
def test_bands_and_groups(override, shape, dim):
    """Tiles seen whole, in part and not at all; lengths that are no multiple of a tile; rows in chunks and not."""
    take(override, shape)
    for sizes, options in (
        ((1, 4, 2, 150, 213), dict(causal=True)),
        ((2, 1, 1, 213, 150), dict(window=(40, 17), bottom_right=True)),
        ((1, 2, 2, 67, 5), dict(causal=True)),
        ((1, 1, 1, 128, 128), dict(scale=-0.3)),
    ):
        q, k, v, grad = inputs(*sizes, dim, 40)
        check(run(q, k, v, grad, **options), reference(q, k, v, grad, **options), torch.float32)


def test_16_bits(override):
    take(override, FEW_LANES)
    q, k, v, grad = inputs(1, 2, 1, 100, 140, 16, 16, torch.float16)
    bias = torch.randn(1, 2, 100, 140).half().to("aule")
    options = dict(causal=True, bottom_right=True, softcap=2.0)
    check(run(q, k, v, grad, bias, **options), reference(q, k, v, grad, bias, **options), torch.float16)


def test_the_lowest_bias(override):
    """A row masked by the lowest float32 throughout has equal weights, as in softmax: its scores stay finite."""
    take(override, FEW_LANES)
    q, k, v, grad = inputs(1, 1, 1, 40, 50, 16, 16)
    bias = torch.zeros(40, 50)
    bias[::2] = torch.finfo(torch.float32).min
    bias[1::2, 20:] = torch.finfo(torch.float32).min
    bias = bias.to("aule")
    out = torch.ops.aule.flash_attn_fwd(q, k, v, bias)[0]
    check([out], reference(q, k, v, grad, bias)[:1], torch.float32)


def test_dropout(override):
    take(override, FEW_LANES)
    check_dropout(override, "simt", (1, 4, 2, 70, 77, 16, 16))
