"""save and load with map_location, pickle, deepcopy, state dicts."""

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing.reductions  # noqa: F401  registers how tensors travel

from helpers import assert_close


def round_trip(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_save_and_load(device, dtype):
    x = (torch.randn(5, 7) * 3).to(dtype)
    on_device = x.to(device)
    back = round_trip(on_device)
    assert back.device == on_device.device and torch.equal(back.cpu(), x)
    for where in ("cpu", torch.device("cpu")):
        back = round_trip(on_device, map_location=where)
        assert back.device.type == "cpu" and torch.equal(back, x)
    for where in ("aule", "aule:0", torch.device("aule", 0)):
        back = round_trip(x, map_location=where)
        assert back.device == torch.device("aule:0") and torch.equal(back.cpu(), x)
    back = round_trip(on_device, map_location=lambda storage, location: storage)
    assert back.device.type == "cpu" and torch.equal(back, x)
    back = round_trip(on_device, map_location={"aule:0": "cpu"})
    assert back.device.type == "cpu"


def test_views_share_storage_after_loading(device):
    x = torch.arange(12.0, device=device).reshape(3, 4)
    a, b = round_trip([x, x.t()[1:]])
    a.fill_(7)
    assert b.cpu().unique().tolist() == [7] and b.stride() == (1, 4)


def test_missing_device_index(device):
    file = io.BytesIO()
    torch.save(torch.ones(2, device=device), file)
    file.seek(0)
    with pytest.raises(RuntimeError):
        torch.load(file, map_location="aule:77")


def test_pickle_and_deepcopy(device):
    x = torch.randn(3, 4, device=device)[:, 1:]
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert y.device == x.device and y.stride() == x.stride()
        assert_close(y, x.cpu())
    p = torch.nn.Parameter(torch.ones(3, device=device))
    q = copy.deepcopy(p)
    assert isinstance(q, torch.nn.Parameter) and q.requires_grad and q.data_ptr() != p.data_ptr()


def test_model_and_optimizer_state(device):
    def make():
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)).to(device)
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(3, 4, device=device)).square().sum().backward()
        optimizer.step()

    model, optimizer = make()
    step(model, optimizer)
    state = round_trip({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, weights_only=True)
    other, other_optimizer = make()
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    step(model, optimizer)
    step(other, other_optimizer)
    for a, b in zip(model.parameters(), other.parameters()):
        assert_close(a, b.cpu())
    on_cpu = round_trip(model.state_dict(), map_location="cpu")
    torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)).load_state_dict(on_cpu)
    copy.deepcopy(model)(torch.ones(1, 4, device=device))
    assert all(t.is_cpu for t in round_trip(copy.deepcopy(model).cpu().state_dict()).values())


def test_generator_state_survives(device):
    state = round_trip(torch.aule.get_rng_state())
    a = torch.rand(4, device=device)
    torch.aule.set_rng_state(state)
    assert_close(torch.rand(4, device=device), a.cpu())


def test_what_goes_to_another_process_is_a_copy(device):
    x = torch.arange(6.0, device=device)[1::2]
    got = ForkingPickler.loads(ForkingPickler.dumps(x))
    assert got.device == x.device and torch.equal(got.cpu(), x.cpu())
    got.zero_()
    assert x.tolist() == [1, 3, 5]


def test_meta_and_to_empty(device):
    with torch.device("meta"):
        layer = torch.nn.Linear(3, 2)
    layer = layer.to_empty(device=device)
    layer.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    assert layer(torch.ones(1, 3, device=device)).tolist() == [[3, 3]]
