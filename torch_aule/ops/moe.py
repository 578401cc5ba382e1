"""``aule::moe_topk_route``, of operators that are there: any device, differentiable, nothing is read by the host."""

from __future__ import annotations

import torch


def _route(logits: torch.Tensor, k: int):
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ValueError(
            f"moe_topk_route: expected floating logits of shape [tokens, experts], but got {logits.dtype} of "
            f"{list(logits.shape)}"
        )
    experts = logits.size(1)
    if not 1 <= k <= experts:
        raise ValueError(f"moe_topk_route: expected k between 1 and {experts} experts, but got {k}")
    chosen, indices = logits.topk(k, dim=1)
    weights = torch.softmax(chosen, dim=1, dtype=torch.float32).to(logits.dtype)
    flat = indices.flatten()
    counts = (flat.unsqueeze(1) == torch.arange(experts, device=flat.device)).sum(0, dtype=torch.int32)
    offsets = counts.cumsum(0, dtype=torch.int32)
    permutation = torch.sort(flat, stable=True).indices
    return weights, indices, counts, offsets, permutation


_LIBRARY = torch.library.Library("aule", "FRAGMENT")
_LIBRARY.define(
    "moe_topk_route(Tensor logits, int k) -> (Tensor weights, Tensor indices, Tensor counts, Tensor offsets, Tensor "
    "permutation)"
)
_LIBRARY.impl("moe_topk_route", _route, "CompositeImplicitAutograd")
