"""accelerate in two launched processes: one group, a device each, the gradients of both."""

import os
import sys

import torch
import torch.distributed as dist

import torch_aule  # noqa: F401

rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))

from accelerate import Accelerator  # noqa: E402
from accelerate.utils import InitProcessGroupKwargs  # noqa: E402

init = InitProcessGroupKwargs(init_method=f"file://{store}?rank={rank}&world_size={size}")
accelerator = Accelerator(kwargs_handlers=[init])
assert accelerator.num_processes == size and accelerator.process_index == rank, accelerator.state
assert accelerator.device == torch.device("aule", rank) and torch.aule.current_device() == rank
assert accelerator.distributed_type == "MULTI_GPU", accelerator.distributed_type

torch.manual_seed(rank)  # DDP takes the weights of rank 0
model = torch.nn.Linear(4, 2)
data = torch.arange(32.0).view(8, 4) / 32
model, optimizer, loader = accelerator.prepare(
    model,
    torch.optim.SGD(model.parameters(), lr=0.1),
    torch.utils.data.DataLoader(data, batch_size=2),
)
assert isinstance(model, torch.nn.parallel.DistributedDataParallel)
reference = torch.nn.Linear(4, 2)
reference.load_state_dict({k: v.cpu() for k, v in model.module.state_dict().items()})
steps = 0
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    accelerator.backward(model(batch).square().mean())
    optimizer.step()
    both = data[4 * step : 4 * step + 4]
    reference.zero_grad()
    reference(both).square().mean().backward()
    with torch.no_grad():
        for p in reference.parameters():
            p -= 0.1 * p.grad
    steps += 1
assert steps == 2
torch.testing.assert_close(model.module.weight.cpu(), reference.weight)
gathered = accelerator.gather(torch.tensor([rank], device=accelerator.device))
assert gathered.tolist() == list(range(size))
dist.destroy_process_group()
