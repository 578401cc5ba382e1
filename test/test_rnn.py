"""Recurrent networks against the CPU, with gradients. Kernels: lstm_cell, gru_cell."""

import pytest
import torch

from helpers import assert_close

pytestmark = pytest.mark.validated


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent(kind, bias):
    model = getattr(torch.nn, kind)(5, 7, num_layers=2, bias=bias, bidirectional=True)
    x = torch.randn(6, 3, 5)
    twin = getattr(torch.nn, kind)(5, 7, num_layers=2, bias=bias, bidirectional=True).to("aule")
    twin.load_state_dict(model.state_dict())
    out, state = model(x)
    seed = torch.randn_like(out)
    out.backward(seed)
    out2, state2 = twin(x.to("aule"))
    out2.backward(seed.to("aule"))
    assert_close(out2, out, rtol=1e-4, atol=1e-5)
    assert_close(state2, state, rtol=1e-4, atol=1e-5)
    for p, q in zip(model.parameters(), twin.parameters()):
        assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-4)
