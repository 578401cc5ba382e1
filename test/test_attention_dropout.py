"""Attention's dropout mask: the one that shaders/attention/attention.glsl describes, of independent elements."""

import numpy as np
import pytest
import torch

WORD = np.uint64(0xFFFFFFFF)


def philox(counter, key, rounds, first=0):
    """Rounds `first` to `first + rounds` of Philox4x32."""
    x, y, z, w = counter
    for i in range(first, first + rounds):
        k0 = np.uint64((key + i * 0x9E3779B9) & 0xFFFFFFFF)
        k1 = np.uint64(((key >> 32) + i * 0xBB67AE85) & 0xFFFFFFFF)
        a, b = x * np.uint64(0xD2511F53), z * np.uint64(0xCD9E8D57)
        x, y, z, w = b >> np.uint64(32) ^ y ^ k0, b & WORD, a >> np.uint64(32) ^ w ^ k1, a & WORD
    return x, y, z, w


def cell_words(seed, offset, heads, queries, keys):
    """The eight words of every cell, [8, heads, units of queries, units of keys, cell]."""
    head, row_unit, key_unit, cell = np.indices((heads, -(-queries // 32), -(-keys // 32), 32)).astype(np.uint64)
    zero = np.zeros(1, np.uint64)
    start = philox((zero + offset // 4 % 2**32, zero + offset // 2**34, zero, zero), seed % 2**64, 10)
    position = key_unit << np.uint64(5) | cell, row_unit, head, zero
    low = philox([s ^ at for s, at in zip(start, position)], 0, 6)
    return np.stack(philox(low, 0, 2, first=6) + low)


def bits(words):
    """[..., 32], the lowest first."""
    return (words[..., None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)).astype(np.int64)


def kept(words, queries, keys, threshold):
    """Whether score [head, query, key] is kept."""
    numbers = sum(bits(w) << 7 - i for i, w in enumerate(words))
    query, key = np.meshgrid(np.arange(queries), np.arange(keys), indexing="ij")
    cell = 4 * (query % 8) + key // 2 % 4
    bit = 16 * (key % 2) + 8 * (query // 16 % 2) + 4 * (key // 16 % 2) + 2 * (query // 8 % 2) + key // 8 % 2
    return numbers[:, query // 32, key // 32, cell, bit] >= threshold


@pytest.mark.parametrize("p, threshold", [(0.1, 26), (0.5, 128), (0.999, 255), (0.0001, 0)])
def test_the_mask_is_the_documented_one(p, threshold):
    batch, heads, queries, keys = 2, 3, 70, 64
    q, k = torch.randn(batch, heads, queries, 8), torch.randn(batch, heads, keys, 8)
    v = torch.eye(keys).expand(batch, heads, keys, keys).contiguous()
    torch.aule.manual_seed(-12345678901234567)
    for _ in range(2):  # the second call has another offset
        out, _, seed, offset = torch.ops.aule.flash_attn_fwd(q.to("aule"), k.to("aule"), v.to("aule"), None, p)
        words = cell_words(int(seed), int(offset), batch * heads, queries, keys)
        mask = torch.from_numpy(kept(words, queries, keys, threshold)).view(batch, heads, queries, keys)
        weights = torch.softmax(q @ k.mT / 8**0.5, -1) * mask / (1 - threshold / 256)
        torch.testing.assert_close(out.cpu(), weights, atol=1e-5, rtol=1e-4)


def largest(a, b, self_too=True):
    """The largest correlation of columns of `a` with columns of `b`, in standard deviations of independent ones."""
    z = a.T @ b / len(a) ** 0.5
    if not self_too:
        np.fill_diagonal(z, 0)
    return np.abs(z).max()


def test_elements_are_independent():
    """Bits of a cell's eight words, and the elements that they keep, with those of the cell and of its neighbours."""
    shape = heads, rows, columns = 16, 16, 8  # units
    words = cell_words(20, 4, heads, 32 * rows, 32 * columns)
    signs = (2 * bits(words) - 1).astype(np.float32).transpose(1, 2, 3, 4, 0, 5).reshape(-1, 256)
    assert np.abs(signs.sum(0)).max() < 5 * len(signs) ** 0.5
    assert largest(signs, signs, self_too=False) < 5.5  # of 32640
    others = cell_words(20, 8, heads, 32 * rows, 32 * columns), cell_words(21, 4, heads, 32 * rows, 32 * columns)
    for threshold in (26, 77, 128):
        share = 1 - threshold / 256

        def scaled(words):
            keep = sum(bits(w) << 7 - i for i, w in enumerate(words)) >= threshold
            return ((keep - share) / (share * (1 - share)) ** 0.5).astype(np.float32)

        m = scaled(words)
        flat = m.reshape(-1, 32)
        assert np.abs(flat.sum(0)).max() < 5 * len(flat) ** 0.5
        assert np.abs(m.sum((2, 3, 4)) / (columns * 1024) ** 0.5).max() < 5  # of a row of units
        assert largest(flat, flat, self_too=False) < 5
        for axis in range(len(shape) + 1):
            here, next_ = (m.swapaxes(0, axis)[part].reshape(-1, 32) for part in (slice(-1), slice(1, None)))
            assert largest(here, next_) < 5
        for other in others:
            assert largest(flat, scaled(other).reshape(-1, 32)) < 5
