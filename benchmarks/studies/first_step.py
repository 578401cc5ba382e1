"""Seconds from the start of a process to its first and second training step, cold and warm.

    python benchmarks/studies/first_step.py                     every model that can be imported, aule and cuda
    python benchmarks/studies/first_step.py --small --models cnn gpt --devices aule       on a software device
    python benchmarks/studies/first_step.py --compile           torch.compile beside eager

Every number is of a fresh process. `cold`: all caches on disk are new folders, the driver's too; `warm`: the same
folders again, twice as many times, the median of which is shown. `threads`: pipelines are compiled by threads while the
program goes on (csrc/stream/deferred.h); `one`: by the launch that needs them (TORCH_AULE_DISABLE=compile_threads).
With `--small` a software device passes for a GPU, because it takes no threads else. `driver` is the sum of the times
that vkCreateComputePipelines took, over all threads. A step ends with `.item()`.
Configurations are begun as long as `--seconds` are not over, and a process is ended after `--limit`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from backend import load_package

MODELS = {"cnn": None, "gpt": None, "resnet50": "torchvision", "gpt2": "transformers"}
# A variable of each cache on disk: of this package, of drivers, of torch.compile.
CACHES = ("TORCH_AULE_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH", "CUDA_CACHE_PATH",
          "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")  # fmt: skip
STARTED = "FIRST_STEP_STARTED"


def small_resnet(nn, small: bool):
    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int):
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x):
            y = nn.functional.relu(self.norms[0](self.first(x)))
            return nn.functional.relu(self.norms[1](self.second(y)) + self.shortcut(x))

    widths = (8, 16, 32) if small else (64, 128, 256, 512)
    blocks = [Block(a, b, 2) for a, b in zip((widths[0], *widths), widths)]
    return nn.Sequential(
        nn.Conv2d(3, widths[0], 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)
    )


def small_gpt(nn, small: bool):
    layers, width, heads, words = (2, 32, 2, 100) if small else (8, 512, 8, 20000)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.mlp(self.norms[1](x))

    model = nn.Sequential(
        nn.Embedding(words, width), *[Block() for _ in range(layers)], nn.LayerNorm(width), nn.Linear(width, words)
    )
    return model, words


def task(torch, name: str, device: str, small: bool):
    """A model on the CPU and what computes its loss from a batch on the device."""
    nn = torch.nn
    if name in ("cnn", "resnet50"):
        if name == "cnn":
            model, classes = small_resnet(nn, small), 10
        else:
            import torchvision

            model, classes = torchvision.models.resnet50(), 1000
        extent, count = (32, 2) if small else (224, 32)
        x = torch.randn(count, 3, extent, extent)
        y = torch.randint(classes, (count,))
        return model, lambda run: nn.functional.cross_entropy(run(x.to(device)), y.to(device))
    if name == "gpt":
        model, words = small_gpt(nn, small)
    else:
        from transformers import GPT2Config, GPT2LMHeadModel

        sizes = {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 100} if small else {}
        model = GPT2LMHeadModel(GPT2Config(**sizes))
        words = model.config.vocab_size
    ids = torch.randint(words, (2, 16) if small else (4, 512))

    def loss(run):
        found = run(ids.to(device))
        logits = found if torch.is_tensor(found) else found.logits
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten().to(device))

    return model, loss


def child(name: str, device: str, small: bool, compiled: bool) -> None:
    seconds = {}

    def mark(what: str) -> None:
        seconds[what] = time.time() - float(os.environ[STARTED])

    load_package(device)
    import torch

    mark("import")
    torch.empty(1, device=device)
    torch.accelerator.synchronize()
    mark("device")
    torch.manual_seed(0)
    model, loss_of = task(torch, name, device, small)
    model.to(device)
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.accelerator.synchronize()
    mark("model")
    losses = []
    for step in ("step 1", "step 2", "step 3"):
        loss = loss_of(run)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        mark(step)
    pipelines, driver = (0, 0.0)
    if device == "aule":
        import torch_aule

        pipelines, driver = torch_aule._C.compile_times(0)
    print(json.dumps({"seconds": seconds, "pipelines": pipelines, "driver": driver, "losses": losses}), flush=True)


def measured(arguments: list[str], folder: Path, without: str, limit: float) -> dict | str:
    """What a fresh process says, or why it says nothing."""
    environment = dict(os.environ, **{name: str(folder / name.lower()) for name in CACHES})
    for name in CACHES:
        (folder / name.lower()).mkdir(exist_ok=True)
    if without:
        given = environment.get("TORCH_AULE_DISABLE", "")
        environment["TORCH_AULE_DISABLE"] = ",".join(filter(None, (given, without)))
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    environment[STARTED] = repr(time.time())
    command = [sys.executable, __file__, "--child", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"more than {limit:.0f} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no output"])[-1][:100]
    return json.loads(done.stdout.strip().splitlines()[-1])


def median(runs: list[dict]) -> dict:
    seconds = {k: statistics.median(r["seconds"][k] for r in runs) for k in runs[0]["seconds"]}
    return {**runs[0], "seconds": seconds, "driver": statistics.median(r["driver"] for r in runs)}


def shown(row: str, cache: str, result: dict | str) -> None:
    if isinstance(result, str):
        print(f"{row} {cache:5} {result}", flush=True)
        return
    s = result["seconds"]
    numbers = " ".join(f"{s[k]:7.2f}" for k in ("import", "device", "model", "step 1", "step 2"))
    first = s["step 1"] - s["model"]
    later = (s["step 3"] - s["step 2"]) * 1e3
    print(f"{row} {cache:5} {numbers} {first:7.2f} {later:8.1f} {result['pipelines']:9d} {result['driver']:7.2f}",
          flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--devices", nargs="+", default=["aule", "cuda"])
    parser.add_argument("--compilers", nargs="+", choices=["threads", "one"], default=["threads", "one"])
    parser.add_argument("--small", action="store_true", help="tiny sizes, for a software device")
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--repeat", type=int, default=1, help="cold processes of each configuration")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--child", nargs=3, metavar=("MODEL", "DEVICE", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        model, device, mode = options.child
        return child(model, device, options.small, mode == "compile")
    began = time.monotonic()
    small = ["--small"] if options.small else []
    probe = "import torch; print(torch.cuda.is_available())"
    has_cuda = "cuda" in options.devices and "True" in subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=options.limit
    ).stdout
    devices = [d for d in options.devices if d != "cuda" or has_cuda]
    print(f"{'':37} seconds from the start of the process to     step 1  step 3")
    columns = "cache  import  device   model  step 1  step 2   alone       ms pipelines  driver"
    print(f"{'model':9} {'device':6} {'mode':8} {'compiler':8} {columns}", flush=True)
    for model in options.models:
        package = MODELS[model]
        if package is not None and importlib.util.find_spec(package) is None:
            print(f"{model:9} {package} is not installed")
            continue
        for mode in ("eager", "compile") if options.compile else ("eager",):
            for device in devices:
                for compiler in options.compilers if device == "aule" else ("",):
                    if time.monotonic() - began > options.seconds:
                        print("the time is over")
                        return None
                    row = f"{model:9} {device:6} {mode:8} {compiler:8}"
                    cold, warm = [], []
                    for _ in range(options.repeat):
                        folder = Path(tempfile.mkdtemp(prefix="first_step."))
                        without = ["cpu_kernels"] * options.small + ["compile_threads"] * (compiler == "one")
                        asked = [model, device, mode, *small]
                        for runs in (cold, warm, warm):
                            runs.append(measured(asked, folder, ",".join(without), options.limit))
                        shutil.rmtree(folder, ignore_errors=True)
                    for cache, runs in (("cold", cold), ("warm", warm)):
                        good = [r for r in runs if isinstance(r, dict)]
                        shown(row, cache, median(good) if good else runs[0])
    return None


if __name__ == "__main__":
    main()
