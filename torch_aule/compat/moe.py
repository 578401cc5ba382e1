"""Mixture of experts: tokens go to the experts that a router chooses, and nothing is read by the host."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule.indices import autocast_operands

__all__ = ["MixtureOfExperts", "Route", "moe_topk_route"]


class Route(NamedTuple):
    """The experts of tokens, as :func:`moe_topk_route` says.

    Attributes
    ----------
    weights : torch.Tensor
        ``[tokens, k]``.
    indices : torch.Tensor
        ``[tokens, k]``, experts.
    counts : torch.Tensor
        ``[experts]``, tokens of each.
    offsets : torch.Tensor
        ``[experts]``, their running sum.
    permutation : torch.Tensor
        ``[tokens * k]``.
    """

    weights: torch.Tensor
    indices: torch.Tensor
    counts: torch.Tensor
    offsets: torch.Tensor
    permutation: torch.Tensor


def moe_topk_route(logits: torch.Tensor, k: int) -> Route:
    """The `k` experts of each token, and the order in which experts take their tokens one after the other.

    ``torch.ops.aule.moe_topk_route``. Nothing is read by the host: `offsets` is `offs` of ``F.grouped_mm``.

    Parameters
    ----------
    logits : torch.Tensor
        ``[tokens, experts]``, floating. Differentiable through `weights`.
    k : int
        Experts of a token, from 1 to all.

    Returns
    -------
    Route
        weights ``[tokens, k]``, softmax over the chosen logits, of their dtype; indices ``[tokens, k]``, int64, largest
        logit first; counts ``[experts]``, int32, tokens of each expert; offsets ``[experts]``, int32, running sums;
        permutation ``[tokens * k]``, int64: places in ``indices.flatten()`` sorted by expert, tokens of one in order.

    Raises
    ------
    ValueError
        If `logits` is no floating matrix, or `k` is out of range.

    References
    ----------
    N. Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", 2017,
    arXiv:1701.06538.
    """
    return Route(*torch.ops.aule.moe_topk_route(logits, k))


class MixtureOfExperts(nn.Module):
    """A gated feed-forward layer of experts, as in Mixtral: ``down(silu(gate(x)) * up(x))``, weighted and summed.

    Parameters
    ----------
    dim, hidden : int
        Features of a token, and between an expert's layers. With bfloat16 and float16 both are multiples of 8, as
        ``F.grouped_mm`` wants them.
    experts : int
        How many there are.
    top_k : int, default 2
        How many a token goes to.
    device : torch.device, optional
        Of the parameters.
    dtype : torch.dtype, optional
        Of the parameters: float32, float16 or bfloat16.

    Attributes
    ----------
    router : torch.nn.Parameter
        ``[experts, dim]``.
    gate, up : torch.nn.Parameter
        ``[experts, dim, hidden]``.
    down : torch.nn.Parameter
        ``[experts, hidden, dim]``.
    """

    def __init__(self, dim: int, hidden: int, experts: int, top_k: int = 2, device=None, dtype=None):
        super().__init__()
        if not 1 <= top_k <= experts:
            raise ValueError(f"MixtureOfExperts: expected top_k between 1 and {experts} experts, but got {top_k}")
        self.top_k = top_k

        def parameter(*shape, inputs):
            bound = 1 / math.sqrt(inputs)
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype).uniform_(-bound, bound))

        self.router = parameter(experts, dim, inputs=dim)
        self.gate = parameter(experts, dim, hidden, inputs=dim)
        self.up = parameter(experts, dim, hidden, inputs=dim)
        self.down = parameter(experts, hidden, dim, inputs=hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens through their experts.

        Parameters
        ----------
        x : torch.Tensor
            ``[..., dim]``.

        Returns
        -------
        torch.Tensor
            Like `x`.
        """
        tokens = x.reshape(-1, x.size(-1))
        route = moe_topk_route(F.linear(tokens, self.router), self.top_k)
        owners = route.permutation // self.top_k
        sorted_tokens = tokens[owners]

        def product(a, weight):
            if weight.size(1) % 8 == weight.size(2) % 8 == 0:  # what PyTorch asks of 16-bit operands
                a, weight = autocast_operands(a, weight)
            return F.grouped_mm(a.to(weight.dtype), weight, offs=route.offsets)

        hidden = F.silu(product(sorted_tokens, self.gate)) * product(sorted_tokens, self.up)
        weighted = product(hidden, self.down) * route.weights.flatten()[route.permutation].unsqueeze(1)
        return torch.zeros_like(tokens).index_add(0, owners, weighted.to(tokens.dtype)).view(x.shape)
