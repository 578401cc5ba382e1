#!/usr/bin/env python3
"""Training on several devices beside one: `python benchmarks/studies/distributed_training.py --ranks 2`.

GPT-2 small under bfloat16 autocast, the same global batch in one process and in `--ranks` processes with
DistributedDataParallel: time of a step with gradients reduced while backward runs (DDP's buckets), and after it (one
bucket), and the losses of all steps beside those of one process. Then ResNet-50 (torchvision) with as many images in
each process as in one alone, and a Llama of about 1 billion parameters (transformers) sharded by FSDP2, with as many
sequences in each process: throughput and peak memory of a device. `--models` names those to run. Ranks take the devices
that there are, in turn, several on one if they are fewer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import torch_aule  # noqa: F401
from torch_aule.benchmark.harness.gpt2 import GPT2, Gpt2Config
from torch_aule.measure.timing import Stopwatch

# Gradients are reduced bucket by bucket while backward runs, or after it, if one bucket takes them all.
ONE_BUCKET = 1 << 14
WAYS = {  # bucket_cap_mb, and whether gradients travel in float16
    "in buckets of 25 MiB": (25, False),
    "in buckets of 100 MiB": (100, False),
    "in one bucket": (ONE_BUCKET, False),
    "in one bucket, as float16": (ONE_BUCKET, True),
}


def batches(vocabulary, given):
    """Tokens of each step, the same in every process; (steps, batch, context + 1)."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(vocabulary, (given.steps, given.batch, given.context + 1), generator=generator)


def share(tokens, rank, n, device):
    own = tokens.chunk(n)[rank].to(device)
    return own[:, :-1].contiguous(), own[:, 1:].contiguous()


def mean_over_ranks(value, n):
    if n > 1:
        dist.all_reduce(value, op=dist.ReduceOp.AVG)
    return value.item()


def timed_steps(step, given, n):
    """Losses of all steps, and the median seconds of those after the first five."""
    losses, seconds = [], []
    for number in range(given.steps):
        if n > 1:
            dist.barrier()
        torch.aule.synchronize()
        begin = Stopwatch()
        loss = step(number)
        torch.aule.synchronize()
        seconds.append(begin.seconds)
        losses.append(mean_over_ranks(loss.detach().float(), n))
    return losses, statistics.median(seconds[min(5, len(seconds) - 1) :])


def train_gpt2(given, rank, n, device):
    config = Gpt2Config(batch=given.batch, context=given.context)
    tokens = batches(config.vocabulary, given)
    results = {}
    for name, (megabytes, compressed) in (WAYS if n > 1 else {"one process": (0, False)}).items():
        torch.manual_seed(0)
        net = GPT2(config).to(device)  # made on the host: every process begins with the same weights
        model = net
        if n > 1:
            model = DistributedDataParallel(net, bucket_cap_mb=megabytes, gradient_as_bucket_view=True)
        if compressed:
            model.register_comm_hook(None, fp16_compress_hook)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.1, fused=True)

        def step(number, model=model, optimizer=optimizer):
            x, y = share(tokens[number], rank, n, device)
            with torch.autocast("aule", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x).view(-1, config.vocabulary), y.view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        results[name] = timed_steps(step, given, n)
        del net, model, optimizer, step
    return results


def train_resnet(given, rank, n, device):
    import torchvision

    torch.manual_seed(0)
    net = torchvision.models.resnet50().to(device, memory_format=torch.channels_last)
    model = DistributedDataParallel(net, gradient_as_bucket_view=True) if n > 1 else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    size = given.image
    images = torch.randn(given.batch // n, 3, size, size, generator=generator).to(device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (given.batch // n,), generator=generator).to(device)

    def step(_):
        with torch.autocast("aule", dtype=torch.float16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return timed_steps(step, given, n)


def train_llama(given, rank, n, device):
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
        num_key_value_heads=4, max_position_embeddings=given.context, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    tokens = batches(config.vocab_size, given)
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    if n > 1:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        if given.prefetch:
            layers = list(model.model.layers)
            for layer, following in zip(layers, layers[1:]):
                layer.set_modules_to_forward_prefetch([following])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    torch.aule.empty_cache()
    torch.aule.reset_peak_memory_stats()

    def step(number):
        x, y = share(tokens[number], rank, n, device)
        with torch.autocast("aule", dtype=torch.bfloat16):
            logits = model(input_ids=x).logits
            loss = F.cross_entropy(logits.view(-1, config.vocab_size).float(), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses, seconds = timed_steps(step, given, n)
    peak = torch.tensor([float(torch.aule.max_memory_allocated())])
    if n > 1:
        dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    parameters = 22 * (2 * 2048 * 2048 + 2 * 2048 * 256 + 3 * 2048 * 5632) + 2 * 32000 * 2048
    return {"losses": losses, "seconds": seconds, "peak": peak.item(), "parameters": parameters}


def rank_main(given):
    rank, n = given.rank, given.ranks
    device = torch.device("aule", rank % torch.aule.device_count())
    torch.aule.set_device(device)
    if n > 1:
        dist.init_process_group("aule", init_method=f"file://{given.store}", rank=rank, world_size=n)
    train = {"gpt2": train_gpt2, "resnet": train_resnet, "llama": train_llama}[given.model]
    result = train(given, rank, n, device)
    if rank == 0:
        with open(given.out, "w") as file:
            json.dump(result, file)
    if n > 1:
        dist.destroy_process_group()


def results_of(model, ranks, given, steps, batch):
    """What rank 0 of `ranks` processes found, or None, after a line that says why."""
    environment = dict(os.environ)
    if "TORCH_AULE_VISIBLE_DEVICES" not in environment and torch.aule.device_count() < ranks:
        environment["TORCH_AULE_VISIBLE_DEVICES"] = ",".join(["0"] * ranks)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        options = {"model": model, "ranks": ranks, "steps": steps, "batch": batch, "context": given.context,
                   "image": given.image, "store": os.path.join(folder, "store"), "out": out}  # fmt: skip
        command = [sys.executable, __file__, *(f"--{k}={v}" for k, v in options.items())]
        if given.prefetch:
            command.append("--prefetch")
        processes = [subprocess.Popen([*command, f"--rank={rank}"], env=environment) for rank in range(ranks)]
        try:
            codes = [process.wait(given.limit) for process in processes]
        except subprocess.TimeoutExpired:
            codes = ["time limit"]
            for process in processes:
                process.kill()
        if any(codes) or not os.path.exists(out):
            print(f"{model}, {ranks} processes: failed, {codes}", flush=True)
            return None
        with open(out) as file:
            return json.load(file)


def one_and_several(model, given, steps, batch, batch_of_several):
    """What one process and `--ranks` of them found, or None."""
    one = results_of(model, 1, given, steps, batch)
    several = results_of(model, given.ranks, given, steps, batch_of_several)
    return None if one is None or several is None else (one, several)


def report_gpt2(given):
    if (found := one_and_several("gpt2", given, given.steps, given.batch, given.batch)) is None:
        return
    one, several = found
    losses, seconds = one["one process"]
    print(f"\n| GPT-2 small, global batch {given.batch} x {given.context}, bfloat16 autocast | step "
          f"| beside one process | largest difference of a loss in {given.steps} steps |")  # fmt: skip
    print("|---|---|---|---|")
    print(f"| one process | {seconds * 1e3:.1f} ms | 1 | |")
    for name, (own, took) in several.items():
        difference = max(abs(a - b) for a, b in zip(own, losses, strict=True))
        print(f"| {given.ranks} processes, gradients reduced {name} | {took * 1e3:.1f} ms | {seconds / took:.2f} "
              f"| {difference:.1e} |", flush=True)  # fmt: skip


def report_resnet(given):
    if (found := one_and_several("resnet", given, given.steps, given.images, given.images * given.ranks)) is None:
        return
    one, several = found
    print(f"\n| ResNet-50, float16 autocast, channels-last, {given.images} images in each process | step "
          "| images per second beside one process |\n|---|---|---|")  # fmt: skip
    print(f"| one process | {one[1] * 1e3:.1f} ms | 1 |")
    print(f"| DDP, {given.ranks} processes | {several[1] * 1e3:.1f} ms | {given.ranks * one[1] / several[1]:.2f} |",
          flush=True)  # fmt: skip


def report_llama(given):
    if (
        found := one_and_several("llama", given, given.llama_steps, given.llama_batch, given.llama_batch * given.ranks)
    ) is None:
        return
    one, several = found
    print(f"\n| Llama, {one['parameters'] / 1e9:.2f} billion parameters, {given.llama_batch} x {given.context} in each "
          "process, AdamW | peak memory of a device | beside one process | step "
          "| tokens per second beside one process |\n|---|---|---|---|---|")  # fmt: skip
    print(f"| one process | {one['peak'] / 2**30:.1f} GiB | 1 | {one['seconds'] * 1e3:.0f} ms | 1 |")
    peak, took = several["peak"], several["seconds"]
    print(f"| FSDP2, {given.ranks} processes | {peak / 2**30:.1f} GiB | {peak / one['peak']:.2f} | {took * 1e3:.0f} ms "
          f"| {given.ranks * one['seconds'] / took:.2f} |", flush=True)  # fmt: skip


REPORTS = {"gpt2": report_gpt2, "resnet": report_resnet, "llama": report_llama}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16, help="global, of GPT-2")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--llama-steps", type=int, default=8)
    parser.add_argument("--llama-batch", type=int, default=4, help="of each process")
    parser.add_argument("--images", type=int, default=64, help="of each process, of ResNet-50")
    parser.add_argument("--image", type=int, default=224, help="pixels along an edge")
    parser.add_argument("--models", default=",".join(REPORTS), help="with commas")
    parser.add_argument("--prefetch", action="store_true", help="FSDP2 asks for the next layer before it runs one")
    parser.add_argument("--limit", type=float, default=180, help="seconds of a model, then it is stopped")
    for name in ("model", "store", "out"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        rank_main(given)
        return 0
    names = sorted({torch.aule.get_device_name(i) for i in range(torch.aule.device_count())})
    print(
        f"{given.ranks} processes, {torch.aule.device_count()} devices: {', '.join(names)}, torch {torch.__version__}"
    )
    for name in given.models.split(","):
        REPORTS[name](given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
