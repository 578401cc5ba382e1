"""Small values between the host and the device: in memory that both see, by copies, and on CUDA.

    python benchmarks/studies/small_values.py                      aule, aule without mapped memory, cuda
    python benchmarks/studies/small_values.py --devices aule,copies --quick

Prints the device's heaps and types of memory, which of them small blocks took, and microseconds for a call (medians).
`copies` is aule with TORCH_AULE_DISABLE=mapped_memory. It ends its batches without the barrier for the host's reads, so
that the rows that wait for an addition show what this barrier costs, and those of 1 MiB whether kernels are as fast in
mapped memory. Each process first compares some thousand values that it reads with what they have to be. Takes about a
minute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

from backend import load_package

FLAGS = ("device local", "host visible", "host coherent", "host cached", "lazily allocated", "protected",
         "device coherent", "device uncached", "RDMA capable")  # fmt: skip


def cases(torch, device: str) -> dict:
    synchronize = getattr(torch, device).synchronize
    one, few = torch.ones((), device=device), torch.ones(8, device=device)
    large = [torch.ones(1 << 18, device=device) for _ in range(2)]
    page, host = torch.ones(1024, device=device), torch.ones(1024)

    def adds(tensor, count):
        for _ in range(count):
            tensor.add_(1)
        synchronize()

    return {
        "item, idle": one.item,
        "item after add_": lambda: one.add_(1).item(),
        "item of a sum of 8": lambda: few.sum().item(),
        "item after add_ and a wait": lambda: (one.add_(1), synchronize(), one.item()),
        "tolist of 8, idle": few.tolist,
        "cpu of 8, idle": few.cpu,
        "cpu of 1024, idle": page.cpu,
        "tensor(1.0)": lambda: torch.tensor(1.0, device=device),
        "copy_ of 4 KiB, and a wait": lambda: (page.copy_(host), synchronize()),
        "add_, and a wait": lambda: adds(one, 1),
        "64 add_, and a wait": lambda: adds(one, 64),
        "64 add_ of 1 MiB, and a wait": lambda: adds(large[0], 64),
        "64 copy_ of 1 MiB, and a wait": lambda: ([large[1].copy_(large[0]) for _ in range(64)], synchronize()),
    }


def check(torch, device: str, rounds: int) -> None:
    x = torch.zeros(9, dtype=torch.int64, device=device)
    stream = getattr(torch, device).Stream()
    for k in range(1, rounds + 1):
        if k % 3 == 0:
            stream.wait_stream(getattr(torch, device).current_stream())
            with getattr(torch, device).stream(stream):
                x.add_(1)
                event = stream.record_event()
            while k % 2 and not event.query():
                pass
            getattr(torch, device).current_stream().wait_event(event)
        else:
            x.add_(1)
        if k % 5 == 0:
            x[k % 9].copy_(torch.tensor(k))
        found = x[k % 9].item() if k % 7 else x.tolist()
        assert found == (k if k % 7 else [k] * 9), (found, k)


def memory() -> list[str]:
    from torch_aule import _C

    layout, lines = _C.memory_layout(0), []
    for i, (size, local, taken) in enumerate(layout["heaps"]):
        lines.append(f"heap {i}: {size >> 20} MiB{', device local' * local}; taken by this process: {taken >> 20} MiB")
    for i, (heap, flags) in enumerate(layout["types"]):
        names = [FLAGS[bit] if bit < len(FLAGS) else f"bit {bit}" for bit in range(32) if flags >> bit & 1]
        mine = "   <- small blocks" if i == layout["mapped_type"] else ""
        lines.append(f"type {i}: heap {heap}, {', '.join(names) or 'host memory that is not mapped'}{mine}")
    limit, taken = layout["mapped_limit_bytes"] >> 20, layout["mapped_bytes"] >> 20
    lines.append(f"small blocks in mapped memory: {taken} MiB of at most {limit} MiB")
    return lines


def measure(device: str, seconds: float, quick: bool) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything prints must not get between the answers
    import torch

    load_package(device)
    from torch_aule.measure.timing import Stopwatch

    synchronize = getattr(torch, device).synchronize
    check(torch, device, 200 if quick else 5000)
    took = {}
    for name, call in cases(torch, device).items():

        def sample(calls, call=call):
            synchronize()
            watch = Stopwatch()
            for _ in range(calls):
                call()
            return watch.seconds / calls * 1e6

        sample(10)
        calls = max(3, min(200, int(seconds / 9 * 1e6 / sample(5))))
        took[name] = statistics.median(sample(calls) for _ in range(9))
    print(json.dumps([took, memory() if device == "aule" else []]), file=answers, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=lambda text: text.split(","), default=["aule", "copies", "cuda"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.15, help="for a row, a device and a round")
    parser.add_argument("--quick", action="store_true", help="one round of short samples")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.03
    if options.measure:
        return measure(options.measure, options.seconds, options.quick)
    rows: dict[str, dict[str, list[float]]] = {}
    for turn in range(options.rounds):
        for device in options.devices:
            env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
            if device == "copies":
                env["TORCH_AULE_DISABLE"] = ",".join(filter(None, [env.get("TORCH_AULE_DISABLE"), "mapped_memory"]))
            command = [sys.executable, __file__, "--measure", "cuda" if device == "cuda" else "aule",
                       "--seconds", str(options.seconds), *["--quick"] * options.quick]  # fmt: skip
            shown = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout
            took, lines = json.loads(shown)
            if turn == 0 and device == "aule":
                print("\n".join(lines))
            for name, us in took.items():
                rows.setdefault(name, {}).setdefault(device, []).append(us)
    first, *others = options.devices
    print(f"{'us for a call':32}" + "".join(f"{device:>10}" for device in options.devices)
          + "".join(f"{other + '/' + first:>14}" for other in others))  # fmt: skip
    for name, took in rows.items():
        us = [statistics.median(took[device]) for device in options.devices]
        print(f"{name:32}" + "".join(f"{t:10.2f}" for t in us) + "".join(f"{t / us[0]:14.2f}" for t in us[1:]))


if __name__ == "__main__":
    main()
