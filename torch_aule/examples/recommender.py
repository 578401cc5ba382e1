"""Trains a small recommender: embeddings of categories, and the products of each pair of them.

    python -m torch_aule.examples.recommender

Sparse features are bags of indices, summed by `EmbeddingBag`; a network takes the dense ones to the same width; then
come the dot products of all pairs (Naumov et al., "Deep Learning Recommendation Model", 2019, arXiv:1906.00091).
"""

from __future__ import annotations

import sys

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn as nn
import torch.nn.functional as F


class Recommender(nn.Module):
    """Logits of clicks: dense [B, D], indices [B, tables, bag] -> [B]."""

    def __init__(self, dense=5, tables=4, rows=50, width=8):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 16), nn.ReLU(), nn.Linear(16, width))
        pairs = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", pairs)
        self.top = nn.Sequential(nn.Linear(width + pairs.shape[1], 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, indices):
        below = self.bottom(dense)
        vectors = torch.stack((below, *(bag(indices[:, i]) for i, bag in enumerate(self.bags))), 1)
        products = vectors @ vectors.transpose(1, 2)
        return self.top(torch.cat((below, products[:, self.pairs[0], self.pairs[1]]), 1)).squeeze(1)


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args(arguments)
    device = common.begin(options.device)
    torch.manual_seed(0)
    taste = torch.randn(4, 50)

    def batch(count=options.batch):
        dense, indices = torch.randn(count, 5), torch.randint(50, (count, 4, 3))
        liking = torch.stack([taste[i][indices[:, i]].sum(-1) for i in range(4)], -1).sum(-1) + dense[:, 0]
        return dense.to(device), indices.to(device), (liking > 0).float().to(device)

    model = Recommender().to(device)
    error = common.error_of_training(model, batch(7)[:2])
    common.train(model, batch, F.binary_cross_entropy_with_logits, options.steps, 2e-2)
    return common.verdict(error)


if __name__ == "__main__":
    sys.exit(main())
