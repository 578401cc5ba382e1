#!/usr/bin/env python3
"""Pinned copies while products run: `python benchmarks/studies/copies_beside_kernels.py`.

Copies of both directions on streams of their own, products on another one: bytes a second of copies alone and
meanwhile, and how much longer the products take. Medians of rounds that take turns.
"""

from __future__ import annotations

import argparse
import statistics

import torch

import torch_aule  # noqa: F401
from torch_aule.measure.timing import Stopwatch


def run(size, rounds, order, copies, directions):
    """Bytes a second of each direction's copies, and seconds of the products, each alone and together."""
    host = {d: torch.empty(size, dtype=torch.uint8).pin_memory() for d in directions}
    there = {d: torch.empty(size, dtype=torch.uint8, device="aule") for d in directions}
    streams = {d: torch.aule.Stream() for d in directions}
    a = torch.randn(order, order, device="aule", dtype=torch.float16)
    products, out = 24, torch.empty_like(a)
    torch.aule.synchronize()

    def record_copies():
        for _ in range(copies):
            for d in directions:
                with torch.aule.stream(streams[d]):
                    if d == "to the host":
                        host[d].copy_(there[d], non_blocking=True)
                    else:
                        there[d].copy_(host[d], non_blocking=True)

    def wait_for_copies():
        for stream in streams.values():
            stream.synchronize()

    def record_products():
        for _ in range(products):
            torch.mm(a, a, out=out)

    def alone(record, wait):
        torch.aule.synchronize()
        clock = Stopwatch()
        record()
        wait()
        return clock.seconds

    def together():
        torch.aule.synchronize()
        clock = Stopwatch()
        record_products()
        torch.aule.current_stream().query()  # submits
        record_copies()
        wait_for_copies()
        copied = clock.seconds
        torch.aule.current_stream().synchronize()
        return copied, clock.seconds

    found = []
    for _ in range(rounds + 1):
        found.append((alone(record_copies, wait_for_copies),
                      alone(record_products, torch.aule.synchronize), *together()))  # fmt: skip
    copy, product, copied, both = (statistics.median(column) for column in zip(*found[1:]))
    return copies * size / copy, copies * size / copied, product, both


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64, help="of a copy")
    parser.add_argument("--order", type=int, default=8192, help="of the matrices")
    parser.add_argument("--copies", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print(f"{torch.aule.get_device_name(0)}, torch {torch.__version__}, copies of {given.mib} MiB, products of order "
          f"{given.order} in float16")  # fmt: skip
    print("| copies | alone | beside products | share | products alone | beside copies | slower by |")
    print("|---|---|---|---|---|---|---|")
    for directions in (["to the host"], ["from the host"], ["to the host", "from the host"]):
        own, beside, product, both = run(given.mib << 20, given.rounds, given.order, given.copies, directions)
        cells = (
            " and ".join(directions), f"{own / 1e9:.1f} GB/s", f"{beside / 1e9:.1f} GB/s", f"{beside / own:.2f}",
            f"{product * 1e3:.1f} ms", f"{both * 1e3:.1f} ms", f"{(both / product - 1) * 100:.0f} %",
        )  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
