"""Models for `python -m torch_aule.benchmark compiled`: eager and under torch.compile, with random weights.

The names without a colon are written here or come from transformers; those of the group `models` are the suite's, as
`suite:resnet_50` (a training step) and `suite:resnet_50:inference`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule.benchmark.cases.models import MODELS as SUITE
from torch_aule.benchmark.cases.models import Model, inputs_of


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


def perceptron(small):
    """Of three layers, as a first program has it."""
    width = 32 if small else 512
    net = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    return net, torch.randn(64, 784)


def resnet18(small):
    sizes = {"embedding_size": 64, "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}
    if small:
        sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    pixels = {"pixel_values": torch.randn(4 if small else 128, 3, 32, 32)}
    return of_transformers("ResNet", "ResNetForImageClassification", pixels, layer_type="basic",
                           num_labels=1000, **sizes)  # fmt: skip


def bert_encoder(small):
    inputs = {"input_ids": tokens(2 if small else 32, 32 if small else 256, 30000)}
    return of_transformers("Bert", "BertModel", inputs, **(NARROW if small else {}))


def whisper_encoder(small):
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    width, layers, rows = (64, 1, 1) if small else (768, 12, 8)
    config = WhisperConfig(d_model=width, encoder_layers=layers, encoder_attention_heads=width // 16 if small else 12,
                           encoder_ffn_dim=4 * width, max_source_positions=50 if small else 1500)  # fmt: skip
    return WhisperEncoder(config), {"input_features": torch.randn(rows, 80, 100 if small else 3000)}


NARROW = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}


@dataclass(frozen=True)
class CompiledModel:
    """A model, its inputs, and what a call of it is."""

    make: Callable[[bool], tuple]  # small -> (module, its inputs on the CPU); small: sizes of a software device
    predicts: str | None = None  # the input that a language model predicts; "": the only one
    classes: int = 0  # of a classifier
    training: bool = True
    # Of autocast while training, and of the weights in inference; float32: as they are.
    dtype: torch.dtype = torch.bfloat16
    optimizer: type | None = None  # its step is part of the call
    channels_last: bool = False

    def __call__(self, small: bool) -> tuple:
        return self.make(small)


_VIT = vision("ViT", image_size=32, patch_size=8, **NARROW)
_RESNET50 = vision("ResNet", embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1])
_FLOAT32, _FLOAT16 = {"dtype": torch.float32}, {"dtype": torch.float16}
MODELS = {
    "gpt2": CompiledModel(gpt2, predicts=""),
    "llama": CompiledModel(llama, predicts="input_ids"),
    "bert_padding": CompiledModel(bert),
    "vit": CompiledModel(_VIT),
    "swin": CompiledModel(vision("Swin", image_size=32, patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4],
                                 window_size=4)),
    "convnext": CompiledModel(vision("ConvNext", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
    "resnet50": CompiledModel(_RESNET50),
    "mobilenet_v2": CompiledModel(vision("MobileNetV2", rows=128, image_size=32, depth_multiplier=0.25)),
    "unet": CompiledModel(unet),
    "t5": CompiledModel(t5, predicts="decoder_input_ids"),
    "mamba": CompiledModel(mamba, predicts="input_ids"),
    "mlp": CompiledModel(mlp),
    "perceptron": CompiledModel(perceptron, classes=10, optimizer=torch.optim.AdamW, **_FLOAT32),
    "resnet18": CompiledModel(resnet18, classes=1000, optimizer=torch.optim.SGD, **_FLOAT32),
    "resnet50_float16": CompiledModel(_RESNET50, **_FLOAT16),
    "vit_inference": CompiledModel(_VIT, training=False, **_FLOAT16),
    "llama_prefill": CompiledModel(llama, training=False),
    "whisper_encoder": CompiledModel(whisper_encoder, training=False, **_FLOAT16),
    "bert_inference": CompiledModel(bert_encoder, training=False, **_FLOAT16),
}  # fmt: skip


def _of_suite(model: Model) -> Callable[[bool], tuple]:
    def make(small):
        if small:
            raise ValueError(f"{model.name} has no sizes for a software device")
        inputs, _ = inputs_of(model, "cpu", torch.float32)
        return model.build(), inputs[""] if "" in inputs else inputs

    return make


def _suite_models() -> dict[str, CompiledModel]:
    predicts = {"pairs": "decoder_input_ids", "whisper": "decoder_input_ids"}
    found = {}
    for model in SUITE:
        if model.needs is not None and not importlib.util.find_spec(model.needs):
            continue
        name = "suite:" + re.sub(r"[^a-z0-9]+", "_", model.name.lower()).strip("_")
        token = predicts.get(model.kind, ("input_ids" if model.needs else "") if model.kind == "tokens" else None)
        images = model.kind in ("images", "places")
        found[name] = CompiledModel(_of_suite(model), token, channels_last=images)
        found[f"{name}:inference"] = CompiledModel(_of_suite(model), token, training=False, channels_last=images)
    return found


MODELS |= _suite_models()


def result_of(model, inputs):
    result = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    if isinstance(result, torch.Tensor):
        return result
    return result["out"] if isinstance(result, dict) and "out" in result else result[0]


def targets_of(name: str, model, inputs):
    """The tokens that a language model predicts, classes, or random values, since batch norms fix sums of results."""
    key = MODELS[name].predicts
    if key is not None:
        return inputs[key] if key else inputs
    if MODELS[name].classes:
        rows = next(iter(inputs.values())) if isinstance(inputs, dict) else inputs
        return torch.randint(MODELS[name].classes, rows.shape[:1], device=rows.device)
    with torch.no_grad():
        return torch.randn_like(result_of(model, inputs), dtype=next(model.parameters()).dtype)


def loss_of(model, inputs, targets):
    value = result_of(model, inputs)
    if targets.is_floating_point():
        return F.mse_loss(value.to(targets.dtype), targets)
    if value.dim() == 2:
        return F.cross_entropy(value.float(), targets)
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
