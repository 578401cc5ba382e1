"""Decoders of quantized blocks in NumPy, and random blocks: the references of test/quantized.

Every decoder takes [blocks, bytes] as a file has them and gives [blocks, values] in float32, by the roundings that the
formats' definition has: a product, then a sum.
"""

import numpy as np
import torch

from torch_aule import quantized

# Those that have their scales in blocks.
FORMATS = {name: form for name, form in quantized.FORMATS.items() if form.has_scales}

EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # one rounding to the dtype


def integers_off(x, w):
    """How far products of 16-bit x may be off: eight neighbours of it become integers of 15 bits times a scale.

    Half a unit of these is 2^-15 of the largest, 127 * 128 being a little less than 2^14 (gemv_quantized.comp).
    """
    most = x.double().abs().unflatten(-1, (-1, 8)).amax(-1).repeat_interleave(8, -1)
    return 2.0**-14.9 * (most @ w.double().abs().mT)


# QLoRA, arXiv:2305.14314, appendix E.
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                1.0], np.float32)  # fmt: skip
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def halves(b, at, count=1):
    return b[:, at : at + 2 * count].copy().view(np.float16).astype(np.float32)


def bits(b, first, count):
    """Fields of `count` bits from bit `first` on of bytes, as integers."""
    return (b.astype(np.int32) >> first) & ((1 << count) - 1)


def nibbles(b):
    return np.concatenate([bits(b, 0, 4), bits(b, 4, 4)], 1)


def one_bit_each(word):
    return np.unpackbits(word, axis=1, bitorder="little").astype(np.int32)


def q4_0(b):
    return halves(b, 0) * (nibbles(b[:, 2:]) - 8).astype(np.float32)


def q4_1(b):
    return halves(b, 0) * nibbles(b[:, 4:]).astype(np.float32) + halves(b, 2)


def q5_0(b):
    q = nibbles(b[:, 6:]) + 16 * one_bit_each(b[:, 2:6]) - 16
    return halves(b, 0) * q.astype(np.float32)


def q5_1(b):
    q = nibbles(b[:, 8:]) + 16 * one_bit_each(b[:, 4:8])
    return halves(b, 0) * q.astype(np.float32) + halves(b, 2)


def q8_0(b):
    return halves(b, 0) * b[:, 2:].view(np.int8).astype(np.float32)


def planes(b, width, count):
    """Runs of `width` bytes, each with 8 // count runs of values: first those of the lowest bits."""
    runs = b.reshape(len(b), -1, width)
    return np.stack([bits(runs, i, count) for i in range(0, 8, count)], 2).reshape(len(b), -1)


def scaled(d, scales, q, each):
    """d * scale, rounded, times q; the scales are those of `each` neighbours."""
    return np.repeat(d * scales.astype(np.float32), each, 1) * q.astype(np.float32)


def q2_k(b):
    s, d, dmin = b[:, :16], halves(b, 80), halves(b, 82)
    low = np.repeat(dmin * bits(s, 4, 4).astype(np.float32), 16, 1)
    return scaled(d, bits(s, 0, 4), planes(b[:, 16:80], 32, 2), 16) - low


def q3_k(b):
    q = planes(b[:, 32:96], 32, 2) + 4 * planes(b[:, :32], 32, 1) - 4
    low = np.concatenate([bits(b[:, 96:104], 0, 4), bits(b[:, 96:104], 4, 4)], 1)
    high = np.concatenate([bits(b[:, 104:108], i, 2) for i in (0, 2, 4, 6)], 1)
    return scaled(halves(b, 108), low + 16 * high - 32, q, 16)


def six_bits(s):
    scale = np.concatenate([bits(s[:, :4], 0, 6), bits(s[:, 8:], 0, 4) + 16 * bits(s[:, :4], 6, 2)], 1)
    low = np.concatenate([bits(s[:, 4:8], 0, 6), bits(s[:, 8:], 4, 4) + 16 * bits(s[:, 4:8], 6, 2)], 1)
    return scale, low


def with_six_bits(b, q):
    scale, low = six_bits(b[:, 4:16])
    return scaled(halves(b, 0), scale, q, 32) - np.repeat(halves(b, 2) * low.astype(np.float32), 32, 1)


def q4_k(b):
    return with_six_bits(b, planes(b[:, 16:], 32, 4))


def q5_k(b):
    return with_six_bits(b, planes(b[:, 48:], 32, 4) + 16 * planes(b[:, 16:48], 32, 1))


def q6_k(b):
    q = planes(b[:, :128], 64, 4) + 16 * planes(b[:, 128:192], 32, 2) - 32
    return scaled(halves(b, 208), b[:, 192:208].view(np.int8), q, 16)


def iq4_nl(b):
    return halves(b, 0) * IQ4[nibbles(b[:, 2:])]


def iq4_xs(b):
    high = b[:, 2:4].copy().view(np.uint16).astype(np.int32)
    low = np.stack([bits(b[:, 4:8], 0, 4), bits(b[:, 4:8], 4, 4)], 2).reshape(len(b), -1)
    scale = low + 16 * np.concatenate([(high >> 2 * i) & 3 for i in range(8)], 1) - 32
    return scaled(halves(b, 0), scale, IQ4[planes(b[:, 8:], 16, 4)], 32)


def mxfp4(b):
    n = nibbles(b[:, 1:])
    value = np.where(n >= 8, -1, 1).astype(np.float32) * FP4[n & 7]
    return np.ldexp(np.float32(1), b[:, :1].astype(np.int32) - 127) * value


DECODERS = {name: globals()[name] for name in FORMATS}

# Where a file's block has float16 numbers: random bytes there would be infinities and NaN.
HALVES = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q2_k": [80, 82], "q3_k": [108],
    "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "iq4_nl": [0], "iq4_xs": [0], "mxfp4": [],
}  # fmt: skip


def random_blocks(rng, format, *sizes, scale=1.0):
    """[..., file's row bytes] of random blocks whose weights are about `scale`; the last of `sizes` is k."""
    form = FORMATS[format]
    *lead, k = sizes
    blocks = rng.integers(0, 256, (*lead, k // form.values, form.block_bytes), dtype=np.uint8)
    levels = {"q2_k": 16 * 2, "q3_k": 32 * 4, "q4_k": 64 * 8, "q5_k": 64 * 16, "q6_k": 128 * 32, "iq4_xs": 32 * 127}
    size = 1 / levels.get(format, 127 if format == "iq4_nl" else 128 if format == "q8_0" else 16)
    for at in HALVES[format]:
        d = (scale * rng.uniform(-size, size, blocks.shape[:-1])).astype(np.float16)
        blocks[..., at : at + 2] = d[..., None].view(np.uint8)
    if format == "mxfp4":
        blocks[..., 0] = rng.integers(120, 128, blocks.shape[:-1]) + round(np.log2(scale))
    return blocks.reshape(*lead, form.file_row_bytes(k))


def decoded(blocks, format):
    """[..., k] in float32 of blocks as a file has them."""
    form = FORMATS[format]
    flat = DECODERS[format](np.ascontiguousarray(blocks).reshape(-1, form.block_bytes))
    return flat.reshape(*blocks.shape[:-1], -1)


def magnitudes(blocks, format):
    """|scale * q| + |offset| of every weight, a float64 tensor: what its roundings are measured by."""
    form = FORMATS[format]
    apart = np.ascontiguousarray(blocks).reshape(-1, form.block_bytes).copy()
    if format in ("q4_1", "q5_1", "q2_k", "q4_k", "q5_k"):  # scale * q + offset with q >= 0; K types subtract
        minus = 0 if format in ("q4_1", "q5_1") else 0x80
        for at, sign in zip(HALVES[format], (0, minus)):
            apart[:, at + 1] = apart[:, at + 1] & 0x7F | sign
    sizes = np.abs(DECODERS[format](apart)).reshape(*blocks.shape[:-1], -1)
    return torch.from_numpy(sizes).double()
