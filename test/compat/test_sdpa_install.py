"""torch_aule.install(): scaled_dot_product_attention of CPU tensors by this package, and the way back."""

import sys
import types

import pytest
import torch
import torch.nn.functional as F

import torch_aule
from attention_reference import TOLERANCE, check, reference
from helpers import FLOATS, launches, relative_error
from torch_aule.compat import install

NN = torch._C._nn  # where the original stays: a global that is the function would be rebound


@pytest.fixture(params=["vulkan", "cpu"])
def installed(request, device):
    assert torch_aule.install(request.param) == request.param
    yield request.param
    torch_aule.uninstall()
    assert F.scaled_dot_product_attention is NN.scaled_dot_product_attention


@pytest.fixture
def vulkan(device):
    torch_aule.install("vulkan")
    yield
    torch_aule.uninstall()


def operands(batch=2, heads=4, kv_heads=4, q_len=19, k_len=23, dim=12, v_dim=9, dtype=torch.float32):
    shapes = (batch, heads, q_len, dim), (batch, kv_heads, k_len, dim), (batch, kv_heads, k_len, v_dim)
    return [torch.randn(shape, dtype=dtype) for shape in (*shapes, (batch, heads, q_len, v_dim))]


CASES = [
    {},
    {"is_causal": True},
    {"scale": 0.3},
    {"kv_heads": 2, "enable_gqa": True},
    {"mask": "bool"},
    {"mask": "float", "scale": 0.2},
    {"dim": 513, "v_dim": 4, "q_len": 3},
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(installed, case, dtype):
    case = dict(case)
    kind, options = case.pop("mask", None), {}
    for name in ("is_causal", "scale", "enable_gqa"):
        if name in case:
            options[name] = case.pop(name)
    q, k, v, grad = operands(dtype=dtype, **case)
    mask = {"bool": torch.rand(2, 1, 19, 23) < 0.6, "float": torch.randn(4, 19, 23).to(dtype)}.get(kind)
    if kind == "bool":
        mask[..., 0] = True
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    bias = mask.requires_grad_() if kind == "float" else mask
    out = F.scaled_dot_product_attention(q, k, v, bias, **options)
    out.backward(grad)
    assert out.device.type == "cpu" and out.dtype == dtype
    wanted = reference(q, k, v, grad, mask, causal=options.get("is_causal", False), scale=options.get("scale"))
    check((out, q.grad, k.grad, v.grad), wanted[:4], dtype)
    if kind == "float":
        assert relative_error(mask.grad, wanted[4]) < 10 * TOLERANCE[dtype]


def test_calls_reach_the_device(vulkan):
    q, k, v, _ = operands()
    assert launches(lambda: F.scaled_dot_product_attention(q, k, v)) > 0
    assert launches(lambda: F.scaled_dot_product_attention(q[0], k[0], v[0])) > 0
    layer = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True)
    x = torch.randn(2, 7, 32, requires_grad=True)
    assert launches(lambda: layer(x)) > 0


def test_what_is_left_to_pytorch(vulkan):
    q, k, v, _ = operands()
    doubles = [t.double() for t in (q, k, v)]
    wide = operands(dim=513)[:3]
    cases = [
        (doubles, {}),
        (wide, {}),
        ((q[:1], k, v), {}),
        ((q[:, 0, 0], k[:, 0, 0], v[:, 0, 0]), {}),
        ((q[:, :, :0], k, v), {}),
        ((q, k, v), {"scale": -0.5}),
        ((q, k, v, torch.randn(19, 23, dtype=torch.float64).to(q.dtype)[None, None, None]), {}),
    ]
    for arguments, options in cases:
        try:
            wanted = NN.scaled_dot_product_attention(*arguments, **options)
        except RuntimeError:
            wanted = None
        found = []

        def call(arguments=arguments, options=options, found=found):
            try:
                found.append(F.scaled_dot_product_attention(*arguments, **options))
            except RuntimeError:
                found.append(None)

        assert launches(call) == 0, [t.shape for t in arguments]
        if wanted is None:
            assert found[0] is None
        else:
            torch.testing.assert_close(found[0], wanted, equal_nan=True)
    on_device = [t.to("aule") for t in (q, k, v)]
    assert relative_error(F.scaled_dot_product_attention(*on_device), NN.scaled_dot_product_attention(q, k, v)) < 1e-5


def test_errors_are_those_of_pytorch(vulkan):
    q, k, v, _ = operands()
    cases = [
        ((q, k[..., :5], v), {}),
        ((q, k, v, torch.ones(19, 23)), {"is_causal": True}),
        ((q, k.double(), v), {}),
        ((q, None, v), {}),
        ((q, k, v), {"dropout_p": 2.0}),
    ]
    for arguments, options in cases:
        with pytest.raises((RuntimeError, TypeError)) as wanted:
            NN.scaled_dot_product_attention(*arguments, **options)
        with pytest.raises(wanted.type) as found:
            F.scaled_dot_product_attention(*arguments, **options)
        assert str(found.value) == str(wanted.value)


def test_dropout(installed):
    """Each weight is kept with probability 1 - p, and divided by it."""
    q, k = torch.randn(1, 2, 64, 8), torch.randn(1, 2, 512, 8)
    out = F.scaled_dot_product_attention(q, k, torch.ones(1, 2, 512, 1), dropout_p=0.25)
    assert abs(out.mean().item() - 1) < 0.05 and out.std().item() > 0


def test_autocast(vulkan):
    q, k, v, _ = operands()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        calls = launches(lambda: F.scaled_dot_product_attention(q, k, v))
        out, wanted = F.scaled_dot_product_attention(q, k, v), NN.scaled_dot_product_attention(q, k, v)
    assert calls > 0 and out.dtype == wanted.dtype == torch.bfloat16
    assert relative_error(out, NN.scaled_dot_product_attention(q, k, v)) < 2e-2


def test_compiled_and_transformed_code_is_left_alone(vulkan):
    q, k, v, _ = operands()
    compiled = torch.compile(lambda *t: F.scaled_dot_product_attention(*t), backend="eager", fullgraph=True)
    assert launches(lambda: compiled(q, k, v)) == 0
    mapped = torch.vmap(F.scaled_dot_product_attention)
    torch.testing.assert_close(mapped(q, k, v), NN.scaled_dot_product_attention(q, k, v))
    torch._dynamo.reset()


def test_modules_that_imported_it(device):
    """They get the replacement, and the original back; so does one that imported it while it was installed."""
    early = types.ModuleType("early_importer")
    early.attend = NN.scaled_dot_product_attention
    late = types.ModuleType("late_importer")
    sys.modules.update(early_importer=early, late_importer=late)
    try:
        torch_aule.install()
        torch_aule.install("cpu")
        late.scaled_dot_product_attention = F.scaled_dot_product_attention
        assert early.attend is F.scaled_dot_product_attention is not NN.scaled_dot_product_attention
        assert torch._C._nn.scaled_dot_product_attention is NN.scaled_dot_product_attention
        assert F.scaled_dot_product_attention.__name__ == "scaled_dot_product_attention"
        torch_aule.uninstall()
        assert (
            early.attend
            is late.scaled_dot_product_attention
            is F.scaled_dot_product_attention
            is NN.scaled_dot_product_attention
        )
        torch_aule.uninstall()
        assert F.scaled_dot_product_attention is NN.scaled_dot_product_attention
    finally:
        torch_aule.uninstall()
        del sys.modules["early_importer"], sys.modules["late_importer"]


def test_backends(device, monkeypatch, capsys):
    assert torch_aule.get_available_backends() == ["vulkan", "cpu"]
    try:
        monkeypatch.setenv("AULE_BACKEND", "cpu")
        assert torch_aule.install(verbose=True) == "cpu"
        assert torch_aule.get_backend_info()["cpu"]["installed"]
        F.scaled_dot_product_attention(*(t.double() for t in operands()[:3]))
        F.scaled_dot_product_attention(*(t.double() for t in operands()[:3]))
        printed = capsys.readouterr().out
        assert printed.count("is computed by cpu") == 1 and printed.count("left to PyTorch: other dtypes") == 1
        monkeypatch.setenv("AULE_BACKEND", "triton")
        with pytest.raises(ValueError, match="expected backend auto, vulkan or cpu, but got 'triton'"):
            torch_aule.install()
        monkeypatch.delenv("AULE_BACKEND")
        assert torch_aule.install() == "vulkan"
        info = torch_aule.get_backend_info()
        assert info["vulkan"]["device"] == torch.aule.get_device_name() and info["vulkan"]["installed"]
        assert not info["cpu"]["installed"] and info["cpu"]["available"]
    finally:
        torch_aule.uninstall()
    assert not any(row["installed"] for row in torch_aule.get_backend_info().values())


def test_patch_model_says_what_to_do(capsys):
    model = torch.nn.Linear(2, 2)
    assert torch_aule.patch_model(model) is model and "model.to('aule')" in capsys.readouterr().out


def test_the_signature_is_that_of_pytorch():
    """As torch._C documents it."""
    import inspect

    names = list(inspect.signature(install._through_aule).parameters)
    assert names == ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert all(f"{name}" in NN.scaled_dot_product_attention.__doc__ for name in names)
