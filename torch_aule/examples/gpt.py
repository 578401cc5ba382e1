"""Trains a small GPT on the sources of Python's standard library, character by character.

    make demo                                   (or: python -m torch_aule.examples.gpt)
    torchrun --nproc-per-node=2 -m torch_aule.examples.gpt

Under torchrun each process takes its share of the batch and, with DistributedDataParallel, the mean of all gradients.

Writes ./demo-out/: loss.png, sample.txt, model.pt. Ctrl-C leaves checkpoint.pt, from which the next start goes on.
Afterwards the first steps are repeated on the CPU with the same weights and batches, and the losses compared.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import signal
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TORCH_AULE_STRICT", "1")  # before the backend loads: no operator may run on the CPU

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

RANK, LOCAL_RANK, WORLD_SIZE = (  # torchrun sets them
    int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1))
)
CHECK_STEPS = 20
CHECK_LIMIT = 1e-4


@dataclass(frozen=True)
class Config:
    vocabulary: int
    layers: int = 5
    width: int = 128
    heads: int = 4
    context: int = 64
    batch: int = 8
    dropout: float = 0.1
    learning_rate: float = 2e-3
    weight_decay: float = 0.1
    clip: float = 1.0


# ---------------------------------------------------------------------------------------------------------------------
# Text


class Text:
    """The standard library as one tensor of character codes. Position 0 stands for every character outside ASCII."""

    def __init__(self, limit: int = 4_000_000):
        parts, size = [], 0
        for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            parts.append(text)
            size += len(text)
            if size >= limit:
                break
        if size < 100_000:
            sys.exit("the sources of Python's standard library are not installed; nothing to train on")
        self.characters = "\0\n" + "".join(map(chr, range(32, 127)))
        code = {character: index for index, character in enumerate(self.characters)}
        self.codes = torch.tensor([code.get(character, 0) for character in "".join(parts)[:limit]])

    def batch(self, config: Config, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of one step on the CPU. They depend on the step only, so that a run can be resumed."""
        generator = torch.Generator().manual_seed(1000 + step)
        starts = torch.randint(len(self.codes) - config.context - 1, (config.batch, 1), generator=generator)
        windows = self.codes[starts + torch.arange(config.context + 1)]
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def decode(self, codes: list[int]) -> str:
        return "".join(self.characters[code] if code else "?" for code in codes)


# ---------------------------------------------------------------------------------------------------------------------
# Model


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.norm_attention = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)
        self.norm_mlp = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = (qkv.select(2, index).transpose(1, 2) for index in range(3))
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        x = x + self.drop(self.project(attended.transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.mlp(self.norm_mlp(x)))


class GPT(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight  # tied
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for block in self.blocks:  # the residual stream keeps its scale at any depth
            for linear in (block.project, block.mlp[2]):
                nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * config.layers))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(codes.shape[1], device=codes.device)
        x = self.drop(self.tokens(codes) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def make_optimizer(model: GPT, config: Config) -> torch.optim.AdamW:
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95))


def train_step(model, optimizer, config, codes, targets) -> torch.Tensor:
    """One step; the loss stays on the device, so that nothing waits for it."""
    logits = model(codes)
    loss = F.cross_entropy(logits.view(-1, config.vocabulary), targets.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    optimizer.step()
    return loss.detach()


def learning_rate(config: Config, progress: float) -> float:
    """A warm-up, then a cosine down to a tenth.

    A hotter start (3e-3 in half the time) makes the first steps chaotic: on the CPU alone, a change of the weights by
    one rounding then moves the losses of 20 steps by 6e-5, with this schedule by 1e-7.
    """
    if progress < 0.1:
        return config.learning_rate * (progress + 0.002) / 0.102
    return config.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * (progress - 0.1) / 0.9)))


@torch.no_grad()
def sample(model: GPT, config: Config, text: Text, device: torch.device, length: int) -> str:
    model.eval()
    codes = torch.tensor([text.characters.index(c) for c in "\ndef "], device=device)[None]
    for _ in range(length):
        logits = model(codes[:, -config.context :])[:, -1] / 0.8
        codes = torch.cat([codes, torch.multinomial(torch.softmax(logits, -1), 1)], 1)
    model.train()
    return text.decode(codes[0].tolist())


# ---------------------------------------------------------------------------------------------------------------------
# The run: what is saved and shown


@dataclass
class Progress:
    step: int = 0
    seconds: float = 0.0
    losses: list[float] = dataclasses.field(default_factory=list)


class Interrupt:
    """The first Ctrl-C asks the loop to stop after the step in hand; the second ends the program at once.

    Of several processes each gets the signal; they stop after the next line of the log, all after the same step.
    """

    def __init__(self):
        self.signalled = False
        self.asked = False  # of all processes
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, *_):
        self.signalled = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


def save_checkpoint(path: Path, model, optimizer, config, progress):
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "config": dataclasses.asdict(config),
        "progress": dataclasses.asdict(progress),
    }
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def read_checkpoint(path: Path, config) -> dict | None:
    """None where there is no checkpoint or it is of another model."""
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file must not stop the demo
        print(f"{path} cannot be read ({error}); starting anew")
        return None
    if state["config"] != dataclasses.asdict(config):
        print(f"{path} belongs to other settings; starting anew")
        return None
    return state


def load_checkpoint(path: Path, model, optimizer, config) -> Progress:
    """The progress that the first process finds, or a fresh one."""
    state = read_checkpoint(path, config) if RANK == 0 else None
    if WORLD_SIZE > 1:
        states = [state]
        dist.broadcast_object_list(states)
        state = states[0]
    if state is None:
        return Progress()
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    progress = Progress(**state["progress"])
    print(f"going on from step {progress.step} of {path}")
    return progress


@contextlib.contextmanager
def progress_bar(total: int):
    """Yields show(step, loss, tokens per second): a bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console()
    if not console.is_terminal:

        def show_line(step, loss, rate):
            print(f"step {step:5d}/{total}  loss {loss:.3f}  {rate:7.0f} tokens/s", flush=True)

        yield show_line
        return
    columns = [
        BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.3f}"),
        TextColumn("{task.fields[rate]:.0f} tokens/s"), TimeElapsedColumn(),
    ]  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total, loss=math.nan, rate=0.0)
        yield lambda step, loss, rate: bar.update(task, completed=step, loss=loss, rate=rate)


def train(model, optimizer, config, text, device, progress, options, interrupt) -> None:
    """Trains up to options.steps, or until options.seconds have gone: the schedule follows whichever comes first."""
    started = time.perf_counter() - progress.seconds
    pending: list[torch.Tensor] = []
    mark = (progress.step, progress.seconds)
    with progress_bar(options.steps) as show:
        while progress.step < options.steps and not interrupt.asked:
            share = max(progress.step / options.steps, progress.seconds / options.seconds)
            if share >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(config, share)
            codes, targets = (  # this process's share of the batch
                t[RANK::WORLD_SIZE].to(device, non_blocking=True) for t in text.batch(config, progress.step)
            )
            pending.append(train_step(model, optimizer, config, codes, targets))
            progress.step += 1
            interrupted = interrupt.signalled and WORLD_SIZE == 1
            if len(pending) == options.log_every or progress.step == options.steps or interrupted:
                losses = torch.stack(pending)
                pending.clear()
                if WORLD_SIZE > 1:
                    dist.all_reduce(losses, dist.ReduceOp.AVG)
                progress.losses += losses.tolist()  # waits for the device
                state = torch.tensor([time.perf_counter() - started, interrupt.signalled], dtype=torch.float64)
                if WORLD_SIZE > 1:  # all processes have the same schedule and the same last step
                    dist.all_reduce(state, dist.ReduceOp.MAX)
                progress.seconds, interrupt.asked = state[0].item(), bool(state[1])
                rate = (progress.step - mark[0]) * config.batch * config.context / (progress.seconds - mark[1])
                mark = (progress.step, progress.seconds)
                show(progress.step, sum(progress.losses[-20:]) / len(progress.losses[-20:]), rate)


def compare_with_cpu(config: Config, text: Text, device: torch.device, initial: dict, steps: int) -> float:
    """Largest relative difference of the first losses of this run: same weights, batches and schedule, no dropout."""
    config = dataclasses.replace(config, dropout=0.0)

    def losses(where: torch.device) -> list[float]:
        model = GPT(config)
        model.load_state_dict(initial)
        model.to(where)
        optimizer = make_optimizer(model, config)
        taken = []
        for step in range(CHECK_STEPS):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(config, step / steps)
            codes, targets = (t.to(where) for t in text.batch(config, step))
            taken.append(train_step(model, optimizer, config, codes, targets))
        return torch.stack(taken).tolist()

    ours, reference = losses(device), losses(torch.device("cpu"))
    return max(abs(a - b) / abs(b) for a, b in zip(ours, reference))


def draw_losses(losses: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    windows = (losses[max(0, end - 20) : end] for end in range(1, len(losses) + 1))
    smooth = [sum(window) / len(window) for window in windows]
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(losses, alpha=0.3, label="each step")
    axes.plot(smooth, label="mean of 20 steps")
    axes.set(xlabel="step", ylabel="loss (nats per character)", title="GPT on Python's standard library")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="aule")
    parser.add_argument("--steps", type=int, default=480)
    parser.add_argument("--seconds", type=float, default=150, help="end the training after this time at the latest")
    parser.add_argument("--log-every", type=int, default=5)
    parser.add_argument("--sample", type=int, default=400, help="characters to write afterwards")
    parser.add_argument("--dropout", type=float, default=Config.dropout)
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    for name in ("layers", "width", "heads", "context", "batch"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Config, name))
    return parser.parse_args(arguments)


def main(arguments=None) -> int:
    options = parse_options(arguments)
    if options.batch % WORLD_SIZE:
        sys.exit(f"--batch {options.batch} cannot be divided among {WORLD_SIZE} processes")
    if RANK > 0:
        sys.stdout = open(os.devnull, "w")
    device = torch.device("cpu")
    if options.device != "cpu":
        import torch_aule  # noqa: F401  registers the device

        if not torch.aule.is_available():
            print("no Vulkan device: `python -m torch_aule.info` says why", file=sys.stderr)
            return 1
        device = torch.device(options.device)
        if WORLD_SIZE > 1:
            device = torch.device(device.type, LOCAL_RANK % torch.aule.device_count())
        torch.aule.set_device(device)
        print(f"device: {torch.aule.get_device_name(device)}")
    if WORLD_SIZE > 1:
        dist.init_process_group()
    options.out.mkdir(parents=True, exist_ok=True)
    checkpoint = options.out / "checkpoint.pt"
    interrupt = Interrupt()

    text = Text()
    names = ("layers", "width", "heads", "context", "batch", "dropout")
    chosen = {name: getattr(options, name) for name in names}
    config = Config(vocabulary=len(text.characters), **chosen)
    torch.manual_seed(0)
    model = GPT(config)
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"model: {parameters / 1e6:.2f} M parameters; text: {len(text.codes) / 1e6:.1f} M characters")
    optimizer = make_optimizer(model, config)
    progress = load_checkpoint(checkpoint, model, optimizer, config)
    torch.manual_seed(1 + progress.step + 1_000_000 * RANK)

    parallel = DistributedDataParallel(model) if WORLD_SIZE > 1 else model
    train(parallel, optimizer, config, text, device, progress, options, interrupt)
    if WORLD_SIZE > 1:
        dist.destroy_process_group()
    if RANK > 0:  # the first process does the rest
        return 130 if interrupt.asked else 0
    if interrupt.asked:
        save_checkpoint(checkpoint, model, optimizer, config, progress)
        print(f"\nstopped at step {progress.step}; {checkpoint} is kept, the next start goes on from there")
        return 130
    signal.signal(signal.SIGINT, signal.default_int_handler)

    written = sample(model, config, text, device, options.sample)
    (options.out / "sample.txt").write_text(written)
    draw_losses(progress.losses, options.out / "loss.png")
    trained = {"model": model.state_dict(), "config": dataclasses.asdict(config), "losses": progress.losses}
    torch.save(trained, options.out / "model.pt")
    print(f"\n{written}\n")
    rate = progress.step * config.batch * config.context / progress.seconds
    tail = progress.losses[-20:]
    print(
        f"loss {progress.losses[0]:.3f} -> {sum(tail) / len(tail):.3f} in {progress.step} steps, "
        f"{progress.seconds:.0f} s{' (the time limit)' if progress.seconds >= options.seconds else ''}, "
        f"{rate:.0f} tokens/s"
    )

    print(f"repeating the first {CHECK_STEPS} steps without dropout, here and on the CPU", flush=True)
    difference = compare_with_cpu(config, text, device, initial, options.steps)
    on_cpu = len(torch.aule.fallback_report()) if device.type == "aule" else 0
    strict = os.environ["TORCH_AULE_STRICT"] == "1"
    print(
        f"first {CHECK_STEPS} steps against the CPU: largest relative loss difference {difference:.1e} "
        f"(limit {CHECK_LIMIT:.0e})"
    )
    print(f"operators on the CPU: {on_cpu} (strict mode {'on' if strict else 'off'})")
    print(f"written: {options.out}/loss.png, sample.txt, model.pt")
    checkpoint.unlink(missing_ok=True)
    return 0 if difference <= CHECK_LIMIT and on_cpu == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
