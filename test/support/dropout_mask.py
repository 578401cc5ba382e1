"""Attention's dropout mask: as shaders/attention/parts/attention.glsl describes it, and as the kernels draw it."""

import numpy as np
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
    """The twelve words of every cell, [12, heads, units of queries, units of keys, cell], and what decides its ties."""
    head, row_unit, key_unit, cell = np.indices((heads, -(-queries // 32), -(-keys // 32), 32)).astype(np.uint64)
    zero = np.zeros(1, np.uint64)
    start = philox((zero + offset // 4 % 2**32, zero + offset // 2**34, zero, zero), seed % 2**64, 10)
    position = key_unit << np.uint64(5) | cell, row_unit, head, zero
    four = philox([s ^ at for s, at in zip(start, position)], 0, 4)
    five = philox(four, 0, 1, first=4)
    six = philox(five, 0, 1, first=5)
    return np.stack(philox(six, 0, 2, first=6) + six + four), five[2] * np.uint64(0x9E3779B1) & WORD


def bits(words):
    """[..., 32], the lowest first."""
    return (words[..., None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)).astype(np.int64)


def numbers(words):
    """Of each cell's 32 elements, [..., 32], the first word the highest bit."""
    place = np.arange(32, dtype=np.uint32)
    out = np.zeros((*words.shape[1:], 32), np.uint16)
    for w in words.astype(np.uint32):
        out = out << 1 | (w[..., None] >> place & 1).astype(np.uint16)
    return out


def kept_of(number, ties, p):
    """Whether each of the elements with these numbers is kept; `ties` is one for each cell."""
    steps = round(p * 2**40)
    upper, lower = steps >> 28, np.uint64(steps % 2**28 << 4)
    return (number > upper) | (number == upper) & (ties >= lower)[..., None]


def described_mask(seed, offset, heads, queries, keys, p):
    """Whether score [head, query, key] is kept; `heads` counts those of all batch elements."""
    words, ties = cell_words(seed, offset, heads, queries, keys)
    query, key = np.meshgrid(np.arange(queries), np.arange(keys), indexing="ij")
    cell = 4 * (query % 8) + key // 2 % 4
    bit = 16 * (key % 2) + 8 * (query // 16 % 2) + 4 * (key // 16 % 2) + 2 * (query // 8 % 2) + key // 8 % 2
    return torch.from_numpy(kept_of(numbers(words), ties, p)[:, query // 32, key // 32, cell, bit])


def drawn_masks(heads, queries, keys, p, dtype=torch.float32, dim=16, seed=7, backward=True):
    """The masks [head, query, key] that the forward, dQ's and dV's kernels apply after one seed.

    All scores are 0. `dim` keys at a time have values and keys of their own, so that a column of the output is a weight
    and one of dQ is the gradient of a score: with a gradient of ones above 0 where it is kept, else not. In the same
    way `dim` queries at a time have gradients of their own for dV.
    """
    units = torch.eye(dim, dtype=dtype)
    q = torch.zeros(1, heads, queries, dim, dtype=dtype)
    some = torch.zeros(1, heads, keys, dim, dtype=dtype)
    forward, dq, dv = [], [], []

    def run(k, v, grad):
        torch.aule.manual_seed(seed)
        q_, k_, v_ = (t.to("aule").requires_grad_() for t in (q, k, v))
        out, *_ = torch.ops.aule.flash_attn_fwd(q_, k_, v_, None, p)
        if backward:
            out.backward(grad.to("aule"))
        return [None if t is None else t.detach().cpu()[0] for t in (out, q_.grad, v_.grad)]

    for start in range(0, keys, dim):
        own = some.clone()
        own[:, :, start : start + dim] = units[: keys - start]
        out, grad_q, _ = run(own, own, torch.ones_like(q))
        width = min(dim, keys - start)
        forward.append(out[..., :width] != 0)
        if backward:
            dq.append(grad_q[..., :width] > 0)
    for start in range(0, queries if backward else 0, dim):
        grad = torch.zeros_like(q)
        grad[:, :, start : start + dim] = units[: queries - start]
        _, _, grad_v = run(some, some, grad)
        dv.append(grad_v[..., : min(dim, queries - start)] != 0)
    forward = torch.cat(forward, -1)
    return (forward, torch.cat(dq, -1), torch.cat(dv, -1).mT) if backward else (forward,)
