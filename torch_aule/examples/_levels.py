"""The model of the progressive example, and its variants: other attention, 8-bit weights, a process for each device."""

from __future__ import annotations

import copy
import functools
import os
import tempfile
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule.measure.runs import median_seconds

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
FLOAT8 = torch.float8_e4m3fn


def written_out(q, k, v):
    """Causal attention of [B, H, N, D], operator by operator."""
    hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, float("-inf")), -1) @ v


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@functools.cache
def _flex():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    @functools.cache
    def mask(rows: int, device: torch.device):
        return create_block_mask(lambda b, h, i, j: i >= j, None, None, rows, rows, device=str(device))

    return torch.compile(flex_attention), mask


def flex(q, k, v):
    attention, mask = _flex()
    return attention(q, k, v, block_mask=mask(q.shape[-2], q.device))


def varlen(q, k, v):
    """As sequences of one length, packed: no padding would be computed if they had several."""
    from torch_aule.functional import varlen_attention

    batch, heads, rows, _ = q.shape
    ends = torch.arange(0, (batch + 1) * rows, rows, dtype=torch.int32, device=q.device)
    packed = (t.transpose(1, 2).flatten(0, 1) for t in (q, k, v))
    out = varlen_attention(*packed, ends, ends, rows, rows, causal=True)
    return out.unflatten(0, (batch, rows)).transpose(1, 2)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, attend: Attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


def network(width: int, heads: int, depth: int) -> nn.Sequential:
    """[B, N, width] -> the same, with attention written out."""
    return nn.Sequential(*(Layer(width, heads, written_out) for _ in range(depth)))


def with_attention(model: nn.Sequential, attend: Attend) -> nn.Sequential:
    """A copy whose layers attend so."""
    made = copy.deepcopy(model)
    for layer in made:
        layer.attend = attend
    return made


class Float8Linear(nn.Module):
    """A Linear for inference with weights in float8, a scale for each row, and inputs rounded as they come.

    P. Micikevicius et al., "FP8 Formats for Deep Learning", 2022, arXiv:2209.05433.
    """

    def __init__(self, layer: nn.Linear):
        super().__init__()
        values, scales = self.rounded(layer.weight.detach())
        self.register_buffer("values", values)
        self.register_buffer("scales", scales.t().contiguous())
        self.register_buffer("bias", layer.bias.detach().clone())

    @staticmethod
    def rounded(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of t in float8, and what to multiply them by."""
        scales = t.abs().amax(1, keepdim=True).clamp_min(1e-12) / torch.finfo(FLOAT8).max
        return (t / scales).to(FLOAT8), scales

    def forward(self, x):
        rows, scales = self.rounded(x.flatten(0, -2))
        y = torch._scaled_mm(rows, self.values.t(), scales, self.scales, out_dtype=torch.bfloat16)
        return (y.to(x.dtype) + self.bias).unflatten(0, x.shape[:-1])


def with_float8_weights(model: nn.Module) -> nn.Module:
    """A copy whose Linear layers are Float8Linear."""
    made = copy.deepcopy(model)
    for parent in list(made.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Float8Linear(child))
    return made


def step(model: nn.Module, x: torch.Tensor) -> None:
    """Forward and backward of the outputs' mean square."""
    model.zero_grad()
    model(x).square().mean().backward()


def _rank(rank: int, size: int, folder: str, runs: int) -> None:
    """One process of L5: its share of the batch, and the mean of all gradients."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import torch_aule  # noqa: F401

    device = torch.device("aule", rank)
    torch.aule.set_device(device)
    dist.init_process_group("aule", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    try:
        model, x = torch.load(f"{folder}/problem.pt", weights_only=False)
        inner = model.to(device)
        wrapped, share = DistributedDataParallel(inner), x.chunk(size)[rank].to(device)
        step(wrapped, share)
        gradients = {f"gradient of {name}": p.grad.cpu() for name, p in inner.named_parameters()}
        seconds = median_seconds(lambda: step(wrapped, share), device, runs)
        if rank == 0:
            torch.save((gradients, seconds), f"{folder}/result.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


def data_parallel(model: nn.Module, x: torch.Tensor, size: int, runs: int) -> tuple[dict[str, torch.Tensor], float]:
    """Gradients, and the median seconds of a step, with DDP in a process for each of `size` devices."""
    with tempfile.TemporaryDirectory() as folder:
        torch.save((copy.deepcopy(model).cpu(), x.cpu()), os.path.join(folder, "problem.pt"))
        torch.multiprocessing.spawn(_rank, (size, folder, runs), nprocs=size)
        return torch.load(os.path.join(folder, "result.pt"))
