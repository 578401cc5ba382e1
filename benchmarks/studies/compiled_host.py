"""Where the time of a small compiled training step goes: the host's parts, submissions, and the device's kernels.

    python benchmarks/studies/compiled_host.py                            perceptron and resnet18, eager and compiled
    python benchmarks/studies/compiled_host.py --small --devices aule     sizes for a software device

Host times are of threads' processor clocks, in microseconds for a step: `forward`, `graph` (what Inductor generated,
within forward and backward), `backward` (of the thread that calls and of autograd's), `optimizer`. `step` is the wall
clock over many steps, in milliseconds. Below it come the commands and submissions of a step by a trace, and the kernels
that take most of the device's time. A model, a device and a mode have a process of their own.
"""

from __future__ import annotations

import argparse
import collections
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from backend import load_package


def autograd_seconds() -> float:
    """Processor time of autograd's threads so far."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("pt_autograd"):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def traced(torch, device, step) -> list[str]:
    """Commands, submissions and the dearest kernels of a step."""
    from torch.profiler import ProfilerActivity, profile

    own = ProfilerActivity.PrivateUse1 if device == "aule" else ProfilerActivity.CUDA
    with profile(activities=[ProfilerActivity.CPU, own]) as trace:
        for _ in range(10):
            step()
        getattr(torch, device).synchronize()
    count, spent, submissions = collections.Counter(), collections.Counter(), 0
    for event in trace.events():
        if str(event.device_type) == "DeviceType.CPU":
            submissions += event.name == "aule submit"
        elif "Optimizer.step" not in event.name:
            count[event.name] += 1
            spent[event.name] += event.time_range.elapsed_us()
    lines = [f"  device {sum(spent.values()) / 10:.0f} us, {sum(count.values()) / 10:.0f} commands, "
             f"{submissions / 10:.1f} submissions a step"]  # fmt: skip
    return lines + [f"  {us / 10:8.0f} us {count[name] / 10:5.1f} x {name[:84]}" for name, us in spent.most_common(12)]


def measure(name: str, device: str, mode: str, small: bool, seconds: float) -> list[str]:
    import torch

    from torch_aule.benchmark.cases.compiled_models import MODELS, loss_of, targets_of, without_dropout
    from torch_aule.measure.timing import Stopwatch

    clock, graph, synchronize = time.thread_time, [], getattr(torch, device).synchronize
    torch.manual_seed(0)
    model, inputs = MODELS[name](small)
    without_dropout(model)
    model = model.to(device).train()
    inputs = torch.utils._pytree.tree_map(lambda t: t.to(device), inputs)
    targets = targets_of(name, model, inputs)
    optimizer = (MODELS[name].optimizer or torch.optim.SGD)(model.parameters(), lr=0.0)
    run = loss_of
    if mode == "compiled":
        import torch._inductor.compile_fx  # noqa: F401  loads output_code as a program does
        from torch._inductor.output_code import CompiledFxGraph

        original = CompiledFxGraph.__call__

        def timed(self, arguments):
            start = clock()
            result = original(self, arguments)
            graph.append(clock() - start)
            return result

        CompiledFxGraph.__call__ = timed
        run = torch.compile(loss_of)

    def step():
        marks = [clock()]
        loss = run(model, inputs, targets)
        marks.append(clock())
        loss.backward()
        marks.append(clock())
        optimizer.step()
        marks.append(clock())
        model.zero_grad(set_to_none=True)
        return [b - a for a, b in zip(marks, marks[1:], strict=False)]

    for _ in range(30):
        step()
    synchronize()
    start, walls = Stopwatch(), []
    while start.seconds < seconds or len(walls) < 3:
        begin = Stopwatch()
        for _ in range(10):
            step()
        synchronize()
        walls.append(begin.seconds / 10)
    graph.clear()
    rows, autograd = [], []
    for _ in range(20):
        before = autograd_seconds()
        rows += [step() for _ in range(5)]
        synchronize()
        autograd.append((autograd_seconds() - before) / 5)
    forward, backward, optimized = (statistics.median(column) * 1e6 for column in zip(*rows, strict=True))
    inside = [statistics.median(graph[at::2]) * 1e6 for at in (0, 1)] if graph else [0, 0]
    threads = statistics.median(autograd) * 1e6
    line = (f"{name} {device} {mode}: step {statistics.median(walls) * 1e3:.2f} ms, host us: forward {forward:.0f} "
            f"(graph {inside[0]:.0f}), backward {backward:.0f} + {threads:.0f} (graph {inside[1]:.0f}), "
            f"optimizer {optimized:.0f}")  # fmt: skip
    return [line, *traced(torch, device, step)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=["perceptron", "resnet18"])
    parser.add_argument("--devices", type=lambda text: text.split(","), default=["aule", "cuda"])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0, help="of steps by the wall clock, for each")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each process")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        device, mode = options.one
        load_package(device)
        print(*measure(options.models[0], device, mode, options.small, options.seconds), sep="\n")
        return
    for model in options.models:
        for device in options.devices:
            for mode in ("eager", "compiled"):
                more = ["--small"] if options.small else []
                command = [sys.executable, __file__, "--models", model, "--one", device, mode, *more]
                environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
                try:
                    found = subprocess.run([*command, "--seconds", str(options.seconds)], timeout=options.limit,
                                           env=environment, capture_output=True, text=True)  # fmt: skip
                except subprocess.TimeoutExpired:
                    print(f"{model} {device} {mode}: out of time", flush=True)
                    continue
                text = found.stdout if found.returncode == 0 else found.stdout + found.stderr[-600:]
                print(text.strip(), flush=True)


if __name__ == "__main__":
    main()
