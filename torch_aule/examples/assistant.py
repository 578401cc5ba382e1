"""The optimization assistant looks at a network, and tries what it can do by itself.

python -m torch_aule.examples.assistant [--interactive]
"""

from __future__ import annotations

import sys

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn as nn


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--interactive", action="store_true", help="ask about each change, instead of trying all")
    parser.add_argument("--level", default="balanced", choices=("conservative", "balanced", "aggressive"))
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args(arguments)
    device = common.begin(options.device)
    if device.type == "cpu":
        parser.error("--device cpu: the assistant looks at models on an aule device")
    from torch_aule.assistant import OptimizationAssistant

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128))
    assistant = OptimizationAssistant(device, runs=options.runs)
    result = assistant.optimize_model(model, interactive=options.interactive, optimization_level=options.level)
    applied = result.applied
    if applied is None:
        print(result)
        applied = assistant.apply_recommendations(result.model, result.recommendations)
        print(applied)
    x = torch.randn(32, 512)
    with torch.no_grad():
        error = common.relative(applied.model(x.to(device)), model.double()(x.double()))
    rounded = any(one.type == "precision" and one.kept for one in applied.outcomes)
    return common.verdict(error, 4e-2 if rounded else common.LIMIT)


if __name__ == "__main__":
    sys.exit(main())
