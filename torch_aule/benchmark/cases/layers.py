"""Layers of vision and sequence models: convolutions, batch norm, recurrent layers, products of few rows, `.item()`.

Convolutions are timed pass by pass: the result, the gradient of the input, that of the weight. CUDA takes TF32 for
float32 convolutions and recurrent layers, its default.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torch_aule.benchmark.harness.case import Case, Sizes, randn, short
from torch_aule.benchmark.harness.targets import Target

FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}
PASSES = {"forward": None, "input": (True, False, False), "weight": (False, True, False)}

# Speed beside CUDA's that each class should reach, and what is wanted after that.
TARGETS = {
    "depthwise": (0.8, 1.5),
    "grouped": (0.6, 1.0),
    "conv": (0.55, 0.75),
    "conv float32": (0.5, 0.8),
    "conv3d": (0.4, 0.6),
    "lstm": (0.6, 1.0),
    "gru": (0.6, 1.0),
    "lstm training": (0.5, 1.0),
    "gru training": (0.5, 1.0),
    "lstm both ways": (0.5, 1.0),
    "lstm both ways training": (0.5, 1.0),
    "rnn": (0.5, 1.0),
    "rnn training": (0.5, 1.0),
    "batch_norm": (0.7, 1.0),
    "product": (0.6, 0.9),
}


def target(kind: str) -> Target:
    return Target("cuda", *TARGETS[kind])


@dataclass(frozen=True)
class Layer:
    """A convolution with padding that keeps the extent at stride 1, or none where the stride is the kernel."""

    kind: str  # of TARGETS
    name: str
    images: int
    channels: int
    out_channels: int
    extent: int
    kernel: int
    stride: int = 1
    groups: int = 1
    dims: int = 2
    transposed: bool = False

    def within(self, most: tuple[int, int, int] | None) -> Layer:
        """The same with at most these images, channels (a multiple of the groups' own) and extent."""
        if most is None:
            return self
        images, channels, extent = most
        groups = self.groups if self.groups == 1 else min(self.groups, max(1, channels * self.groups // self.channels))
        each, out_each = self.channels // self.groups, self.out_channels // self.groups
        return Layer(
            self.kind, self.name, min(self.images, images), min(each * groups, max(channels, groups)),
            min(out_each * groups, max(channels, groups)), min(self.extent, max(extent, self.kernel)), self.kernel,
            self.stride, groups, self.dims, self.transposed,
        )  # fmt: skip

    @property
    def shapes(self) -> str:
        stride = f" s{self.stride}" if self.stride > 1 else ""
        groups = f" g{self.groups}" if self.groups > 1 else ""
        size = "x".join([str(self.kernel)] * self.dims)
        return f"{size}{stride} {self.channels}>{self.out_channels}{groups} {self.extent} B{self.images}"

    @property
    def padding(self) -> int:
        if self.transposed:
            return (self.kernel - self.stride) // 2
        return 0 if self.stride == self.kernel else self.kernel // 2

    @property
    def out_extent(self) -> int:
        if self.transposed:
            return (self.extent - 1) * self.stride - 2 * self.padding + self.kernel
        return (self.extent + 2 * self.padding - self.kernel) // self.stride + 1

    def flops(self) -> float:
        places = self.images * (self.extent if self.transposed else self.out_extent) ** self.dims
        return 2.0 * places * self.kernel**self.dims * self.channels * self.out_channels / self.groups

    def bytes(self, dtype: torch.dtype) -> float:
        """To read the image once and write the result once."""
        read = self.channels * self.extent**self.dims
        return float(dtype.itemsize) * self.images * (read + self.out_channels * self.out_extent**self.dims)


CONVOLUTIONS = [
    Layer("depthwise", "depthwise", 64, 144, 144, 56, 3, groups=144),
    Layer("depthwise", "depthwise", 64, 1152, 1152, 7, 3, groups=1152),
    Layer("depthwise", "depthwise", 64, 96, 96, 112, 3, 2, groups=96),
    Layer("depthwise", "depthwise", 64, 240, 240, 28, 5, groups=240),
    Layer("depthwise", "depthwise", 64, 240, 240, 28, 5, 2, groups=240),
    Layer("depthwise", "depthwise", 32, 96, 96, 56, 7, groups=96),
    Layer("depthwise", "depthwise", 32, 384, 384, 14, 7, groups=384),
    Layer("depthwise", "depthwise", 32, 768, 768, 7, 7, groups=768),
    Layer("depthwise", "depthwise", 32, 200, 200, 30, 7, 2, groups=200),
    Layer("grouped", "grouped", 64, 256, 256, 28, 3, groups=32),
    Layer("grouped", "grouped", 64, 512, 512, 14, 3, groups=32),
    Layer("conv", "conv", 64, 64, 64, 56, 3),
    Layer("conv", "conv", 64, 128, 128, 56, 3, 2),
    Layer("conv", "conv", 64, 256, 256, 14, 3),
    Layer("conv", "conv", 64, 512, 512, 7, 3),
    Layer("conv", "conv", 2, 320, 320, 64, 3),
    Layer("conv", "conv", 2, 1280, 1280, 16, 3),
    Layer("conv", "conv", 64, 64, 256, 56, 1),
    Layer("conv", "conv", 64, 256, 64, 56, 1),
    Layer("conv", "conv", 64, 1024, 2048, 14, 1, 2),
    Layer("conv", "conv", 64, 2048, 512, 7, 1),
    Layer("conv", "stem", 64, 3, 64, 224, 7, 2),
    Layer("conv", "stem", 64, 3, 32, 224, 3, 2),
    Layer("conv", "patches", 64, 3, 768, 224, 16, 16),
    Layer("conv", "patches", 64, 96, 192, 56, 2, 2),
    Layer("conv", "transposed", 32, 256, 128, 32, 4, 2, transposed=True),
    Layer("conv", "transposed", 32, 256, 128, 32, 2, 2, transposed=True),
    Layer("conv", "conv1d", 16, 512, 512, 3000, 3, dims=1),
    Layer("conv3d", "conv3d", 4, 64, 64, 32, 3, dims=3),
    Layer("conv3d", "conv3d", 4, 32, 64, 28, 3, 2, dims=3),
]
EXACT = ("depthwise", "conv", "conv3d")  # kinds that are timed in float32, too


def _convolution(layer: Layer, which: str, form: str, dtype: torch.dtype, **more) -> Case:
    def make(device):
        dims = layer.dims
        generator = torch.Generator().manual_seed(0)

        def made(*shape):
            t = torch.randn(*shape, generator=generator).to(dtype).to(device)
            return t.contiguous(memory_format=FORMATS[form]) if dims == 2 else t

        x = made(layer.images, layer.channels, *[layer.extent] * dims)
        first, second = layer.out_channels, layer.channels // layer.groups
        if layer.transposed:
            first, second = layer.channels, layer.out_channels // layer.groups
        w = made(first, second, *[layer.kernel] * dims)
        options = ([layer.stride] * dims, [layer.padding] * dims, [1] * dims, layer.transposed, [0] * dims)

        def forward():
            return torch.ops.aten.convolution(x, w, None, *options, layer.groups)

        if which == "forward":
            return forward
        grad, mask = torch.randn_like(forward()), PASSES[which]
        return lambda: torch.ops.aten.convolution_backward(grad, x, w, None, *options, layer.groups, mask)

    kind = "conv float32" if layer.kind == "conv" and dtype is torch.float32 else layer.kind
    more = {"target": target(kind), **more}
    if layer.groups == 1:  # thin groups are bound by memory
        more |= {"flops": layer.flops()}
    else:
        more |= {"bytes": layer.bytes(dtype)}
    return Case("layers", f"{layer.name} {which}", f"{layer.shapes} {form}", short(dtype), make, **more)


def _convolutions(sizes: Sizes) -> list[Case]:
    cases, kinds = [], set()
    for layer in CONVOLUTIONS:
        small, main = layer.within(sizes.layer_most), layer.name not in kinds
        kinds.add(layer.name)
        for which in PASSES:
            for form in FORMATS if layer.dims == 2 else ["NCHW"]:
                cases.append(_convolution(small, which, form, torch.float16, main=main))
            if layer.kind in EXACT:
                cases.append(_convolution(small, which, "NCHW", torch.float32, main=False))
    return cases


def _batch_norm(images, channels, extent, form, dtype, backward) -> Case:
    def make(device):
        x = randn(images, channels, extent, extent, device=device, dtype=dtype).contiguous(memory_format=FORMATS[form])
        w, b = torch.ones(channels, device=device), torch.zeros(channels, device=device)

        def forward():
            return torch.ops.aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)

        if not backward:
            return forward
        y, mean, scale = forward()
        grad = torch.randn_like(y)
        return lambda: torch.ops.aten.native_batch_norm_backward(
            grad, x, w, None, None, mean, scale, True, 1e-5, (True, True, True)
        )

    passes = 5 if backward else 3  # x is read for its sums and again; and so is the gradient
    return Case("layers", "batch_norm" + (" backward" if backward else ""), f"{images}x{channels}x{extent}^2 {form}",
                short(dtype), make, bytes=float(passes * dtype.itemsize * images * channels * extent**2),
                target=target("batch_norm"))  # fmt: skip


def _norms(sizes: Sizes) -> list[Case]:
    cases = []
    for images, channels, extent in ((64, 256, 56), (64, 512, 14)):
        if sizes.layer_most:
            images, channels, extent = map(min, (images, channels, extent), sizes.layer_most)
        for form in FORMATS:
            cases += [_batch_norm(images, channels, extent, form, torch.float16, backward) for backward in (0, 1)]
    return list({case.key: case for case in cases}.values())


@dataclass(frozen=True)
class Recurrent:
    kind: str
    features: int
    hidden: int
    layers: int
    directions: int
    times: int
    batch: int


RECURRENT = [
    Recurrent("LSTM", 512, 1024, 2, 1, 100, 64),
    Recurrent("LSTM", 256, 256, 1, 1, 50, 32),
    Recurrent("LSTM", 512, 512, 2, 2, 100, 32),
    Recurrent("GRU", 512, 512, 2, 1, 100, 64),
    Recurrent("GRU", 256, 1024, 1, 1, 50, 32),
    Recurrent("RNN", 256, 256, 1, 1, 100, 64),
]


def _recurrent(r: Recurrent, dtype: torch.dtype, training: bool) -> Case:
    def make(device):
        torch.manual_seed(0)
        model = getattr(torch.nn, r.kind)(r.features, r.hidden, num_layers=r.layers, bidirectional=r.directions == 2)
        model = model.to(dtype).to(device)
        x = randn(r.times, r.batch, r.features, device=device, dtype=dtype, grad=training)
        grad = randn(r.times, r.batch, r.hidden * r.directions, device=device, dtype=dtype)
        wanted = [x, *model.parameters()]

        def inference():
            with torch.no_grad():
                return model(x)

        return (lambda: torch.autograd.grad(model(x)[0], wanted, grad)) if training else inference

    name = r.kind.lower() + (" both ways" if r.directions == 2 else "") + (" training" if training else "")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[r.kind]
    inputs = [r.features, *[r.hidden * r.directions] * (r.layers - 1)]
    weights = sum(gates * r.hidden * (width + r.hidden) * r.directions for width in inputs)
    return Case("layers", name, f"{r.features}>{r.hidden} x{r.layers} T{r.times} B{r.batch}", short(dtype), make,
                flops=(6.0 if training else 2.0) * weights * r.times * r.batch, queued=False, autograd=training,
                target=target(name))  # fmt: skip


def _sequences(sizes: Sizes) -> list[Case]:
    cases = []
    for r in RECURRENT:
        if sizes.layer_most:
            batch, width, times = sizes.layer_most
            r = Recurrent(r.kind, min(r.features, width), min(r.hidden, width), r.layers, r.directions,
                          min(r.times, times), min(r.batch, batch))  # fmt: skip
        for dtype in (torch.float32, torch.float16):
            cases += [_recurrent(r, dtype, training) for training in (False, True)]
    return list({case.key: case for case in cases}.values())


# rows, columns, k: of a layer x @ w.T, and of its gradients
PRODUCTS = [(64, 14336, 4096), (128, 4096, 4096), (256, 4096, 4096), (64, 4096, 1024), (192, 1000, 2048)]


def _product(m, n, k, dtype, which) -> Case:
    def make(device):
        x, y, w = (randn(*size, device=device, dtype=dtype) for size in ((m, k), (m, n), (n, k)))
        return {"x @ w.T": lambda: x @ w.T, "y @ w": lambda: y @ w, "y.T @ x": lambda: y.T @ x}[which]

    return Case("layers", f"product {which}", f"{m}x{n}x{k}", short(dtype), make, flops=2.0 * m * n * k,
                target=target("product"))  # fmt: skip


def _products(sizes: Sizes) -> list[Case]:
    cases = []
    for product in PRODUCTS:
        if sizes.layer_most:
            product = tuple(map(min, product, sizes.layer_most))
        cases += [
            _product(*product, dtype, which)
            for dtype in (torch.bfloat16, torch.float32)
            for which in ("x @ w.T", "y @ w", "y.T @ x")
        ]
    return list({case.key: case for case in cases}.values())


def _item() -> Case:
    def make(device):
        x = torch.ones(1, device=device)
        return lambda: x.item()

    return Case("layers", "item", "1", "float32", make, clock="wall", target=Target("us", 22, 15))


def layers(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return []
    found = [*_convolutions(sizes), *_norms(sizes), *_sequences(sizes), *_products(sizes), _item()]
    return list({case.key: case for case in found}.values())
