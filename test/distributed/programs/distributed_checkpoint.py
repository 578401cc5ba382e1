"""torch.distributed.checkpoint: what two ranks save, sharded by FSDP2, one rank loads, and the other way round."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from distributed_group import device, rank, size, start

folder, how = sys.argv[4], sys.argv[5]
WIDTH, ROWS = 15, 12


def model_and_optimizer(seed, sharded):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 40), torch.nn.GELU(), torch.nn.Linear(40, WIDTH)).to(device)
    model.register_buffer("counted", torch.tensor(seed, device=device))
    if sharded:
        fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def train(model, optimizer, steps, first=0):
    """Losses of all rows, of which each rank has its share."""
    losses = []
    for step in range(first, first + steps):
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step))
        x = x.chunk(size)[rank].to(device)
        loss = F.mse_loss(model(x), x.roll(1, 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        losses.append(total.item())
    return losses


class Application(dcp.stateful.Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def save(asynchronously=False):
    model, optimizer = model_and_optimizer(1, sharded=size > 1)
    train(model, optimizer, 3)
    state = {"app": Application(model, optimizer), "step": torch.tensor(3, device=device), "name": "three steps"}
    if asynchronously:
        saved = dcp.async_save(state, checkpoint_id=folder)
        later = train(model, optimizer, 3, first=3)  # while the copies are written
        saved.result()
    else:
        dcp.save(state, checkpoint_id=folder)
        later = train(model, optimizer, 3, first=3)
    print(*later)
    # The usual whole state dict, on rank 0 and on the CPU, and back.
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole, _ = get_state_dict(model, optimizer, options=options)
    if rank == 0:
        assert whole["0.weight"].shape == (40, WIDTH) and whole["0.weight"].device.type == "cpu"
    fresh, _ = model_and_optimizer(5, sharded=size > 1)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(fresh, whole, options=options)
    for p, q in zip(model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(*(t.full_tensor() if size > 1 else t for t in (p, q)))


def load():
    model, optimizer = model_and_optimizer(2, sharded=size > 1)
    state = {"app": Application(model, optimizer), "step": torch.tensor(0, device=device), "name": ""}
    dcp.load(state, checkpoint_id=folder)
    assert state["step"].item() == 3 and state["step"].device == device and state["name"] == "three steps"
    assert model.counted.item() == 1
    print(*train(model, optimizer, 3, first=3))


start()
{"save": save, "save asynchronously": lambda: save(True), "load": load}[how]()
dist.destroy_process_group()
