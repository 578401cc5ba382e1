"""``python -m torch_aule.llm bench``: tokens per second, beside what the device's memory allows."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from torch_aule.llm.commands import checked_device, refusing
from torch_aule.llm.language_model import LanguageModel
from torch_aule.llm.loading import DTYPES, check_memory, load
from torch_aule.llm.runner import Runner
from torch_aule.llm.terminal import say
from torch_aule.measure import roof
from torch_aule.measure.numbers import bytes_text, percent_text, statistics_of
from torch_aule.measure.timing import Stopwatch
from torch_aule.quantized import FORMATS, Weight, linear, random_weight

__all__ = ["Traffic", "add_arguments", "random_model", "run", "traffic_of"]

LLAMA = dict(
    model_type="llama", vocab_size=128256, rms_norm_eps=1e-5, rope_theta=500000.0, max_position_embeddings=131072
)
# The numbers of published configurations, for weights that are random.
CONFIGURATIONS = {
    "llama-1b": dict(
        LLAMA, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, tie_word_embeddings=True,
    ),
    "llama-3b": dict(
        LLAMA, hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=True,
    ),
    "llama-8b": dict(
        LLAMA, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=False,
    ),
    "qwen3-0.6b": dict(
        model_type="qwen3", vocab_size=151936, rms_norm_eps=1e-6, rope_theta=1000000.0, max_position_embeddings=40960,
        hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, tie_word_embeddings=True,
    ),
}  # fmt: skip
HEAD = ("model", "size", "params", "backend", "test", "t/s", "ceiling t/s", "share")


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Options of the command.

    Parameters
    ----------
    p : argparse.ArgumentParser
        That has those of the model.
    """

    def counts(text: str) -> list[int]:
        found = [int(part) for part in text.split(",")]
        if not found or min(found) < 1:
            raise ValueError
        return found

    counts.__name__ = "list of numbers"
    p.add_argument("--random", metavar="NAME", help=f"random weights: {', '.join(CONFIGURATIONS)}, or a config.json")
    p.add_argument(
        "--format", choices=FORMATS, metavar="NAME", help="of random weights: q4_k, q8_0, int8, nf4, mxfp4 ..."
    )
    p.add_argument("--batch", type=counts, default=[1], metavar="A,B", help="sequences that run at once (default 1)")
    p.add_argument("-p", "--prompt", type=int, default=512, metavar="N", help="tokens of prompt; 0: leave it out")
    p.add_argument("-n", "--new", type=int, default=128, metavar="N", help="tokens that are drawn; 0: leave it out")
    p.add_argument("--repeats", type=int, default=5, metavar="N", help="of each test (default %(default)s)")


class _PackedLinear(nn.Module):
    """A linear layer whose weight is random in a quantized format."""

    def __init__(self, format: str, in_features: int, out_features: int, device: str):
        super().__init__()
        self.in_features, self.out_features, self.format = in_features, out_features, format
        packed, scales, self.group = random_weight(format, out_features, in_features, device)
        self.packed = nn.Parameter(packed, requires_grad=False)
        self.scales = nn.ParameterList(nn.Parameter(scale, requires_grad=False) for scale in scales)

    def aule_weight(self) -> Weight:
        return Weight(self.packed.data, self.format, tuple(scale.data for scale in self.scales), self.group)

    def set_aule_weight(self, weight: Weight) -> None:
        self.packed.data = weight.packed
        for own, scale in zip(self.scales, weight.scales):
            own.data = scale

    def forward(self, x):
        return linear(x, self.packed, self.format, None, list(self.scales), self.group)


def _pack(model: nn.Module, format: str, device: str) -> None:
    """Replace linear layers; an output that shares the embedding's weight stays as it is."""
    shared = model.get_input_embeddings().weight  # type: ignore[operator, union-attr]
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear and child.weight is not shared:
                setattr(module, name, _PackedLinear(format, child.in_features, child.out_features, device))


def random_model(name: str, dtype: torch.dtype, device: str):
    """A model whose weights are random, on the device.

    Parameters
    ----------
    name : str
        Of :data:`CONFIGURATIONS`, or the path of a config.json.
    dtype : torch.dtype
        Of the weights.
    device : str
        Where they are made.

    Returns
    -------
    transformers.PreTrainedModel
        In evaluation mode.

    Raises
    ------
    LoadError
        If there is too little memory.
    ValueError
        For another name, or a configuration that transformers does not know.
    """
    if name in CONFIGURATIONS:
        numbers: dict[str, Any] = dict(CONFIGURATIONS[name])
    elif Path(name).is_file():
        numbers = json.loads(Path(name).read_text())
    else:
        raise ValueError(f"--random: expected {', '.join(CONFIGURATIONS)}, or a config.json, but got {name!r}")
    config = AutoConfig.for_model(**numbers)
    if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ValueError(f"--random: the architecture {config.model_type!r} is no causal language model")
    with torch.device("meta"):
        elements = sum(p.numel() for p in AutoModelForCausalLM.from_config(config, dtype=dtype).parameters())
    check_memory(name, elements * dtype.itemsize, elements, config, dtype, torch.device(device), 256)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


@dataclass(frozen=True)
class Traffic:
    """Bytes that a step reads at least.

    Parameters
    ----------
    weights : int
        Of what every step reads whole: without an embedding that is not the output's weight too.
    experts : tuple of (int, float)
        For each weight of experts its bytes, and which share of them one token reads.
    row : int
        Keys and values of one token.
    """

    weights: int
    experts: tuple[tuple[int, float], ...]
    row: int

    def of_step(self, batch: int, context: float) -> float:
        """Of one token for each sequence.

        Parameters
        ----------
        batch : int
            Sequences.
        context : float
            Tokens of each that are in the cache.

        Returns
        -------
        float
            Bytes: of experts those that are expected if tokens choose them alike.
        """
        chosen = sum(size * (1 - (1 - share) ** batch) for size, share in self.experts)
        return self.weights + chosen + batch * context * self.row


def traffic_of(model, runner: Runner) -> Traffic:
    """The bytes that a model's steps read.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        On the device.
    runner : Runner
        Of the model.

    Returns
    -------
    Traffic
        Packed weights count as what they take.
    """
    config = model.config.get_text_config()
    chosen = getattr(config, "num_experts_per_tok", None)
    tables = [getattr(m, "weight", None) for m in (model.get_input_embeddings(), model.get_output_embeddings())]
    places = [None if weight is None else weight.data_ptr() for weight in tables]
    seen = set() if places[0] == places[1] else {places[0]}
    weights, experts = 0, []
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        size = tensor.numel() * tensor.element_size()
        if ".experts." in name and chosen and tensor.dim() >= 2:
            experts.append((size, min(chosen / tensor.size(0), 1.0)))
        else:
            weights += size
    caches = [cache for layer in runner.engine.paged_layers for cache in layer.tensors]
    return Traffic(weights, tuple(experts), sum(c.size(2) * c.size(3) * c.element_size() for c in caches))


def _words(lm: LanguageModel, count: int) -> list[int]:
    return random.choices(range(lm.model.config.get_text_config().vocab_size), k=count)


def prompt_rate(lm: LanguageModel, count: int) -> float:
    """Tokens per second of reading a prompt that is new.

    Parameters
    ----------
    lm : LanguageModel
        Whose runner is idle.
    count : int
        Tokens.

    Returns
    -------
    float
        Of the model alone, without drawing the next token.
    """
    runner, prompt = lm.runner, _words(lm, count)
    pages = runner.books.take(runner.books.pages_of(count))
    try:
        runner.slots.table[0, : len(pages)].copy_(torch.tensor(pages, dtype=torch.int32))
        watch = Stopwatch(runner.device)
        runner.engine.read(runner.slots.table, 0, prompt, 0)
        return count / watch.seconds
    finally:
        runner.books.release(pages)


def step_rate(lm: LanguageModel, batch: int, count: int) -> float:
    """Tokens per second of all sequences together, from contexts of one token on.

    Parameters
    ----------
    lm : LanguageModel
        Whose runner is idle.
    batch : int
        Sequences.
    count : int
        Tokens that each draws while the time is taken.

    Returns
    -------
    float
        Greedy, as a program sees them: with the host's reading of each step.
    """
    runner = lm.runner
    requests = [runner.add(_words(lm, 1), max_new_tokens=count + 2) for _ in range(batch)]
    while any(len(request.tokens) < 2 for request in requests):
        runner.step()
    before = sum(len(request.tokens) for request in requests)
    watch = Stopwatch(runner.device)
    while any(request.finished is None for request in requests):
        runner.step()
    return (sum(len(request.tokens) for request in requests) - before) / watch.seconds


def _rows(lm: LanguageModel, args: argparse.Namespace, bandwidth: float) -> Iterator[list[str]]:
    traffic, runner = traffic_of(lm.model, lm.runner), lm.runner
    taken = sum({p.data_ptr(): p.numel() * p.element_size() for p in lm.model.parameters()}.values())
    params = f"{lm.elements / 1e9:.2f} B" if lm.elements >= 1e9 else f"{lm.elements / 1e6:.2f} M"
    who = [f"{lm.name} {lm.type}", bytes_text(taken), params, "aule"]

    def row(test: str, rates: list[float], ceiling: float | None) -> list[str]:
        found = statistics_of(rates)
        share = None if ceiling is None else found.mean / ceiling
        most = "-" if ceiling is None else f"{ceiling:.2f}"
        return [*who, test, f"{found.mean:.2f} +- {found.std:.2f}", most, percent_text(share)]

    if args.prompt:
        prompt_rate(lm, args.prompt)  # kernels are made
        yield row(f"pp{args.prompt}", [prompt_rate(lm, args.prompt) for _ in range(args.repeats)], None)
    for batch in args.batch if args.new else ():
        test = f"tg{args.new}" if batch == 1 else f"tg{args.new} x {batch}"
        if batch * runner.books.pages_of(args.new + 3 + 2) > runner.books.available:
            yield [*who, test, "no room", "-", "-"]
            continue
        step_rate(lm, batch, 2)  # steps are recorded
        ceiling = batch * bandwidth / traffic.of_step(batch, 2 + args.new / 2)
        yield row(test, [step_rate(lm, batch, args.new) for _ in range(args.repeats)], ceiling)


def _loaded(args: argparse.Namespace) -> LanguageModel:
    options = dict(max_batch=max(args.batch), max_len=max(args.prompt + 1, args.new + 4), kv_cache_dtype=args.kv_cache)
    device = checked_device(args.device)
    if (args.model is None) == (args.random is None):
        raise ValueError("bench: expected a MODEL or --random, one of them")
    if args.format is not None and args.random is None:
        raise ValueError("bench: --format is for --random; a MODEL has a format of its own")
    if args.repeats < 1 or args.prompt < 0 or args.new < 0 or args.prompt + args.new == 0:
        raise ValueError("bench: expected --repeats of at least 1, and -p or -n above 0")
    if args.model is not None:
        return load(args.model, dtype=args.dtype, device=device, **options)
    dtype = DTYPES.get(args.dtype, torch.bfloat16)
    model = random_model(args.random, dtype, device)
    elements = sum(p.numel() for p in model.parameters())
    if args.format is not None:
        _pack(model, args.format, device)
    lm = LanguageModel(model, **options)
    if args.format is not None:
        lm.type, lm.elements = args.format.upper(), elements
    lm.name = args.random if args.random in CONFIGURATIONS else model.config.model_type
    return lm


def run(args: argparse.Namespace) -> int:
    """Measure a model, and print a table.

    Parameters
    ----------
    args : argparse.Namespace
        From the parser.

    Returns
    -------
    int
        0.

    Raises
    ------
    Refusal
        With the reason.
    """
    with refusing():
        lm = _loaded(args)
    fusions = lm.runner.engine.fusions
    if fusions is not None and fusions.left_out:
        say(f"[{len(fusions.left_out)} parts differ from their modules and run slower, as {fusions.left_out[0]}]")
    device = lm.runner.device
    known = roof.load(device)
    if known is None:
        say("[measuring what the device can reach, once]")
        known = roof.measure(device)
    print(f"{known.device}, {known.driver}: a copy moves {known.bandwidth / 1e9:.1f} GB/s")
    widths = [max(len(lm.name) + len(lm.type) + 1, 5), 9, 9, 7, 10, 16, 11, 7]
    _print(HEAD, widths)
    _print(["-" * width for width in widths], widths)
    for row in _rows(lm, args, known.bandwidth):
        _print(row, widths)
    return 0


def _print(cells, widths) -> None:
    first, *rest = zip(cells, widths)
    print(
        "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]) + " |", flush=True
    )
