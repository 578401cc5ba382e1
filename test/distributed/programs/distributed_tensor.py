"""DTensor and tensor parallelism (`parallelize_module`) against one process, alone and with FSDP2 on a 2-D mesh."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F

from distributed_group import device, rank, size, start

STEPS, ROWS, TOKENS, WIDTH, HEADS, WORDS = 20, 4, 12, 48, 6, 36


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.v, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.k = torch.nn.Linear(WIDTH, WIDTH, bias=False)  # a bias would have gradients of rounding errors alone

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, WIDTH)
        self.blocks = torch.nn.ModuleList([Block() for _ in range(2)])
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def parallel(model, mesh, *, sequence=False, split_loss=False):
    """Megatron's plan; with `sequence` the norms work on shares of the tokens, too."""
    between = Shard(1) if sequence else Replicate()
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(
            input_layouts=between,
            output_layouts=Shard(-1) if split_loss else Replicate(),
            use_local_output=not split_loss,
        ),
    }
    if not sequence:
        del plan["norm"]
    parallelize_module(model, mesh, plan)
    for block in model.blocks:
        plan = {
            "attention.q": ColwiseParallel(),
            "attention.k": ColwiseParallel(),
            "attention.v": ColwiseParallel(),
            "attention.out": RowwiseParallel(output_layouts=between),
            "up": ColwiseParallel(),
            "down": RowwiseParallel(output_layouts=between),
        }
        if sequence:
            plan |= {
                "norm1": SequenceParallel(),
                "norm2": SequenceParallel(),
                "attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
                "up": ColwiseParallel(input_layouts=Shard(1)),
            }
        parallelize_module(block, mesh, plan)
    return model


def train(model, shares=1, share=0, split_loss=False):
    # PyTorch's multi-tensor forms refuse tensors beside DTensors (the norms are plain without `sequence`).
    mixed = len({isinstance(p, DTensor) for p in model.parameters()}) > 1
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False if mixed else None)
    generator = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(STEPS):
        tokens = torch.randint(1, 3, (ROWS, TOKENS + 1), generator=generator).cumsum(1) % WORDS
        tokens = tokens.chunk(shares)[share].to(device)
        if split_loss:
            with loss_parallel():
                loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
            loss = loss.full_tensor()
        else:
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses)


def compare(name, mesh, change, shares=1, share=0, **options):
    torch.manual_seed(0)
    reference = Model().to(device)
    model = change(copy.deepcopy(reference))
    losses = train(model, shares, share, **options)
    if shares > 1:
        dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    expected = train(reference)
    error = (losses - expected).abs().max().item()
    print(f"{name}: {error:.1e}")
    assert error <= 1e-5, f"{name}: losses differ by {error}"
    assert expected[-1] < expected[0]
    for (key, p), q in zip(model.named_parameters(), reference.parameters(), strict=True):
        whole = p.full_tensor() if isinstance(p, DTensor) else p
        assert (whole - q).abs().max().item() <= 1e-4, f"{name}: {key}"


def placements(mesh):
    """Every change between placements, uneven shards, and what operators make of them."""
    torch.manual_seed(3)
    whole = torch.randn(5, 7, device=device)
    for before in (Replicate(), Shard(0), Shard(1)):
        d = distribute_tensor(whole, mesh, [before])
        for after in (Replicate(), Shard(0), Shard(1)):
            changed = d.redistribute(mesh, [after])
            torch.testing.assert_close(changed.full_tensor(), whole, rtol=0, atol=0)
            assert after.is_replicate() or changed.to_local().numel() < whole.numel()
        torch.testing.assert_close((d @ d.t()).full_tensor(), whole @ whole.t())
        torch.testing.assert_close(d.sum(0).full_tensor(), whole.sum(0))
        torch.testing.assert_close(d.softmax(1).full_tensor(), whole.softmax(1))
        torch.testing.assert_close(d.var().full_tensor(), whole.var())
    assert torch.distributed.tensor.zeros(5, 3, device_mesh=mesh, placements=[Shard(0)]).full_tensor().eq(0).all()


def random_numbers(mesh):
    """Shards draw what the whole tensor would; replicas agree."""
    torch.manual_seed(5)
    sharded = torch.distributed.tensor.rand(64, 3, device_mesh=mesh, placements=[Shard(0)]).full_tensor()
    replicated = torch.distributed.tensor.rand(64, 3, device_mesh=mesh, placements=[Replicate()])
    assert sharded.unique().numel() > 150, "shards repeat each other's numbers"
    ours, others = replicated.to_local(), replicated.to_local().clone()
    dist.broadcast(others, 0)
    assert torch.equal(ours, others)
    dropped = F.dropout(distribute_tensor(torch.ones(64, 8, device=device), mesh, [Shard(0)]), 0.5).full_tensor()
    assert not torch.equal(dropped[:32], dropped[32:])


start()
torch.aule.set_device(device)
mesh = init_device_mesh("aule", (size,))
placements(mesh)
random_numbers(mesh)
compare("tensor parallel", mesh, lambda model: parallel(model, mesh))
compare("sequence parallel", mesh, lambda model: parallel(model, mesh, sequence=True))
compare("split loss", mesh, lambda model: parallel(model, mesh, split_loss=True), split_loss=True)
if size == 2:
    both = init_device_mesh("aule", (2, 1), mesh_dim_names=("data", "tensor"))

    def sharded_too(model):
        parallel(model, both["tensor"])
        for block in model.blocks:
            fully_shard(block, mesh=both["data"])
        return fully_shard(model, mesh=both["data"])

    compare("with FSDP2", both, sharded_too, shares=2, share=rank)
dist.destroy_process_group()
