"""Few queries over many keys: the kernel that splits the keys over workgroups, against float64."""

import pytest
import torch

import torch_aule
from test_attention import check, check_dropout_like_tiles, inputs, reference, run
from torch_aule.attention import active_attention_variants


@pytest.fixture(autouse=True)
def decode_family(monkeypatch):
    monkeypatch.setenv("AULE_ATTENTION_VARIANT", "decode")


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


def test_dropout_is_that_of_the_other_families(monkeypatch):
    check_dropout_like_tiles(monkeypatch, "decode", (1, 4, 2, 2, 500, 16, 16))


def test_the_plan():
    assert active_attention_variants(64)["forward"] != "decode"  # 1024 queries are not few
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
