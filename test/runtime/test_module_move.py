"""A module that moves keeps its parameters' identity, so that ties and optimizers survive, as on other devices."""

import weakref

import pytest
import torch
import torch.nn as nn


def tied():
    model = nn.ModuleList([nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)])
    model[1].weight = model[0].weight
    return model


def test_ties_and_identity_survive_both_ways():
    model = tied()
    weight, values = model[0].weight, model[0].weight.detach().clone()
    for device in ("aule", "cpu"):
        model.to(device)
        assert model[0].weight is weight and model[1].weight is weight
        assert weight.device.type == device and torch.equal(weight.detach().cpu(), values)


def test_an_optimizer_made_before_the_move_trains_the_moved_weights():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("aule")
    before = model.weight.detach().clone()
    model(torch.ones(1, 3, device="aule")).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model.weight.detach().cpu(), before.cpu() - 0.1)


def test_gradients_move_along():
    model = tied().to("aule")
    model[1](model[0](torch.tensor([1, 2], device="aule"))).sum().backward()
    gradient = model[0].weight.grad.cpu()
    model.to("cpu")
    torch.testing.assert_close(model[0].weight.grad, gradient)


def test_a_live_graph_does_not_stop_the_move():
    model = nn.Linear(3, 2)
    weight, kept = model.weight, model(torch.ones(1, 3)).sum()
    model.to("aule")
    assert model.weight is weight and weight.device.type == "aule" and kept.isfinite()


def test_data_of_the_other_device():
    """A parameter, and what holds it, goes on with other storage: what offloading and quantizing libraries do."""
    parameter = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer, reference = torch.optim.SGD([parameter], lr=0.5), weakref.ref(parameter)
    for device in ("aule", "cpu", "aule"):
        parameter.data = parameter.data.to(device)
        assert parameter.device.type == device and parameter.is_leaf and parameter.requires_grad
        before = parameter.detach().cpu().clone()
        parameter.grad = None
        (parameter * torch.tensor([3.0, 4.0], device=device)).sum().backward()  # its accumulator is of this device
        assert parameter.grad.device.type == device
        optimizer.step()
        torch.testing.assert_close(parameter.detach().cpu(), before - torch.tensor([1.5, 2.0]))
    assert reference() is parameter and isinstance(parameter, nn.Parameter)
    view = torch.arange(6.0, device="aule").view(2, 3).t()[1:]
    parameter.data = view
    assert parameter.stride() == view.stride() and parameter.data_ptr() == view.data_ptr()
    with pytest.raises(RuntimeError, match="floating point or complex"):
        parameter.data = torch.ones(2, dtype=torch.int64, device="aule")
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.ones(2, device="meta")


def test_a_scripted_module_moves_whole():
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    weight, x = next(model.parameters()), torch.randn(4, 3)
    expected = model(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("aule")
    torch.testing.assert_close(model(x.to("aule")).cpu(), expected, rtol=1e-4, atol=1e-5)
    assert next(model.parameters()).device.type == "aule" == weight.device.type
    model(x.to("aule")).square().sum().backward()
    before = model(x.to("aule")).detach().cpu()
    optimizer.step()
    assert not torch.equal(model(x.to("aule")).detach().cpu(), before)


def test_lazy_modules_made_on_the_host():
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyConv1d(2, 1, bias=False))
    first = model[0].weight
    model.to("aule")
    x = torch.randn(5, 3)
    shown = model[:2](x.to("aule"))
    assert shown.shape == (5, 4) and type(model[0]) is nn.Linear and model[0].weight is first
    assert type(first) is nn.Parameter and first.shape == (4, 3) and first.device.type == "aule"
    assert isinstance(model[2].weight, nn.parameter.UninitializedParameter) and model[2].weight.device.type == "aule"
    copy = nn.Linear(3, 4)
    copy.load_state_dict(model[0].state_dict())
    torch.testing.assert_close(shown.mean(0).cpu(), torch.zeros(4), rtol=0, atol=1e-5)
    torch.testing.assert_close(model[0](x.to("aule")).cpu(), copy(x), rtol=1e-5, atol=1e-5)
