"""Attention over jagged tensors (`torch.nested`, ``layout=torch.jagged``) takes the kernels for packed sequences.

PyTorch asks CUDA's rules whether its flash operator serves such a call; the operator itself is ours here.
"""

from __future__ import annotations

import functools

__all__ = ["install"]


def install(device_type: str) -> None:
    """Wrap functions of `torch.nested._internal.sdpa`, which are looked up there for each call."""
    from torch.nested._internal import sdpa

    choose, pad = sdpa._select_sdp_backend, sdpa._pad_last_dim

    @functools.wraps(choose)
    def choose_ours(query, key, value, attn_mask, dropout, is_causal, enable_gqa):
        fused = sdpa.flash_sdp_enabled() or sdpa.mem_efficient_sdp_enabled()
        if query.device.type != device_type or not fused:
            return choose(query, key, value, attn_mask, dropout, is_causal, enable_gqa)
        refused = {
            "dropout": dropout > 0,
            "other numbers of key heads": not query.size(1) == key.size(1) == value.size(1),
            "sequences with holes (contiguous() closes them)": any(
                t.lengths() is not None for t in (query, key, value)
            ),
        }
        if any(refused.values()):  # a NotImplementedError would be taken for a function without a rule
            what = ", ".join(name for name, asked in refused.items() if asked)
            raise RuntimeError(
                f"scaled_dot_product_attention: {what} of jagged tensors: not supported on {device_type}"
            )
        return sdpa.SDPBackend.FLASH_ATTENTION

    @functools.wraps(pad)
    def pad_for_others(tensor, alignment_size, slice):  # ours takes any head size
        return tensor if tensor.device.type == device_type else pad(tensor, alignment_size, slice)

    sdpa._select_sdp_backend, sdpa._pad_last_dim = choose_ours, pad_for_others
