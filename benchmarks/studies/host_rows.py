"""The host's cost of small calls: `.item()`, `cat`, `add`, and AdamW over lists of tensors with its operators apart.

    python benchmarks/studies/host_rows.py                                     aule and cuda in turns, and ratios
    python benchmarks/studies/host_rows.py --small --devices aule --clock cpu  on a software device

Microseconds for a call, medians over samples; the device is waited for between samples only, except by `.item()`.
`--clock cpu` takes the processor clock of the calling thread in place of the wall clock: on a software device, whose
threads share the cores, and where a wait is the device's own time. A device has a process of its own, which rests while
the other one is timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

from backend import load_package


def cases(torch, device: str, small: bool) -> dict:
    one, row, w = torch.ones((), device=device), torch.ones(8, 64, device=device), torch.ones(64, device=device)
    sizes = [(16, 16) if small else (256, 256)] * 20 + [(256,)] * 20

    def lists(n):
        return [[torch.full(size, 0.5, device=device) for size in sizes] for _ in range(n)]

    parameters, x, y, z = lists(4)
    parameters = [torch.nn.Parameter(p) for p in parameters]
    for p in parameters:
        p.grad = torch.ones_like(p)
    scalars = [0.5] * len(sizes)
    adamw = {name: torch.optim.AdamW(parameters, lr=1e-4, **{name: True}).step for name in ("foreach", "fused")}
    return {
        "item": one.item,
        "item of a sum": lambda: row.sum().item(),
        "add": lambda: torch.add(row, row),
        "cat of two": lambda: torch.cat((row, row)),
        "empty": lambda: torch.empty_like(w),
        "AdamW, foreach": adamw["foreach"],
        "AdamW, fused": adamw["fused"],
        "  _foreach_mul_": lambda: torch._foreach_mul_(x, 0.999),
        "  _foreach_lerp_": lambda: torch._foreach_lerp_(x, y, 0.1),
        "  _foreach_addcmul_": lambda: torch._foreach_addcmul_(x, y, y, 0.001),
        "  _foreach_sqrt": lambda: torch._foreach_sqrt(y),
        "  _foreach_div_ by a list": lambda: torch._foreach_div_(z, scalars),
        "  _foreach_add_": lambda: torch._foreach_add_(x, 1e-8),
        "  _foreach_addcdiv_": lambda: torch._foreach_addcdiv_(x, y, y, scalars),
    }


def serve(device: str, small: bool, clock: str, seconds: float) -> None:
    """A process for one device: takes samples of the case that is named, and answers with microseconds."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything prints must not get between the answers
    import torch

    load_package(device)
    from torch_aule.measure.timing import Stopwatch

    synchronize, watch = getattr(torch, device).synchronize, Stopwatch()

    def now():
        return time.thread_time() if clock == "cpu" else watch.seconds

    made = cases(torch, device, small)
    print("\t".join(made), file=answers, flush=True)

    def sample(call, calls):
        synchronize()
        start = now()
        for _ in range(calls):
            call()
        return (now() - start) / calls * 1e6

    for line in sys.stdin:
        call = made[line.rstrip("\n")]
        sample(call, 10)
        calls = max(5, min(200, int(seconds / 5 * 1e6 / sample(call, 10))))  # few enough that the host need not wait
        print(*[sample(call, calls) for _ in range(5)], file=answers, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=lambda text: text.split(","), default=["aule", "cuda"])
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--small", action="store_true", help="tensors of AdamW that a software device takes in one go")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.15, help="for a case, a device and a round")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.small, options.clock, options.seconds)
    shared = ["--clock", options.clock, "--seconds", str(options.seconds), *["--small"] * options.small]
    children = {
        device: subprocess.Popen([sys.executable, __file__, "--serve", device, *shared], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        for device in options.devices
    }  # fmt: skip
    names = [child.stdout.readline().rstrip("\n").split("\t") for child in children.values()][0]
    took = {(name, device): [] for name in names for device in children}
    for _ in range(options.rounds):
        for name in names:
            for device, child in children.items():
                print(name, file=child.stdin, flush=True)
                took[name, device] += map(float, child.stdout.readline().split())
    for child in children.values():
        child.stdin.close()
        child.wait()
    first, *others = options.devices
    print(f"{options.clock} clock, us" + " " * 12 + "".join(f"{device:>10}" for device in options.devices)
          + "".join(f"{other + '/' + first:>12}" for other in others))  # fmt: skip
    for name in names:
        medians = [statistics.median(took[name, device]) for device in options.devices]
        print(f"{name:27}" + "".join(f"{us:10.2f}" for us in medians)
              + "".join(f"{us / medians[0]:12.2f}" for us in medians[1:]))  # fmt: skip


if __name__ == "__main__":
    main()
