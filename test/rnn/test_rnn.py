"""Recurrent cells against float64 on the CPU, with gradients. Kernels: lstm_cell, gru_cell.

Cells of complex numbers are made of operators, and layers of such cells.
"""

import copy

import pytest
import torch

from helpers import assert_close

pytestmark = pytest.mark.validated

TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2,
             torch.complex64: 1e-4, torch.complex128: 1e-12}  # fmt: skip


def wide(dtype):
    return torch.complex128 if dtype.is_complex else torch.float64


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_three_steps_of_a_cell(kind, bias, dtype):
    own = getattr(torch.nn, kind)(5, 67, bias=bias).to(dtype)
    reference = copy.deepcopy(own).to(wide(dtype))
    own = own.to("aule")
    x = torch.randn(3, 9, 5).to(dtype)
    seed = torch.randn(9, 67).to(dtype)

    def run(cell, x, seed):
        x = x.requires_grad_()
        state = None
        for step in x:
            state = cell(step, state)
        last = state if isinstance(state, tuple) else (state,)
        (last[0] * seed).sum().abs().backward()
        return [*last, x.grad, *(p.grad for p in cell.parameters())]

    tolerance = TOLERANCE[dtype]
    results = run(own, x.detach().to("aule"), seed.to("aule"))
    expected_results = run(reference, x.detach().to(wide(dtype)), seed.to(wide(dtype)))
    for actual, expected in zip(results, expected_results, strict=True):
        scale = max(1.0, expected.abs().max().item())
        assert_close(actual.to(wide(dtype)), expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_layers_of_complex_numbers(kind, dtype):
    layer = getattr(torch.nn, kind)(3, 5, num_layers=2, bidirectional=True, dtype=dtype)
    with torch.no_grad():
        for p in layer.parameters():
            p.mul_(0.3)  # far from the poles of tanh, where a rounding becomes any number
    reference = copy.deepcopy(layer).to(torch.complex128)
    layer.to("aule")
    x = torch.randn(4, 3, 3, dtype=dtype)

    def run(module, x):
        x = x.requires_grad_()
        out, state = module(x)
        states = state if isinstance(state, tuple) else (state,)
        (out.sum() + sum(s.sum() for s in states)).abs().backward()
        return [out, *states, x.grad, *(p.grad for p in module.parameters())]

    expected_results = run(reference, x.detach().to(torch.complex128))
    for actual, expected in zip(run(layer, x.detach().to("aule")), expected_results, strict=True):
        tolerance = TOLERANCE[dtype]
        scale = max(1.0, expected.abs().max().item())
        assert_close(actual.to(torch.complex128), expected, rtol=tolerance, atol=tolerance * scale)
    with torch.inference_mode():
        assert_close(layer(x.to("aule"))[0].cpu(), reference(x.to(torch.complex128))[0].to(dtype), rtol=1e-4, atol=1e-4)


@pytest.mark.float64
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_second_gradients_of_complex_cells(kind):
    cell = getattr(torch.nn, kind)(2, 3, dtype=torch.complex128).to("aule")
    x = torch.randn(2, 2, dtype=torch.complex128, device="aule", requires_grad=True)

    def run(x):
        state = cell(x)
        return state[0] if isinstance(state, tuple) else state

    assert torch.autograd.gradgradcheck(run, (x,))


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_compiled_cells_have_gradients(kind):
    """The tracer's dispatcher passes through the gradient that is registered beside PyTorch's."""
    cell = getattr(torch.nn, kind)(5, 7).to("aule")
    x = torch.randn(3, 5, device="aule")

    def run(x):
        state = cell(x)
        return state[0] if isinstance(state, tuple) else state

    results = []
    for call in (run, torch.compile(run, backend="aot_eager")):
        own = x.clone().requires_grad_()
        out = call(own)
        results.append((out, torch.autograd.grad(out.sum(), own)[0]))
    assert_close(*results, rtol=1e-6, atol=1e-6)
