"""Trains a small vision transformer to tell in which quarter of an image the bright square lies.

    python -m torch_aule.examples.vit

Patches become tokens by a convolution with a stride of its own size (Dosovitskiy et al., "An Image is Worth 16x16
Words", 2021, arXiv:2010.11929).
"""

from __future__ import annotations

import sys

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn as nn
import torch.nn.functional as F


class VisionTransformer(nn.Module):
    """Classes of images: [B, 3, size, size] -> [B, classes]."""

    def __init__(self, size=16, patch=4, width=32, heads=2, layers=2, classes=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))  # the token that is classified
        self.places = nn.Parameter(torch.randn(1, 1 + (size // patch) ** 2, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(len(x), -1, -1), x), 1) + self.places
        return self.head(self.norm(self.layers(x)[:, 0]))


def images(count: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with a brighter square of a quarter of the width, and the quarter that its corner lies in."""
    x, side = 0.3 * torch.randn(count, 3, size, size), size // 4
    quarter = torch.randint(4, (count,))
    for image, q in zip(x, quarter.tolist(), strict=True):
        row, column = (half * size // 2 + int(torch.randint(size // 2 - side + 1, ())) for half in divmod(q, 2))
        image[:, row : row + side, column : column + side] += 1.0
    return x, quarter


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=16)
    options = parser.parse_args(arguments)
    device = common.begin(options.device)
    torch.manual_seed(0)
    model = VisionTransformer(options.size).to(device)
    error = common.error_of_training(model, (images(3, options.size)[0].to(device),))
    common.train(
        model, lambda: tuple(t.to(device) for t in images(32, options.size)), F.cross_entropy, options.steps, 2e-3
    )
    return common.verdict(error)


if __name__ == "__main__":
    sys.exit(main())
