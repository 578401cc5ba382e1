"""Attention on cooperative matrices of unknown layout: shared memory between the products, masks, groups.

Runs wherever 16-bit cooperative matrices are usable, known layout or not. A software device compiles each kernel for
half a minute, hence few specializations.
"""

import pytest
import torch

from attention_reference import check, check_dropout, inputs, reference, run
from matrix_units import ON_CPU, matrix_dtypes
from torch_aule.attention import active_attention_variants

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.parametrize("dtype", matrix_dtypes("usable"))]


@pytest.fixture(autouse=True)
def staged_family(override):
    override(attention_variant="coopmat_opaque")


def compare(dtype, sizes, bias=None, **options):
    assert set(active_attention_variants(sizes[-2], sizes[-1]).values()) == {"coopmat_opaque"}
    q, k, v, grad = inputs(*sizes, dtype)
    check(run(q, k, v, grad, bias, **options), reference(q, k, v, grad, bias, **options), dtype)


@pytest.mark.current_long
def test_groups_of_ragged_lengths_causal(dtype):
    compare(dtype, (2, 4, 2, 45, 77, 16, 16), causal=True, bottom_right=True)


@pytest.mark.validated
def test_whole_tiles(dtype):
    compare(dtype, (1, 2, 1, 64, 128, 16, 16))


@pytest.mark.current_long
def test_a_window_that_moves_some_subgroups_only(dtype):
    compare(dtype, (1, 2, 2, 75, 75, 16, 16), causal=True, window=(9, -1))


@pytest.mark.current_long
def test_padded_heads_with_bias_and_softcap(dtype):
    bias = torch.randn(1, 2, 37, 50, device="aule")
    compare(dtype, (1, 2, 2, 37, 50, 12, 11), bias=bias, softcap=3.0)


def test_dropout(dtype, override):
    check_dropout(override, "coopmat_opaque", (1, 2, 2, 37, 50, 16, 16), dtype)


def test_deterministic(dtype):
    q, k, v, grad = inputs(1, 4, 2, 77, 77, 16, 16, dtype)
    first = run(q, k, v, grad, causal=True)
    for a, b in zip(first, run(q, k, v, grad, causal=True)):
        assert a is None or torch.equal(a.cpu(), b.cpu())


@pytest.mark.skipif(ON_CPU, reason="a software device compiles each of these for a minute")
@pytest.mark.parametrize("dim, v_dim", [(32, 32), (64, 64), (96, 40), (128, 128), (136, 192), (256, 256)])
@pytest.mark.parametrize("causal", [False, True])
def test_head_sizes(dtype, dim, v_dim, causal):
    compare(dtype, (1, 4, 2, 333, 400, dim, v_dim), causal=causal)
    compare(dtype, (1, 4, 4, 512, 512, dim, v_dim), causal=causal)
