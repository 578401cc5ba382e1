"""Scripted, traced and loaded TorchScript modules move to the device, run there, and train there.

A scripted module shares its parameters with the module that it was made of, which moves with it: hence the copies.
"""

import copy
import io

import pytest
import torch
import torch.nn as nn

from helpers import assert_close


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.register_buffer("scale", torch.rand(3) + 0.5)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        return torch.log_softmax(self.second(y), dim=-1) * self.scale


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
        self.outer.weight = self.inner.weight

    def forward(self, x):
        return self.outer(self.inner(x))


def scripted(net, x):
    return torch.jit.script(copy.deepcopy(net))


def traced(net, x):
    return torch.jit.trace(copy.deepcopy(net), x)


def loaded(net, x):
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(copy.deepcopy(net)), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def loaded_onto(net, x):
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(copy.deepcopy(net)), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer, map_location="aule")


def run(module, x):
    x = x.clone().requires_grad_()
    module.zero_grad()
    y = module(x)
    y.square().sum().backward()
    return y, x.grad, [p.grad for p in module.parameters()], [b for b in module.buffers()]


@pytest.mark.parametrize("make", [scripted, traced, loaded, loaded_onto])
@pytest.mark.parametrize("training", [True, False])
def test_forward_and_backward_equal_the_cpu(device, make, training):
    net, x = Net().train(training), torch.randn(24, 6)  # a trace keeps the mode it was made in
    reference = run(copy.deepcopy(net), x)
    module = make(net, x)
    module = module.to(device)
    assert all(t.device.type == "aule" for t in [*module.parameters(), *module.buffers()])
    for _ in range(3):  # the interpreter changes its plan after the first two runs
        if training:  # tracing has run the module, too
            module.load_state_dict(net.state_dict())
            reference = run(copy.deepcopy(net), x)
        result = run(module, x.to(device))
        y, x_grad, gradients, buffers = reference
        assert_close([*result[:2], *result[3]], [y, x_grad, *buffers])
        # The gradient of a bias in front of a normalization is 0: a sum of terms as large as those of the weight's.
        size = max(1, *(t.abs().max().item() for t in gradients))
        for g, e in zip(result[2], gradients, strict=True):
            assert_close(g, e, atol=1e-5 * size)


@pytest.mark.parametrize("make", [scripted, loaded])
def test_ties_survive_the_move(device, make):
    x = torch.tensor([1, 3, 3])
    net = Tied()
    module = make(net, x).to(device)
    assert module.inner.weight.data_ptr() == module.outer.weight.data_ptr()
    assert_close(module(x.to(device)), net(x))


def test_a_scripted_part_of_a_plain_module(device):
    part = nn.Linear(4, 5)
    net, x = nn.Sequential(torch.jit.script(part), nn.Tanh(), nn.Linear(5, 2)), torch.randn(3, 4)
    expected = net(x)
    net.to(device)
    assert {p.device.type for p in net.parameters()} == {"aule"}
    assert_close(net(x.to(device)), expected)
    net.to("cpu")
    assert_close(net(x), expected)


def test_gradients_and_optimizers_move_along(device):
    module = torch.jit.script(nn.Linear(3, 2))
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    module(torch.ones(1, 3)).sum().backward()
    expected = [p.detach() - 0.5 for p in parameters]
    module.to(device)
    assert all(p.grad.device.type == "aule" for p in module.parameters())
    optimizer.step()
    for p, e in zip(module.parameters(), expected, strict=True):
        assert p.device.type == "aule"
        assert_close(p, e)


def test_dtypes_change_with_the_move(device):
    module = torch.jit.script(Net()).to(device, torch.float16)
    assert {t.dtype for t in module.parameters()} == {torch.float16}
    assert module.to("cpu").scale.dtype == torch.float16


def test_save_from_the_device(device):
    net, x = Net().eval(), torch.randn(4, 6)
    module = torch.jit.script(copy.deepcopy(net)).to(device)
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    for where in ("aule", "cpu", torch.device("aule", 0), None):
        buffer.seek(0)
        again = torch.jit.load(buffer, map_location=where)
        home = next(again.parameters()).device
        assert home.type == ("cpu" if where == "cpu" else "aule")
        assert_close(again(x.to(home)), net(x))


def test_frozen_modules_run_where_they_were_frozen(device):
    net, x = Net().eval(), torch.randn(4, 6)
    frozen = torch.jit.freeze(torch.jit.script(copy.deepcopy(net)).to(device).eval())
    for _ in range(3):
        assert_close(frozen(x.to(device)), net(x))
