"""Models as people train and run them, eager, with random weights; what is not installed is left out.

Training: forward, loss, backward and fused or foreach optimizer under bfloat16 autocast. Inference: bfloat16 weights.
Convolutional networks are channels-last. The host's time counts, as it does for a user.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.harness.targets import Target
from torch_aule.benchmark.report import dearest

TARGET = Target("cuda", 0.7, 1.0)
IMAGE = (3, 224, 224)


class UNet(nn.Module):
    """Four levels of two 3x3 convolutions with batch norm, as Ronneberger et al. (2015), padded."""

    def __init__(self, width: int = 64, classes: int = 2):
        super().__init__()
        widths = [width << level for level in range(5)]

        def double(a, b):
            layers = [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
            return nn.Sequential(*layers, nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))

        self.down = nn.ModuleList(double(a, b) for a, b in zip([3, *widths], widths))
        self.raised = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[3::-1])
        self.up = nn.ModuleList(double(2 * w, w) for w in widths[3::-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(F.max_pool2d(kept[-1], 2) if kept else x)
            kept.append(x)
        for raised, level, skip in zip(self.raised, self.up, kept[3::-1]):
            x = level(torch.cat([skip, raised(x)], 1))
        return self.head(x)


class LanguageLSTM(nn.Module):
    """Two layers between an embedding and a vocabulary."""

    def __init__(self, vocabulary: int = 10000, width: int = 650):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.embed(tokens))[0])


def _vision(name: str, **options) -> Callable[[], nn.Module]:
    def build():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options)

    return build


def _segmentation() -> nn.Module:
    import torchvision

    return torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)


def _timm(name: str) -> Callable[[], nn.Module]:
    def build():
        import timm

        return timm.create_model(name)

    return build


def _hugging_face(model: str, config: str, **options) -> Callable[[], nn.Module]:
    def build():
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**options))

    return build


@dataclass(frozen=True)
class Model:
    name: str
    needs: str | None  # a package
    build: Callable[[], nn.Module]
    batch: int
    kind: str = "images"  # or tokens, places (a class for each pixel), whisper: what goes in and what the loss is
    length: int = 512
    vocabulary: int = 30522


MODELS = [
    Model("ResNet-50", "torchvision", _vision("resnet50"), 64),
    Model("MobileNetV3-L", "torchvision", _vision("mobilenet_v3_large"), 128),
    Model("EfficientNet-B0", "torchvision", _vision("efficientnet_b0"), 64),
    Model("ConvNeXt-T", "torchvision", _vision("convnext_tiny"), 64),
    Model("DeepLabV3", "torchvision", _segmentation, 8, "places"),
    Model("U-Net", None, UNet, 8, "places"),
    Model("LSTM, two layers", None, LanguageLSTM, 64, "tokens", 64, 10000),
    Model("ResNeXt-50", "torchvision", _vision("resnext50_32x4d"), 64),
    Model("DenseNet-121", "torchvision", _vision("densenet121"), 64),
    Model("RegNetY-1.6GF", "torchvision", _vision("regnet_y_1_6gf"), 64),
    Model("VGG-16", "torchvision", _vision("vgg16"), 32),
    Model("ViT-B/16", "torchvision", _vision("vit_b_16"), 64),
    Model("Swin-T", "torchvision", _vision("swin_t"), 64),
    Model("MLP-Mixer B/16", "timm", _timm("mixer_b16_224"), 64),
    Model("DeiT-S", "timm", _timm("deit_small_patch16_224"), 128),
    Model("MaxViT-T", "timm", _timm("maxvit_tiny_rw_224"), 32),
    Model("EfficientFormer-L1", "timm", _timm("efficientformer_l1"), 64),
    Model("BERT base", "transformers", _hugging_face("BertForMaskedLM", "BertConfig"), 16, "tokens"),
    Model("DistilBERT", "transformers", _hugging_face("DistilBertForMaskedLM", "DistilBertConfig"), 16, "tokens"),
    Model("GPT-2", "transformers", _hugging_face("GPT2LMHeadModel", "GPT2Config"), 8, "tokens", 1024, 50257),
    Model("Llama 0.3 B", "transformers", _hugging_face("LlamaForCausalLM", "LlamaConfig", vocab_size=32000,
          hidden_size=1024, intermediate_size=2816, num_hidden_layers=16, num_attention_heads=16,
          num_key_value_heads=4), 4, "tokens", 1024, 32000),
    Model("Qwen2 0.4 B", "transformers", _hugging_face("Qwen2ForCausalLM", "Qwen2Config", vocab_size=32000,
          hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
          num_key_value_heads=2), 4, "tokens", 1024, 32000),
    Model("T5 small", "transformers", _hugging_face("T5ForConditionalGeneration", "T5Config",
          decoder_start_token_id=0), 16, "pairs", 256, 32128),
    Model("Whisper tiny", "transformers", _hugging_face("WhisperForConditionalGeneration", "WhisperConfig"), 8,
          "whisper", 128, 50257),
    Model("CLIP text and image", "transformers", _hugging_face("CLIPModel", "CLIPConfig"), 32, "clip", 77, 49408),
]  # fmt: skip
CONVOLUTIONS_FIRST = 7  # models of convolutions and recurrent layers, which --quick trains


def _logits(output):
    output = getattr(output, "logits_per_image", output)  # CLIP's
    return output["out"] if isinstance(output, dict) and "out" in output else getattr(output, "logits", output)


def inputs_of(model: Model, device: str, dtype: torch.dtype):
    """Of the model's forward, and of the loss."""
    generator = torch.Generator().manual_seed(0)

    def images(*shape):
        t = torch.randn(*shape, generator=generator).to(device, dtype)
        return t.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else t

    def integers(most, *shape):
        return torch.randint(most, shape, generator=generator).to(device)

    batch, length = model.batch, model.length
    if model.kind == "images":
        return {"": images(batch, *IMAGE)}, integers(1000, batch)
    if model.kind == "places":
        return {"": images(batch, 3, 256, 256)}, integers(2, batch, 256, 256)
    tokens = integers(model.vocabulary, batch, length)
    if model.kind == "tokens":
        return {"input_ids" if model.needs else "": tokens}, tokens
    if model.kind == "pairs":
        return {"input_ids": tokens, "decoder_input_ids": tokens}, tokens
    if model.kind == "whisper":
        return {"input_features": images(batch, 80, 3000), "decoder_input_ids": tokens}, tokens
    return {"input_ids": tokens, "pixel_values": images(batch, *IMAGE), "return_loss": True}, None


def _loss(model: Model, output, wanted):
    if model.kind == "clip":
        return output.loss
    logits = _logits(output)
    if model.kind in ("images", "places"):
        return F.cross_entropy(logits, wanted)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())


def _called(net, inputs):
    return net(inputs[""]) if "" in inputs else net(**inputs)


def _spread(output: torch.Tensor) -> list[float]:
    """Elements all over an output, to hold devices against each other without sending the whole of it."""
    flat = output.detach().flatten()
    count = min(64, flat.numel())
    places = torch.arange(count) * (flat.numel() - 1) // max(count - 1, 1)
    return flat[places.to(flat.device)].float().cpu().tolist()


def _values(device: str, call) -> dict:
    """The first loss, or elements of the output; on this device also where the time of one call goes."""
    values = {"output": [float(f"{value:.6g}") for value in call.check()]}
    return {**values, **dearest.of_aule(device, call)}


def _case(model: Model, training: bool, main: bool) -> Case:
    def make(device):
        torch.manual_seed(0)
        net = model.build()
        if model.kind in ("images", "places"):
            net = net.to(memory_format=torch.channels_last)
        if not training:
            net = net.to(device, torch.bfloat16).eval()
            inputs, _ = inputs_of(model, device, torch.bfloat16)

            @torch.no_grad()
            def infer():
                return _called(net, inputs)

            infer.check = lambda: _spread(_logits(infer()))
            return infer
        net = net.to(device).train()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=True)
        inputs, wanted = inputs_of(model, device, torch.float32)

        losses = []

        def step():
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = _loss(model, _called(net, inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not losses:
                losses.append(loss.detach())
            return loss

        step.check = lambda: _spread(losses[0])
        return step

    shapes = f"B{model.batch}" + (f" N{model.length}" if model.kind not in ("images", "places") else "")
    return Case("models", f"{model.name} {'training' if training else 'inference'}", shapes, "bfloat16", make,
                target=TARGET, main=main, queued=False, autograd=training, values=_values)  # fmt: skip


def models(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return []
    cases = []
    for index, model in enumerate(MODELS):
        if model.needs is None or importlib.util.find_spec(model.needs):
            cases.append(_case(model, True, index < CONVOLUTIONS_FIRST))
            cases.append(_case(model, False, False))
    return cases
