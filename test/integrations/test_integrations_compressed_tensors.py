"""4-bit layers of compressed-tensors, on a stand-in for its compressor; test_integrations_others.py has the package."""

import importlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from helpers import FLOATS
from quantized_reference import EPS
from torch_aule.integrations import compressed_tensors
from torch_aule.integrations._registry import Registry

STAND_IN = Path(__file__).parent / "stand_ins" / "compressed_tensors_model.py"


@pytest.fixture
def module(tmp_path, monkeypatch, device):
    """The stand-in in the place of the compressor's module, with the hook."""
    if "compressed_tensors" in sys.modules:
        pytest.skip("compressed-tensors itself is there: test_integrations_others.py")
    hooks = [hook for hook in compressed_tensors.HOOKS if hook.package == "compressed_tensors"]
    helpers = "compressed_tensors.compressors.pack_quantized.helpers"
    for name in (hooks[0].module, helpers):
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(STAND_IN, path)
    monkeypatch.syspath_prepend(tmp_path)
    told = [(hook.state, hook.reason) for hook in hooks]
    registry = Registry(hooks)
    registry.start()
    found = importlib.import_module(hooks[0].module)
    assert [row.state for row in registry.status()] == ["applied"], registry.status()
    yield found
    registry.disable(())
    for hook, (hook.state, hook.reason) in zip(hooks, told):
        hook.patches.forget()
    for name in [name for name in sys.modules if name.split(".")[0] == "compressed_tensors"]:
        del sys.modules[name]


def packed(numbers, dim):
    """Numbers from 0 to 15, eight along `dim` in a word, the first in the low bits."""
    lines = numbers if dim == 1 else numbers.t()
    lines = torch.nn.functional.pad(lines, (0, -lines.shape[1] % 8)).long().unflatten(1, (-1, 8))
    words = (lines << torch.arange(0, 32, 4)).sum(2).to(torch.int32)
    return words if dim == 1 else words.t()


def layer(n, k, group, dtype, symmetric, bias=True):
    """A compressed layer, and its weight as float64 numbers."""
    made = torch.nn.Linear(k, n, bias=bias).to(dtype)
    q, scale = torch.randint(16, (n, k)), (torch.rand(n, k // group) / 8).to(dtype)
    zero = torch.full((n, k // group), 8) if symmetric else torch.randint(16, (n, k // group))
    del made.weight
    for name, value in {"packed": packed(q, 1), "scale": scale, "zero_point": packed(zero, 0)}.items():
        made.register_parameter(f"weight_{name}", torch.nn.Parameter(value, requires_grad=False))
    weights = SimpleNamespace(num_bits=4, type="int", symmetric=symmetric)
    made.quantization_scheme = SimpleNamespace(weights=weights, input_activations=None, output_activations=None)
    return made, scale.double().repeat_interleave(group, 1) * (q - zero.repeat_interleave(group, 1)).double()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [32, 192])
def test_layers_stay_packed(module, dtype, symmetric, group):
    made, w = layer(24, 192, group, dtype, symmetric)
    model = torch.nn.Sequential(made).to("aule")
    module.ModelCompressor().add_decompress_hook(model)
    for m in (1, 5, 20):
        x = torch.randn(m, 192).to(dtype)
        leaf = x.to("aule").requires_grad_()
        y = model(leaf)
        assert "weight" not in made._parameters and "weight_packed" in made._parameters
        expected = x.double() @ w.T + made.bias.detach().cpu().double()
        # Sums of k terms in float32, which are at most so large, a weight that is rounded first for many rows, and one
        # rounding of the result.
        terms = x.double().abs() @ w.abs().T + w.abs().amax() * 16 * x.double().abs().sum(1, keepdim=True)
        bound = 208 * EPS[torch.float32] * terms + 2 * EPS[dtype] * (expected.abs() + (m > 16) * terms)
        assert y.dtype == dtype and ((y.detach().cpu().double() - expected).abs() <= bound).all()
        y.sum().backward()
        expected = w.sum(0).expand(m, -1)
        bound = (40 * EPS[torch.float32] + 3 * EPS[dtype]) * w.abs().sum(0) + 1e-30
        assert ((leaf.grad.cpu().double() - expected).abs() <= bound).all()


def test_what_is_not_served_is_decompressed(module):
    whole, _ = layer(16, 64, 32, torch.float32, True)
    activations, _ = layer(16, 16, 16, torch.float32, True)
    activations.quantization_scheme.input_activations = object()
    odd, _ = layer(8, 16, 4, torch.float32, True)
    model = torch.nn.Sequential(whole, activations, odd).to("aule")
    compressor = module.ModelCompressor()
    compressor.add_decompress_hook(model)
    model(torch.randn(2, 64, device="aule"))
    assert ["weight" in part._parameters for part in model] == [False, True, True]
    x = torch.randn(3, 64, device="aule")
    before = whole(x)
    compressor.decompress_model(model)  # a program asks for it
    assert "weight" in whole._parameters
    torch.testing.assert_close(whole(x), before, rtol=1e-5, atol=1e-5)
