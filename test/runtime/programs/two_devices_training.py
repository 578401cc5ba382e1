"""Training over two devices of one process, by hand: stages with micro-batches, and replicas with halves of the batch.

One physical device twice, by TORCH_AULE_VISIBLE_DEVICES=0,0. Each has one device's losses and weights.
"""

from __future__ import annotations

import copy

import torch
from torch.nn import functional as F

import torch_aule  # noqa: F401

assert torch.aule.device_count() == 2
A, B = torch.device("aule", 0), torch.device("aule", 1)
WIDTH, ROWS, STEPS, MICRO = 33, 24, 8, 4


def block():
    return torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 65), torch.nn.GELU(),
                               torch.nn.Linear(65, WIDTH))  # fmt: skip


class Model(torch.nn.Module):
    """Four residual blocks; the embedding of the first stage is the head of the last."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([block() for _ in range(4)])
        self.shared = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.second = A

    def split(self):
        """The last two blocks move to the second device; what is shared stays with the first."""
        self.blocks[2:].to(B)
        self.second = B
        return self

    def forward(self, x):
        x = x @ self.shared
        for i, module in enumerate(self.blocks):
            x = x.to(self.second if i >= 2 else A, non_blocking=True)
            x = x + module(x)
        return x @ self.shared.to(x.device, non_blocking=True).t()


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        x = torch.randn(ROWS, WIDTH, generator=generator)
        yield x, x.roll(1, 1)


def train(model, home):
    """Micro-batches, as a pipeline has them: all forward, then all backward, so that both devices have work."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in batches():
        parts = []
        for rows, wanted in zip(x.chunk(MICRO), y.chunk(MICRO)):
            out = model(rows.to(A, non_blocking=True))
            assert out.device == home
            parts.append(F.mse_loss(out, wanted.to(home, non_blocking=True)) / MICRO)
        for part in parts:
            part.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(part.item() for part in parts))
    return losses


def train_replicas(model):
    """What DistributedDataParallel does with processes: gradients go to the first device, weights come back."""
    replicas = [model, copy.deepcopy(model).to(B)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in batches():
        parts = []
        for replica, device, rows, wanted in zip(replicas, (A, B), x.chunk(2), y.chunk(2)):
            for micro, micro_wanted in zip(rows.chunk(MICRO // 2), wanted.chunk(MICRO // 2)):
                out = replica(micro.to(device, non_blocking=True))
                parts.append(F.mse_loss(out, micro_wanted.to(device, non_blocking=True)) / MICRO)
        torch.autograd.backward(parts)  # a thread of autograd for each device
        for p, other in zip(model.parameters(), replicas[1].parameters()):
            p.grad.add_(other.grad.to(A, non_blocking=True))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        replicas[1].zero_grad()
        with torch.no_grad():
            for p, other in zip(model.parameters(), replicas[1].parameters()):
                other.copy_(p, non_blocking=True)
        losses.append(sum(part.item() for part in parts))
    return losses


class Replica(Model):
    """All of it on one device."""

    def forward(self, x):
        x = x @ self.shared
        for module in self.blocks:
            x = x + module(x)
        return x @ self.shared.t()


def compare(name, losses, model, expected, reference):
    error = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    weights = max(
        (p.detach().cpu() - q.detach().cpu()).abs().max().item()
        for p, q in zip(model.parameters(), reference.parameters(), strict=True)
    )
    print(f"{name}: losses {error:.1e}, weights {weights:.1e}")
    assert error <= 1e-6 and weights <= 1e-5, name


torch.manual_seed(0)
start = Model()
one = copy.deepcopy(start).to(A)
expected = train(one, A)
assert expected[-1] < 0.9 * expected[0], expected

split = copy.deepcopy(start).to(A).split()
assert {p.device for p in split.parameters()} == {A, B}
compare("stages", train(split, B), split, expected, one)

replica = Replica()
replica.load_state_dict(start.state_dict())
replica.to(A)
compare("replicas", train_replicas(replica), replica, expected, one)

# The gradients of both devices at once, and of a loss that both share.
x = torch.randn(7, WIDTH)
on_a, on_b = (x.to(device).requires_grad_() for device in (A, B))
loss = (on_a.sin() * on_b.to(A, non_blocking=True)).sum() + (on_b.exp() * on_a.to(B, non_blocking=True)).sum().to(A)
loss.backward()
torch.testing.assert_close(on_a.grad.cpu(), x.cos() * x + x.exp(), rtol=1e-5, atol=1e-5)
torch.testing.assert_close(on_b.grad.cpu(), x.sin() + x * x.exp(), rtol=1e-5, atol=1e-5)
