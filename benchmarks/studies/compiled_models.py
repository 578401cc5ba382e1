"""Training steps of whole models, eager and under torch.compile: milliseconds, their ratio, and how far results differ.

    python benchmarks/studies/compiled_models.py                              all models on aule
    python benchmarks/studies/compiled_models.py --devices aule,cuda --jobs 8  CUDA beside it
    python benchmarks/studies/compiled_models.py --small --models gpt2        sizes for a software device

A step is forward and backward under autocast to bfloat16, without an optimizer, by the host's clock over several steps:
the device's queue hides the host's share where the device is the slower one. Each model runs in a process of its own:
`--jobs` of them compile beside each other, then one at a time is timed while the others wait. Models come from
transformers with random weights; GPT-2 is the benchmark's, the U-Net and the MLP are written here.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

READY = "compiled, ready to be timed"


class Residual(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, channels), nn.GroupNorm(8, out)])
        self.convs = nn.ModuleList([nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)])
        self.skip = nn.Conv2d(channels, out, 1)

    def forward(self, x):
        y = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            y = conv(F.silu(norm(y)))
        return y + self.skip(x)


class Attention2d(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x):
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(tokens).unflatten(-1, (3, -1, 32)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).unflatten(2, x.shape[2:])


class UNet(nn.Module):
    """Of a diffusion model: residual blocks with group norms, attention at the bottom, skips from the way down."""

    def __init__(self, width, depth):
        super().__init__()
        sizes = [width * 2**i for i in range(depth)]
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.ModuleList([Residual(a, b) for a, b in zip([width, *sizes], sizes)])
        self.shrink = nn.ModuleList([nn.Conv2d(c, c, 3, stride=2, padding=1) for c in sizes[:-1]])
        self.middle = nn.Sequential(Attention2d(sizes[-1]), Residual(sizes[-1], sizes[-1]))
        self.up = nn.ModuleList([Residual(a + b, b) for a, b in zip([sizes[-1], *sizes[::-1]], sizes[::-1])])
        self.last = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x):
        x, skips = self.first(x), []
        for i, block in enumerate(self.down):
            x = block(x)
            skips.append(x)
            if i < len(self.shrink):
                x = self.shrink[i](x)
        x = self.middle(x)
        for i, block in enumerate(self.up):
            x = block(torch.cat([x, skips.pop()], 1))
            if i + 1 < len(self.up):
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.last(x)


class MLP(nn.Sequential):
    def __init__(self, width, layers):
        blocks = [m for _ in range(layers) for m in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())]
        super().__init__(*blocks, nn.Linear(width, width))


def tokens(rows, length, vocabulary):
    return torch.randint(3, vocabulary, (rows, length))


def of_transformers(name, model, inputs, **config):
    import transformers

    return getattr(transformers, model)(getattr(transformers, f"{name}Config")(**config)), inputs


def gpt2(small):
    from torch_aule.benchmark.harness.gpt2 import GPT2, Gpt2Config

    config = Gpt2Config(layers=2, width=64, heads=2, vocabulary=257, context=64) if small else Gpt2Config()
    return GPT2(config), tokens(2 if small else 8, config.context, config.vocabulary)


def llama(small):
    sizes = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4}
    if not small:
        sizes = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 6, "num_attention_heads": 32}
    inputs = {"input_ids": tokens(2, 64, 256) if small else tokens(4, 1024, 32000)}
    sizes |= {"num_key_value_heads": sizes["num_attention_heads"] // 4, "vocab_size": 256 if small else 32000}
    return of_transformers("Llama", "LlamaForCausalLM", inputs, use_cache=False, **sizes)


def bert(small):
    sizes = NARROW if small else {}
    rows, length = (2, 64) if small else (32, 512)
    mask = (torch.arange(length)[None] < torch.linspace(length // 2, length, rows)[:, None]).long()
    inputs = {"input_ids": tokens(rows, length, 30000), "attention_mask": mask}
    return of_transformers("Bert", "BertModel", inputs, **sizes)


def t5(small):
    sizes = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "d_kv": 16} if small else {}
    rows, length = (2, 40) if small else (16, 512)
    inputs = {"input_ids": tokens(rows, length, 30000), "decoder_input_ids": tokens(rows, length // 4, 30000)}
    return of_transformers(
        "T5", "T5ForConditionalGeneration", inputs, use_cache=False, decoder_start_token_id=0, **sizes
    )


def mamba(small):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 256}
    if not small:
        sizes = {"hidden_size": 768, "num_hidden_layers": 4, "vocab_size": 50280}
    inputs = {"input_ids": tokens(2, 12, 256) if small else tokens(8, 64, 50000)}
    return of_transformers("Mamba", "MambaForCausalLM", inputs, use_cache=False, **sizes)


def unet(small):
    return (UNet(32, 2), torch.randn(1, 4, 16, 16)) if small else (UNet(128, 3), torch.randn(16, 4, 64, 64))


def mlp(small):
    return (MLP(64, 2), torch.randn(32, 64)) if small else (MLP(2048, 8), torch.randn(8192, 2048))


def vision(name, rows=64, size=224, **small_config):
    """With the library's own sizes, those of the first paper; `small_config` for a software device."""

    def make(small):
        pixels = {"pixel_values": torch.randn(2, 3, 32, 32) if small else torch.randn(rows, 3, size, size)}
        return of_transformers(name, f"{name}Model", pixels, **(small_config if small else {}))

    return make


NARROW = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS = {
    "gpt2": gpt2,
    "llama": llama,
    "bert_padding": bert,
    "vit": vision("ViT", image_size=32, patch_size=8, **NARROW),
    "swin": vision("Swin", image_size=32, patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4),
    "convnext": vision("ConvNext", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "resnet50": vision("ResNet", embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1]),
    "mobilenet_v2": vision("MobileNetV2", rows=128, image_size=32, depth_multiplier=0.25),
    "unet": unet,
    "t5": t5,
    "mamba": mamba,
    "mlp": mlp,
}


TOKENS = {"llama": "input_ids", "mamba": "input_ids", "t5": "decoder_input_ids"}  # what a language model predicts


def result_of(model, inputs):
    result = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    return result if isinstance(result, torch.Tensor) else result[0]


def targets_of(name: str, model, inputs):
    """What a language model predicts; else random values for each result, as batch norms fix sums of them."""
    if name == "gpt2" or name in TOKENS:
        return inputs if name == "gpt2" else inputs[TOKENS[name]]
    with torch.no_grad():
        return torch.randn_like(result_of(model, inputs), dtype=next(model.parameters()).dtype)


def loss_of(model, inputs, targets):
    value = result_of(model, inputs)
    if targets.is_floating_point():
        return F.mse_loss(value.to(targets.dtype), targets)
    return F.cross_entropy(value[:, :-1].flatten(0, 1).float(), targets[:, 1:].flatten())


def gradients(loss, model):
    found = torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], allow_unused=True)
    return torch.cat([g.detach().double().cpu().flatten() for g in found if g is not None])


def without_dropout(model) -> None:
    """Its draws in eager and compiled code would differ: modules' own `p`, and rates that attention passes on."""
    for part in model.modules():
        if isinstance(part, nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
        for key, value in vars(part).items():
            if "drop" in key and isinstance(value, float):
                setattr(part, key, 0.0)


def measure(name: str, device: str, options) -> dict:
    """One model: what `--save` keeps of it."""
    module = getattr(torch, device)
    torch.manual_seed(0)
    model, inputs = MODELS[name](options.small)
    without_dropout(model)
    model = model.to(device).train()
    inputs = torch.utils._pytree.tree_map(lambda t: t.to(device), inputs)
    targets = targets_of(name, model, inputs)

    def loss(run):
        with torch.autocast(device, torch.bfloat16):
            return run(model, inputs, targets)

    start = time.perf_counter()
    compiled = torch.compile(loss_of)
    compared = [gradients(loss(run), model) for run in (compiled, loss_of)]
    record = {"model": name, "device": device, "torch": torch.__version__, "compile_s": time.perf_counter() - start}
    record["gradient_error"] = ((compared[0] - compared[1]).norm() / compared[1].norm()).item()
    del compared
    module.empty_cache()
    print(READY, flush=True)
    sys.stdin.readline()  # until it is this process's turn

    def step(run):
        loss(run).backward()
        model.zero_grad(set_to_none=True)

    def milliseconds(run, count):
        module.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            step(run)
        module.synchronize()
        return (time.perf_counter() - start) / count * 1e3

    runs = {"eager": loss_of, "compiled": compiled}
    counts = {}
    for key, run in runs.items():
        milliseconds(run, 2)
        counts[key] = max(1, min(20, int(options.sample_ms / milliseconds(run, 1))))
    samples = {key: [] for key in runs}
    for _ in range(options.samples):  # in alternation
        for key, run in runs.items():
            samples[key].append(milliseconds(run, counts[key]))
    record |= {f"{key}_ms": statistics.median(values) for key, values in samples.items()}
    return record


def line_of(record: dict) -> str:
    if "error" in record:
        return f"{record['device']:5} {record['model']:19} FAILED {record['error']}"
    line = f"{record['device']:5} {record['model']:19}"
    if "eager_ms" in record:
        ratio = record["eager_ms"] / record["compiled_ms"]
        line += f" eager {record['eager_ms']:8.2f} ms  compiled {record['compiled_ms']:8.2f} ms  ratio {ratio:5.2f}"
    return f"{line}  gradients differ by {record['gradient_error']:.1e}  compiled in {record['compile_s']:.0f} s"


class Child:
    """A process that compiles a model, compares the gradients, and times it once it is told to."""

    def __init__(self, name: str, device: str, options):
        self.name, self.device, self.limit, self.lines = name, device, options.limit, []
        command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--one", name, "--devices", device]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def read(self, last: str | None = None) -> Child:
        """Takes lines until one is `last`, or until the end. The process is killed where that takes too long."""
        timer = threading.Timer(self.limit, self.process.kill)
        timer.start()
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if self.lines[-1] == last:
                break
        timer.cancel()
        return self

    def record(self) -> dict:
        """What it measures, now that it may."""
        with contextlib.suppress(BrokenPipeError):  # it has failed
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        self.read()
        found = [json.loads(line) for line in self.lines if line.startswith('{"model"')]
        if self.process.wait() == 0 and found:
            return found[-1]
        error = next((line for line in reversed(self.lines) if line), "no output")[:300]
        return {"model": self.name, "device": self.device, "error": error}


def in_processes(options) -> list[dict]:
    """A process for each model and device: `--jobs` of them compile beside each other, one at a time is timed."""
    pairs = [(name, device) for name in options.models for device in options.devices]
    records = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        children = list(pool.map(lambda pair: Child(*pair, options).read(READY), pairs))
    for child in children:
        records.append(child.record())
        print(line_of(records[-1]), flush=True)
        if options.save:
            with open(options.save, "a") as file:
                file.write(json.dumps(records[-1]) + "\n")
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=lambda text: text.split(","), default=["aule"])
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile beside each other")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--sample-ms", type=float, default=300)
    parser.add_argument("--limit", type=float, default=300, help="seconds for compiling a model, and for timing it")
    parser.add_argument("--save", help="appends records, a line of JSON each")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        if options.devices == ["aule"]:
            import torch_aule  # noqa: F401  makes the device
        print(json.dumps(measure(options.one, options.devices[0], options)))
        return
    records = in_processes(options)
    for device in options.devices:
        ratios = [r["eager_ms"] / r["compiled_ms"] for r in records if "eager_ms" in r and r["device"] == device]
        if ratios:
            mean, least = statistics.geometric_mean(ratios), min(ratios)
            print(f"{device}: geometric mean of {len(ratios)} {mean:.3f}, least {least:.3f}")


if __name__ == "__main__":
    main()
