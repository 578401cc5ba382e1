"""First steps on the device: tensors, gradients, training under autocast, and what ran on the CPU.

python -m torch_aule.examples.basic [--quick]
"""

from __future__ import annotations

import sys

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn as nn
import torch.nn.functional as F


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer steps")
    options = parser.parse_args(arguments)
    device = common.begin(options.device)
    torch.manual_seed(0)
    size, steps = (64, 20) if options.quick else (512, 200)

    a, b = torch.randn(size, size), torch.randn(size, size)
    product = a.to(device) @ b.to(device)
    print(f"a product of {size} x {size}: {common.relative(product, a.double() @ b.double()):.1e} from float64")

    model = nn.Sequential(nn.Linear(16, size), nn.GELU(), nn.Linear(size, 4)).to(device)
    error = common.error_of_training(model, (torch.randn(32, 16).to(device),))

    weights = torch.randn(16, 4)
    points = torch.randn(4096, 16)
    labels = (points @ weights).argmax(-1).to(device)
    points = points.to(device)

    def batch():
        rows = torch.randint(len(points), (64,)).to(device)
        return points[rows], labels[rows]

    common.train(model, batch, F.cross_entropy, steps, 1e-2)
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        right = (model(points).argmax(-1) == labels).float().mean().item()
    print(f"{right:.1%} of the points are classified as they should be, in bfloat16")
    if device.type != "cpu":
        print(f"operators on the CPU: {len(torch.aule.fallback_report())}")
    return common.verdict(error)


if __name__ == "__main__":
    sys.exit(main())
