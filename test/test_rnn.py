"""Recurrent cells against float64 on the CPU, with gradients. Kernels: lstm_cell, gru_cell."""

import copy

import pytest
import torch

from helpers import assert_close

pytestmark = pytest.mark.validated

TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_three_steps_of_a_cell(kind, bias, dtype):
    if dtype == torch.float64 and not torch.aule.get_device_properties().float64:
        pytest.skip("the device has no float64")
    own = getattr(torch.nn, kind)(5, 67, bias=bias).to(dtype)
    reference = copy.deepcopy(own).double()
    own = own.to("aule")
    x = torch.randn(3, 9, 5).to(dtype)
    seed = torch.randn(9, 67).to(dtype)

    def run(cell, x, seed):
        x = x.requires_grad_()
        state = None
        for step in x:
            state = cell(step, state)
        last = state if isinstance(state, tuple) else (state,)
        (last[0] * seed).sum().backward()
        return [*last, x.grad, *(p.grad for p in cell.parameters())]

    tolerance = TOLERANCE[dtype]
    results = run(own, x.detach().to("aule"), seed.to("aule"))
    for actual, expected in zip(results, run(reference, x.detach().double(), seed.double()), strict=True):
        assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance * max(1, expected.abs().max()))
