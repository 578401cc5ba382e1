"""Caches in 8 bits as kv_cache_append writes them: on the CPU, for the tests that read or compare them."""

import torch

BLOCK = 32
LEAST = 2.0**-113  # blocks without a larger number are zeros


def quantized(x):
    """int8 numbers like `x`, and bfloat16 scales [.., size / 32]: the largest by 127, rounded up."""
    blocks = x.float().unflatten(-1, (-1, BLOCK))
    most = blocks.abs().amax(-1, keepdim=True)
    up = (((most / 127.0).view(torch.int32) + 0xFFFF) >> 16 << 16).view(torch.float32)
    scale = torch.where(most < LEAST, 0.0, up)
    numbers = torch.where(scale > 0, blocks / scale, 0.0).round().clamp(-127, 127)
    odd = ~most.isfinite()
    numbers, scale = torch.where(odd, 0.0, numbers), torch.where(odd, torch.nan, scale)
    return numbers.to(torch.int8).flatten(-2), scale.squeeze(-1).to(torch.bfloat16)


def numbers_of(cache, scale):
    """What a cache says, in float64."""
    blocks = cache.cpu().double().unflatten(-1, (-1, BLOCK))
    return (blocks * scale.cpu().double()[..., None]).flatten(-2)


def rounded(x):
    """`x` after it has been in such a cache."""
    return numbers_of(*quantized(x)).to(x.dtype)


def largest(x):
    """Of each number, the largest of its block."""
    return x.double().unflatten(-1, (-1, BLOCK)).abs().amax(-1).repeat_interleave(BLOCK, -1)


def new_cache(*shape, device="aule", fill=0):
    """Numbers and scales [.., size]; of rows that nobody has written, whatever `fill` says, and NaN."""
    numbers = torch.full(shape, fill, dtype=torch.int8, device=device)
    return numbers, torch.full((*shape[:-1], shape[-1] // BLOCK), torch.nan, dtype=torch.bfloat16, device=device)
