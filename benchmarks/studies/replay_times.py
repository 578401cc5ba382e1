"""Times of a GPT's training step: eager, compiled, and with mode="reduce-overhead", where the host's share is counted.

    python benchmarks/studies/replay_times.py --layers 12 --width 768 --context 1024 --batch 8 --dtype bfloat16
    python benchmarks/studies/replay_times.py --layers 12 --width 64 --context 16 --batch 1       on a software device

The host's time of a replay is the processor time of its thread, so that waits and other programs do not count. A graph
of n commands should take at most 50 us + 0.2 us * n.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext

import torch
import torch._inductor.compile_fx
import torch.nn.functional as F

import torch_aule  # noqa: F401  registers the device
from torch_aule.compile import replay
from torch_aule.examples.gpt import GPT, Config
from torch_aule.measure.timing import Stopwatch

VOCABULARY = 256


class Timed:
    """A graphed function that notes the host's time of each call."""

    def __init__(self, function, is_backward: bool):
        self.function, self.is_backward, self.seconds = function, is_backward, []

    def __call__(self, inputs):
        count = len(inputs)  # the function empties the list
        start = time.thread_time()
        outputs = self.function(inputs)
        self.seconds.append(time.thread_time() - start)
        self.sizes = count, len(outputs)
        return outputs


def measure(mode: str | None, options) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = Config(VOCABULARY, options.layers, options.width, options.heads, options.context, options.batch, dropout=0)
    model = GPT(config).to("aule")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x, y = (torch.randint(VOCABULARY, (options.batch, options.context), device="aule") for _ in range(2))
    dtype = getattr(torch, options.dtype)

    def loss_of(x, y):
        with torch.autocast("aule", dtype=dtype) if dtype != torch.float32 else nullcontext():
            return F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())

    run = loss_of if mode is None else torch.compile(loss_of, mode=mode)

    def steps(count: int):
        for _ in range(count):
            optimizer.zero_grad()
            loss = run(x, y)
            loss.backward()
            optimizer.step()
        torch.aule.synchronize()
        return loss.item()

    steps(8)
    start = Stopwatch()
    loss = steps(options.steps)
    step_ms = start.seconds / options.steps * 1e3
    name = mode or "eager"
    print(f"{name:16} {step_ms:9.3f} ms a step, loss {loss:.5f}, {torch.aule.memory_reserved() >> 20} MiB reserved")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"layers": 12, "width": 64, "heads": 4, "context": 16, "batch": 1, "steps": 50}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    options = parser.parse_args()
    timed = []
    original = replay.cudagraphify

    def cudagraphify(*args, is_backward=False, **kwargs):
        timed.append(Timed(original(*args, is_backward=is_backward, **kwargs), is_backward))
        return timed[-1]

    replay.cudagraphify = cudagraphify
    for mode in (None, "default", "reduce-overhead"):
        measure(mode, options)
    for t in timed:
        commands = [call.commands for call in t.function.calls]
        name = "backward" if t.is_backward else "forward"
        if not commands:
            print(f"{name}: no graph: {t.function.refused}")
            continue
        print(
            f"{name}: {commands[0]} commands, {t.sizes[0]} inputs, {t.sizes[1]} outputs: "
            f"{min(t.seconds[8:]) * 1e6:.1f} us at best, {sorted(t.seconds)[len(t.seconds) // 2] * 1e6:.1f} median, "
            f"limit {50 + 0.2 * commands[0]:.1f}; {len(commands)} graph(s)"
        )


if __name__ == "__main__":
    main()
