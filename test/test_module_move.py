"""A module that moves keeps its parameters' identity, so that ties and optimizers survive, as on other devices."""

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
    kept = model(torch.ones(1, 3)).sum()
    model.to("aule")
    assert model.weight.device.type == "aule" and kept.item() == kept.item()
    assert not torch.__future__.get_swap_module_params_on_conversion()
