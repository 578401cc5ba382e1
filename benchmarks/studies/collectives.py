#!/usr/bin/env python3
"""Times of collectives beside pinned copies in the same run: `python benchmarks/studies/collectives.py --ranks 2`.

One process for each rank. The devices are those that there are, several ranks on one if they are fewer. Each sample of
a collective ends when the result is in device memory; all ranks begin it together. `bus` is what the slowest link has
to carry for a size of S bytes: all_reduce 2 (n - 1) / n S, all_gather and reduce_scatter (n - 1) / n S.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

import torch_aule  # noqa: F401
from torch_aule.measure.timing import Stopwatch


def text(bytes_):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if bytes_ < 1024 or unit == "GiB":
            return f"{bytes_:g} {unit}"
        bytes_ /= 1024


def seconds_of(call, samples, before=None):
    """Median seconds of a call and of the device's work in it."""
    times = []
    for sample in range(samples + 2):
        torch.aule.synchronize()
        if before is not None:
            before()
        begin = Stopwatch()
        call()
        torch.aule.synchronize()
        if sample >= 2:
            times.append(begin.seconds)
    return statistics.median(times)


def pinned_rates(device, size=256 << 20):
    """Bytes a second of copies from and to pinned memory."""
    host, there = torch.empty(size, dtype=torch.uint8).pin_memory(), torch.empty(size, dtype=torch.uint8, device=device)
    rates = {}
    rates["to the host"] = size / seconds_of(lambda: host.copy_(there, non_blocking=True), 7)
    rates["from the host"] = size / seconds_of(lambda: there.copy_(host, non_blocking=True), 7)
    return rates


def between_devices(device, size=256 << 20):
    """Bytes a second of a copy from this rank's device to the next one."""
    other = torch.device("aule", (device.index + 1) % torch.aule.device_count())
    here = torch.empty(size, dtype=torch.uint8, device=device)
    there = torch.empty(size, dtype=torch.uint8, device=other)

    def copy():
        there.copy_(here)
        torch.aule.synchronize(other)

    return size / seconds_of(copy, 7)


def collectives(n, elements, device):
    """name -> a call, and what the slowest link carries of the whole size."""
    whole = torch.ones(elements, device=device)
    share = torch.ones(max(1, elements // n), device=device)
    padded = whole[: share.numel() * n] if elements >= n else torch.ones(n, device=device)
    return {
        "all_reduce": (lambda: dist.all_reduce(whole, op=dist.ReduceOp.AVG), 2 * (n - 1) / n),
        "all_gather": (lambda: dist.all_gather_into_tensor(padded, share), (n - 1) / n),
        "reduce_scatter": (lambda: dist.reduce_scatter_tensor(share, padded), (n - 1) / n),
        "broadcast": (lambda: dist.broadcast(whole, 0), 1),
    }


def rank_main(rank, n, store, sizes, names, samples):
    device = torch.device("aule", rank % torch.aule.device_count())
    torch.aule.set_device(device)
    dist.init_process_group("aule", init_method=f"file://{store}", rank=rank, world_size=n)
    tell = print if rank == 0 else lambda *_, **__: None
    rates = None
    for other in range(n):  # one after another
        dist.barrier()
        if other == rank:
            rates = pinned_rates(device)
    slower = torch.tensor([min(rates.values())])
    dist.all_reduce(slower, op=dist.ReduceOp.MIN)
    slower = slower.item()
    tell(f"{n} ranks, {torch.aule.get_device_name(device)}, torch {torch.__version__}")
    tell("pinned copies of 256 MiB: " + ", ".join(f"{k} {v / 1e9:.1f} GB/s" for k, v in rates.items()))
    if torch.aule.device_count() > 1:
        tell(f"copy of 256 MiB from one device to the other: {between_devices(device) / 1e9:.1f} GB/s")
    dist.barrier()
    tell("| collective | size | median | size / time | of the slower copy | bus |")
    tell("|---|---|---|---|---|---|")
    for name in names:
        for size in sizes:
            call, factor = collectives(n, max(1, size // 4), device)[name]
            count = samples if size <= 16 << 20 else max(5, samples // 3)
            seconds = torch.tensor([seconds_of(call, count, dist.barrier)])
            dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
            seconds = seconds.item()
            rate = size / seconds
            tell(
                f"| {name} | {text(size)} | {seconds * 1e6:.0f} us | {rate / 1e9:.2f} GB/s | {rate / slower:.2f} | "
                f"{rate * factor / 1e9:.2f} GB/s |",
                flush=True,
            )
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="4,4096,65536,1048576,16777216,67108864,268435456", help="bytes")
    parser.add_argument("--collectives", default="all_reduce,all_gather,reduce_scatter,broadcast")
    parser.add_argument("--samples", type=int, default=21)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        sizes = [int(size) for size in given.sizes.split(",")]
        rank_main(given.rank, given.ranks, given.store, sizes, given.collectives.split(","), given.samples)
        return 0
    environment = dict(os.environ)
    if "TORCH_AULE_VISIBLE_DEVICES" not in environment and torch.aule.device_count() < given.ranks:
        environment["TORCH_AULE_VISIBLE_DEVICES"] = ",".join(["0"] * given.ranks)
    with tempfile.TemporaryDirectory() as folder:
        commands = [
            [sys.executable, __file__, *sys.argv[1:], "--rank", str(rank), "--store", os.path.join(folder, "store")]
            for rank in range(given.ranks)
        ]
        processes = [subprocess.Popen(command, env=environment) for command in commands]
        return max(abs(process.wait()) for process in processes)


if __name__ == "__main__":
    sys.exit(main())
