"""`nn.DataParallel`: the module itself with one device, an error that names the way out with several."""

import pytest
import torch
import torch.nn as nn

from helpers import check_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="beside CUDA nn.DataParallel takes CUDA's devices")


@pytest.mark.parametrize("place", ["cpu", "aule"])
def test_one_device(device, place):
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    expected = model(x).detach()
    parallel = nn.DataParallel(model, device_ids=[0])
    given = x.to(place).requires_grad_()
    result = parallel(given)
    assert result.device == torch.device("aule:0")
    torch.testing.assert_close(result.detach().cpu(), expected, rtol=1e-5, atol=1e-6)
    result.sum().backward()
    assert given.grad.device.type == place
    torch.testing.assert_close(given.grad.cpu(), model.weight.detach().cpu().sum(0).expand(4, 3))
    direct = nn.parallel.data_parallel(model, x, device_ids=[0])
    torch.testing.assert_close(direct.detach().cpu(), expected, rtol=1e-5, atol=1e-6)


def test_nested_inputs(device):
    class Sum(nn.Module):
        def forward(self, pair, *, scale, name):
            assert name == "kept"
            return (pair[0] + pair[1]["b"]) * scale

    a, b = torch.randn(2, 3), torch.randn(2, 3)
    result = nn.DataParallel(Sum(), device_ids=[0])((a, {"b": b}), scale=torch.tensor([2.0]), name="kept")
    torch.testing.assert_close(result.cpu(), (a + b) * 2)


def test_several_devices(device):
    check_program("data_parallel_two", TORCH_AULE_VISIBLE_DEVICES="0,0")
