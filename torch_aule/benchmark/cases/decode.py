"""One query against many keys: a step of generating text."""

from __future__ import annotations

import itertools

import torch.nn.functional as F

from torch_aule.benchmark.cases.attention import FLASH_AND_CUDNN
from torch_aule.benchmark.harness.case import HALF, Case, Sizes, copies, randn, short
from torch_aule.benchmark.harness.targets import Target


def decode(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return []
    heads, kv_heads, d = 32, 8, 128

    def case(keys, dtype):
        size = 4 * kv_heads * keys * d  # K and V

        def make(device):
            q = randn(1, heads, 1, d, device=device, dtype=dtype)
            shape = (1, kv_heads, keys, d)
            caches = [[randn(*shape, device=device, dtype=dtype) for _ in range(2)] for _ in range(copies(sizes, size))]
            caches = itertools.cycle(caches)

            def call():
                k, v = next(caches)
                return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

            return call

        shapes = f"B1 H{heads}/{kv_heads} D{d} keys {keys}"
        return Case("decode", "decode", shapes, short(dtype), make, bytes=float(size), baselines=FLASH_AND_CUDNN,
                    target=Target("copy", 0.7, 0.9))  # fmt: skip

    return [case(keys, dtype) for keys in sizes.decode_keys for dtype in HALF]
