"""Trains a graph network by message passing: which of two communities does a node belong to?

    python -m torch_aule.examples.gnn

Each edge carries a message from its source to its target; a node takes their mean (`index_add`) and their largest
element (`scatter_reduce`), beside its own state (Gilmer et al., "Neural Message Passing for Quantum Chemistry", 2017,
arXiv:1704.01212). Labels of a tenth of the nodes are known.
"""

from __future__ import annotations

import sys

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn as nn
import torch.nn.functional as F


class Messages(nn.Module):
    """One round: states [N, width], edges [2, E] (source, target) -> [N, width]."""

    def __init__(self, width: int):
        super().__init__()
        self.message, self.update = nn.Linear(2 * width, width), nn.Linear(3 * width, width)

    def forward(self, states, edges):
        source, target = edges
        messages = F.gelu(self.message(torch.cat((states[source], states[target]), -1)))
        total = torch.zeros_like(states).index_add(0, target, messages)
        degree = states.new_zeros(len(states)).index_add(0, target, torch.ones_like(target, dtype=states.dtype))
        rows = target[:, None].expand_as(messages)
        largest = torch.zeros_like(states).scatter_reduce(0, rows, messages, "amax", include_self=False)
        mean = total / degree.clamp_min(1)[:, None]
        return states + self.update(torch.cat((states, mean, largest), -1))


class GraphNetwork(nn.Module):
    """Classes of nodes: features [N, F], edges [2, E] -> [N, classes]."""

    def __init__(self, features=8, width=16, rounds=2, classes=2):
        super().__init__()
        self.lift, self.head = nn.Linear(features, width), nn.Linear(width, classes)
        self.rounds = nn.ModuleList(Messages(width) for _ in range(rounds))

    def forward(self, features, edges):
        states = self.lift(features)
        for one in self.rounds:
            states = one(states, edges)
        return self.head(states)


def communities(nodes: int, features: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features that say a little, edges that lie in a community more often than not, and the community."""
    label = torch.randint(2, (nodes,))
    near = (label[:, None] == label) & (torch.rand(nodes, nodes) < 8 / nodes)
    edges = (near | (torch.rand(nodes, nodes) < 2 / nodes)).nonzero().T.contiguous()
    x = torch.randn(nodes, features)
    x[:, 0] += label * 2.0 - 1.0
    return x, edges, label


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=200)
    options = parser.parse_args(arguments)
    device = common.begin(options.device)
    torch.manual_seed(0)
    x, edges, label = (t.to(device) for t in communities(options.nodes, 8))
    model = GraphNetwork().to(device)
    error = common.error_of_training(model, (x, edges))
    known = options.nodes // 10
    common.train(
        model,
        lambda: (x, edges, label),
        lambda y, target: F.cross_entropy(y[:known], target[:known]),
        options.steps,
        5e-3,
    )
    with torch.no_grad():
        right = (model(x, edges).argmax(-1) == label)[known:].float().mean().item()
    print(f"{right:.1%} of the other nodes are in the right community")
    return common.verdict(error)


if __name__ == "__main__":
    sys.exit(main())
