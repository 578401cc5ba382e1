"""Attention's dropout: the mask of shaders/attention/parts/attention.glsl, independent elements, p as asked."""

import math

import numpy as np
import pytest
import torch

from attention_reference import check, inputs, reference
from dropout_mask import bits, cell_words, described_mask, drawn_masks, kept_of, numbers


@pytest.mark.parametrize("p", [0.1, 0.5, 0.999, 1 - 2**-30, 0.0001, 1 / 512, 1.0])
def test_the_mask_is_the_documented_one(p):
    batch, heads, queries, keys = 2, 3, 70, 64
    q, k = torch.randn(batch, heads, queries, 8), torch.randn(batch, heads, keys, 8)
    v = torch.eye(keys).expand(batch, heads, keys, keys).contiguous()
    torch.aule.manual_seed(-12345678901234567)
    for _ in range(2):  # the second call has another offset
        out, _, seed, offset = torch.ops.aule.flash_attn_fwd(q.to("aule"), k.to("aule"), v.to("aule"), None, p)
        mask = described_mask(int(seed), int(offset), batch * heads, queries, keys, p)
        factor = mask.view(batch, heads, queries, keys) * (1 / (1 - p) if p < 1 else 1)
        torch.testing.assert_close(out.cpu(), (torch.softmax(q @ k.mT / 8**0.5, -1) * factor), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("p", [0.1, 0.0019])
@pytest.mark.parametrize("family", ["simd", "simt"])
def test_every_kernel_draws_the_documented_mask(override, family, p):
    """Those of the other families: check_dropout() in their own files."""
    override(attention_variant=family)
    want = described_mask(7, 0, 3, 100, 130, p)
    for mask in drawn_masks(3, 100, 130, p, dim=32):
        assert torch.equal(mask, want)


@pytest.mark.parametrize("p", [1e-5, 1 / 512, 0.0019, 0.1, 0.3, 0.5, 0.9])
def test_as_many_are_dropped_as_asked(p):
    """Of 2^24: uniform weights over values of 1 count a row's."""
    heads, n = 4, 2048
    q, v = torch.zeros(1, heads, n, 8, device="aule"), torch.ones(1, heads, n, 1, device="aule")
    out, *_ = torch.ops.aule.flash_attn_fwd(q, q, v, None, p)
    dropped = n - out.cpu().double()[..., 0] * n * (1 - p)
    assert (dropped - dropped.round()).abs().max() < 0.1
    dropped = dropped.round().sum().item()
    assert abs(dropped - p * heads * n * n) < 5 * math.sqrt(heads * n * n * p * (1 - p))


@pytest.mark.parametrize("p", [1e-5, 1 - 1e-6])
def test_gradients_at_the_ends_of_the_range(p):
    q, k, v, grad = inputs(1, 2, 2, 500, 400, 16, 16)
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    torch.aule.manual_seed(5)
    out, _, seed, offset = torch.ops.aule.flash_attn_fwd(q, k, v, None, p)
    out.backward(grad)
    mask = described_mask(int(seed), int(offset), 2, 500, 400, p).view(1, 2, 500, 400)
    small = 1 - p if p > 0.5 else 1.0  # what is kept is scaled by 10^6
    got = [t * small for t in (out, q.grad, k.grad, v.grad)] + [None]
    want = reference(q, k, v, grad * small, keep=mask.double() / (1 - p))
    check(got, [want[0] * small, *want[1:]], torch.float32)


def largest(a, b, self_too=True):
    """The largest correlation of columns of `a` with columns of `b`, in standard deviations of independent ones."""
    z = a.T @ b / len(a) ** 0.5
    if not self_too:
        np.fill_diagonal(z, 0)
    return np.abs(z).max()


SHAPE = 16, 16, 8  # heads, units of queries, units of keys


def words_of(seed, offset):
    heads, rows, columns = SHAPE
    return cell_words(seed, offset, heads, 32 * rows, 32 * columns)


def as_signs(values):
    """[cells, ...] of -1 and 1."""
    return (2 * values - 1).astype(np.float32)


def test_bits_are_independent():
    """Those of a cell's twelve words, with each other and with the number that its ties share."""
    words, ties = words_of(20, 4)
    signs = as_signs(bits(words)).transpose(1, 2, 3, 4, 0, 5).reshape(-1, 384)
    assert np.abs(signs[:, :256].sum(0)).max() < 5 * len(signs) ** 0.5
    assert np.abs(signs[:, 256:].sum(0)).max() < 0.1 * len(signs)  # four rounds, see attention.glsl
    assert largest(signs[:, :256], signs[:, :256], self_too=False) < 5.5  # of 32640
    assert largest(signs[:, :256], signs[:, 256:]) < 5.5
    assert largest(signs[:, 256:], signs[:, 256:], self_too=False) < 0.1 * len(signs) ** 0.5
    upper = as_signs(bits(ties.reshape(-1, 1))[:, 0, 12:])
    assert np.abs(upper.sum(0)).max() < 5 * len(upper) ** 0.5
    assert largest(signs, upper) < 5.5
    # Of one element: all 12 bits together are uniform, and no two of them tell the shared number.
    number = numbers(words).reshape(-1, 32)
    for i in range(32):
        counts = np.bincount(number[:, i], minlength=4096)
        chi = (counts - len(number) / 4096) ** 2 / (len(number) / 4096)
        assert abs(chi.sum() - 4095) < 5 * (2 * 4095) ** 0.5
        own = signs[:, i::32]
        pairs = np.concatenate([own[:, [a]] * own[:, a + 1 :] for a in range(11)], 1)
        assert largest(pairs, upper[:, 8:]) < 5.5


def test_elements_are_independent():
    """The elements that a cell keeps, with those of the cell, of its neighbours and of other calls."""
    columns = SHAPE[-1]
    calls = [(numbers(words), ties) for words, ties in (words_of(20, 4), words_of(20, 8), words_of(21, 4))]
    for p in (0.1, 0.3, 0.5):
        m, *others = (((kept_of(*call, p) - (1 - p)) / (p * (1 - p)) ** 0.5).astype(np.float32) for call in calls)
        flat = m.reshape(-1, 32)
        assert np.abs(flat.sum(0)).max() < 5 * len(flat) ** 0.5
        assert np.abs(m.sum((2, 3, 4)) / (columns * 1024) ** 0.5).max() < 5  # of a row of units
        assert largest(flat, flat, self_too=False) < 5
        for axis in range(len(SHAPE) + 1):
            here, next_ = (m.swapaxes(0, axis)[part].reshape(-1, 32) for part in (slice(-1), slice(1, None)))
            assert largest(here, next_) < 5
        for other in others:
            assert largest(flat, other.reshape(-1, 32)) < 5


def test_those_that_tie_are_decided_as_asked():
    """Elements whose upper 8 bits are the threshold's are dropped by the rest of it, each place of a cell alike."""
    p = 0.1
    share = p * 256 % 1
    drops, ties = np.zeros(32), np.zeros(32)
    for seed in range(8):
        words, shared = words_of(seed, 0)
        tied = (numbers(words[:8]) == int(p * 256)).reshape(-1, 32)
        ties += tied.sum(0)
        drops += (tied & ~kept_of(numbers(words), shared, p).reshape(-1, 32)).sum(0)
    assert np.abs((drops - ties * share) / np.sqrt(ties * share * (1 - share))).max() < 4
    assert abs(drops.sum() - ties.sum() * share) < 4 * math.sqrt(ties.sum() * share * (1 - share))


def test_seeds_may_lie_on_the_device():
    """Torch 2.11's shape inference for torch.compile runs the backward with such seeds."""
    q, k, v, g = (torch.randn(1, 2, 20, 16, device="aule") for _ in range(4))
    out, lse, seed, offset = torch.ops.aule.flash_attn_fwd(q, k, v, None, 0.3)
    wanted = torch.ops.aule.flash_attn_bwd(g, q, k, v, out, lse, seed, offset, None, 0.3)
    actual = torch.ops.aule.flash_attn_bwd(g, q, k, v, out, lse, seed.to("aule"), offset.to("aule"), None, 0.3)
    for a, w in zip(actual[:3], wanted[:3]):
        assert torch.equal(a, w)
