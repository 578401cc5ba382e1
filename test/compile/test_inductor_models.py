"""Whole models under torch.compile: the loss and every parameter's gradient against float64 on the CPU, run eagerly.

TORCH_AULE_LONG_TESTS=1 takes all models of transformers that `benchmark compiled` has, each with rows that change, too.
"""

import copy
import os

import pytest
import torch
from torch.utils._pytree import tree_map

from helpers import needs_shader_compiler
from kinks import draw_clear

pytest.importorskip("transformers")
pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

from torch_aule.benchmark.cases.compiled_models import (  # noqa: E402
    MODELS,
    gradients,
    loss_of,
    result_of,
    targets_of,
    without_dropout,
)

LONG = os.environ.get("TORCH_AULE_LONG_TESTS", "0") not in ("", "0")
SHORT = ("mlp", "resnet50")  # half a minute of two cores together
TOLERANCE = 2e-5  # relative to the norm of all gradients: some times what eager code differs by
# Batch norms over two values: float32 on the CPU differs from float64 by up to 7e-4.
LOOSER = {"mobilenet_v2": 100}


def wider(x, rows):
    """The inputs once more, with other rows."""
    return x if not isinstance(x, torch.Tensor) else torch.cat([x] * rows)


def compare(model, run, inputs, name):
    reference = copy.deepcopy(model).cpu().double()
    wide = tree_map(lambda t: t.double() if t.is_floating_point() else t, inputs)
    targets = targets_of(name, reference, wide)
    expected = loss_of(reference, wide, targets)
    own = tree_map(lambda t: t.to("aule"), inputs)
    actual = run(model, own, (targets.float() if targets.is_floating_point() else targets).to("aule"))
    torch.testing.assert_close(actual.cpu().double(), expected.double(), rtol=1e-5, atol=1e-6)
    wanted = gradients(expected, reference)
    error = (gradients(actual, model) - wanted).norm() / wanted.norm()
    assert error < TOLERANCE * LOOSER.get(name, 1), f"gradients differ by {error:.1e}"


TRAINED = [name for name, model in MODELS.items() if model.training and not name.startswith("suite:")]


@pytest.mark.parametrize("name", TRAINED if LONG else SHORT)
def test_models(device, name):
    torch._dynamo.reset()

    def draw():
        model, inputs = MODELS[name](True)
        without_dropout(model)
        result_of(copy.deepcopy(model).train(), inputs)  # shows where its values lie; batch norms keep their statistics
        return model.train(), inputs

    model, inputs = draw_clear(draw)
    model = model.to(device)
    run = torch.compile(loss_of)
    for rows in (1, 2, 3) if LONG else (1,):  # the second compiles for any, the third not at all
        with torch.compiler.set_stance("fail_on_recompile" if rows == 3 else "default"):
            compare(model, run, tree_map(lambda t: wider(t, rows), inputs), name)  # noqa: B023
