"""A training script that a launcher starts: accelerate in as many processes, with one process's losses.

Arguments: how many processes there should be, and the file for the losses.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator

processes, out = int(sys.argv[1]), Path(sys.argv[2])
BATCH, FEATURES = 8, 12  # of all processes together

accelerator = Accelerator()
assert accelerator.num_processes == processes, accelerator.state
assert accelerator.device == torch.device("aule", accelerator.local_process_index), accelerator.device

torch.manual_seed(accelerator.process_index)  # DDP takes the weights of rank 0
model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
generator = torch.Generator().manual_seed(1)
x = torch.randn(100, FEATURES, generator=generator)
data = torch.utils.data.TensorDataset(x, x[:, :3].sum(1, keepdim=True))
train = torch.utils.data.DataLoader(data, BATCH // processes, shuffle=True, drop_last=True, generator=generator)
test = torch.utils.data.DataLoader(data, BATCH // processes)  # of 100 rows: the last batch is not whole
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
assert isinstance(model, torch.nn.parallel.DistributedDataParallel) == (processes > 1), type(model)
assert next(model.parameters()).device == accelerator.device

losses = []
for inputs, labels in train:
    assert inputs.device == accelerator.device and len(inputs) == BATCH // processes
    loss = torch.nn.functional.mse_loss(model(inputs), labels)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(accelerator.reduce(loss.detach(), "mean").item())
model.eval()
with torch.no_grad():
    gathered = [accelerator.gather_for_metrics((model(inputs), labels)) for inputs, labels in test]
found, expected = (torch.cat(parts) for parts in zip(*gathered))
assert torch.equal(expected.cpu(), data.tensors[1]), "each row once, in order"
losses.append(torch.nn.functional.mse_loss(found, expected).item())
assert accelerator.gather_for_metrics([accelerator.process_index], use_gather_object=True) == list(range(processes))
accelerator.wait_for_everyone()
if accelerator.is_main_process:
    torch.save(losses, out)
accelerator.end_training()
