"""Few queries over many keys: the kernels that split the keys over workgroups, against float64."""

import pytest
import torch

import torch_aule
from attention_reference import DECODE, check, check_dropout, inputs, reference, run
from torch_aule.attention import active_attention_variants

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

lanes_only = pytest.mark.parametrize("family", DECODE[1:], indirect=True)


@pytest.fixture(autouse=True, params=DECODE)
def family(request, override):
    override(attention_variant=request.param)
    return request.param


def compare(dtype, sizes, bias=None, **options):
    """The forward; the backward of the same call is another family's."""
    q, k, v, grad = inputs(*sizes, dtype)
    actual = run(q, k, v, grad, bias, **options)
    check(actual, reference(q, k, v, grad, bias, **options), dtype)


@pytest.mark.parametrize(
    "dtype, sizes",
    [
        (torch.float16, (1, 8, 2, 1, 1000, 64, 64)),  # a group of four heads
        (torch.float32, (2, 3, 3, 5, 300, 16, 40)),
        (torch.float32, (1, 1, 1, 1, 7, 8, 8)),  # fewer keys than invocations
        (torch.bfloat16, (1, 4, 2, 3, 700, 20, 13)),  # columns that are no multiple of eight
    ],
)
def test_sizes(dtype, sizes):
    compare(dtype, sizes)


def test_bands():
    compare(torch.float32, (1, 4, 2, 4, 600, 16, 16), causal=True, bottom_right=True)
    compare(torch.float32, (1, 4, 2, 4, 600, 16, 16), causal=True)  # the first rows see one to four keys
    compare(torch.float32, (1, 4, 2, 4, 600, 16, 16), window=(50, 0), bottom_right=True)


@pytest.mark.parametrize("kind", ["float", "bool"])
def test_bias(kind):
    mask = torch.randn(1, 4, 2, 500) if kind == "float" else torch.rand(1, 1, 2, 500) > 0.5
    if kind == "bool":
        mask[..., 1, :] = False  # a row that sees nothing
    compare(torch.float32, (1, 4, 2, 2, 500, 16, 16), bias=mask.to("aule"), softcap=3.0, scale=-0.3)


def test_dropout(override, family):
    check_dropout(override, family, (1, 4, 2, 2, 250, 16, 16), backward=False)


def test_the_plan():
    assert not active_attention_variants(64)["forward"].startswith("splitkv")  # 1024 queries are not few
    q, k, v, _ = inputs(1, 32, 8, 1, 4096, 64, 64)
    _, lse = torch_aule.flash_attention(q, k, v, causal=False, return_lse=True)
    scores = (q.cpu().double() @ k.cpu().double().repeat_interleave(4, 1).transpose(-1, -2)) / 8
    torch.testing.assert_close(lse.cpu().double(), scores.logsumexp(-1), rtol=1e-6, atol=1e-5)


def test_strides():
    cache = torch.randn(2, 900, 2, 2, 16).to("aule")  # [B, L, 2, H, D]
    k, v = (cache[:, :700, i].transpose(1, 2) for i in range(2))
    q = torch.randn(2, 1, 4, 16).to("aule").transpose(1, 2)
    grad = torch.randn(2, 4, 1, 16).to("aule")
    check(run(q, k, v, grad), reference(q, k, v, grad), torch.float32)


def test_every_row_hidden():
    compare(torch.float32, (1, 2, 1, 2, 40, 16, 16), bias=torch.zeros(1, 1, 2, 40, dtype=torch.bool).to("aule"))


@lanes_only
@pytest.mark.parametrize(
    "shape, dtype, sizes",
    [
        ("64,4", torch.float16, (1, 8, 2, 1, 1000, 64, 64)),  # several subgroups, and keys that share a lane
        ("32,8", torch.bfloat16, (1, 16, 1, 1, 300, 16, 72)),  # four blocks of rows
        ("32,2", torch.float32, (2, 3, 1, 2, 70, 24, 72)),  # rows that do not fill the teams, many columns of v
        ("16,1", torch.float16, (1, 2, 2, 1, 3, 8, 8)),  # fewer keys than teams
    ],
)
def test_teams(override, family, shape, dtype, sizes):
    override(attention_shape=shape)
    compare(dtype, sizes)


@lanes_only
def test_scores_that_rise_late(family):
    """The reference maximum follows them, from far below what exp2 can hold."""
    q, k, v, _ = inputs(1, 4, 1, 1, 900, 16, 16)
    k = (k.cpu() * torch.linspace(0.1, 300, 900)[:, None]).to("aule")
    scores = q.cpu().double() @ k.cpu().double().transpose(-1, -2) / 4
    out = torch_aule.flash_attention(q, k, v, causal=False)
    torch.testing.assert_close(out.cpu().double(), scores.softmax(-1) @ v.cpu().double(), rtol=1e-3, atol=1e-3)


@lanes_only
def test_calls_leave_the_counters_at_zero(family):
    q, k, v, _ = inputs(3, 4, 2, 1, 700, 16, 16)
    wanted = torch_aule.flash_attention(q, k, v, causal=False).cpu()
    for _ in range(3):
        for batch in (1, 3, 2):
            out = torch_aule.flash_attention(q[:batch], k[:batch], v[:batch], causal=False)
            torch.testing.assert_close(out.cpu(), wanted[:batch], rtol=1e-5, atol=1e-6)
    other = torch.Stream("aule")
    torch.aule.synchronize()
    with other:
        out = torch_aule.flash_attention(q, k, v, causal=False)
    torch.aule.synchronize()
    assert torch.equal(out.cpu(), wanted)
