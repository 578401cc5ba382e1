"""Aule and GpuTensor, the names of aule-attention, beside attention in float64."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import aule
import torch_aule
from attention_reference import TOLERANCE, reference
from helpers import FLOATS, check_program, launches

PAGE = (Path(__file__).resolve().parents[2] / "docs/use/aule_attention.md").read_text()
pytestmark = pytest.mark.validated


def arrays(batch=1, heads=4, kv_heads=2, q_len=37, k_len=37, dim=24, v_dim=24, dtype=np.float32):
    shapes = (batch, heads, q_len, dim), (batch, kv_heads, k_len, dim), (batch, kv_heads, k_len, v_dim)
    return [torch.randn(shape).numpy().astype(dtype) for shape in (*shapes, (batch, heads, q_len, v_dim))]


def expected(q, k, v, grad, **options):
    return [None if t is None else t.numpy() for t in reference(*map(torch.from_numpy, (q, k, v, grad)), **options)]


def near(actual, wanted, tolerance=3e-5):
    assert actual.shape == wanted.shape
    assert actual.size == 0 or np.abs(actual - wanted).max() <= tolerance * max(1, np.abs(wanted).max())


def uploaded(object_, *values, dtype=torch.float32):
    tensors = [object_.tensor(value.shape, dtype) for value in values]
    for tensor, value in zip(tensors, values):
        tensor.upload(value)
    return tensors


def test_device_info(device):
    with torch_aule.Aule() as one:
        info = one.get_device_info()
    properties = torch.aule.get_device_properties(0)
    assert list(info) == ["device_name", "vendor", "amd_optimized", "fp16_supported", "subgroup_size",
                          "shader_variant", "available_variants"]  # fmt: skip
    assert info["device_name"] == properties.name and info["subgroup_size"] == properties.subgroup_size
    assert info["shader_variant"] in info["available_variants"] and one.supports_backward
    assert info["amd_optimized"] == (info["vendor"] == "amd")


@pytest.mark.parametrize("causal, window", [(True, -1), (False, -1), (True, 5), (False, 6), (True, 1)])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention_between_tensors(device, causal, window, dtype):
    q, k, v, grad = arrays()
    sides = (-1, -1) if window < 0 else (window - 1, 0) if causal else (window // 2, window // 2)
    with torch_aule.Aule() as one:
        *operands, out = uploaded(one, q, k, v, grad, dtype=dtype)
        one.attention_gpu(*operands, out, causal=causal, window_size=window)
        rounded = [t.tensor.cpu() for t in operands]
        wanted = reference(*rounded, torch.from_numpy(grad), causal=causal, window=sides)[0]
        near(out.download(), wanted.numpy(), max(TOLERANCE[dtype], 3e-5))


def test_attention_between_tensors_copies_nothing(device):
    with torch_aule.Aule() as one:
        operands = uploaded(one, *arrays(heads=2))
        one.attention_gpu(*operands)  # whose kernels are then compiled
        assert launches(lambda: one.attention_gpu(*operands)) == 1
        before = torch.aule.memory_stats()["allocation.all.allocated"]
        one.attention_gpu(*operands)
        assert torch.aule.memory_stats()["allocation.all.allocated"] == before + 1  # the log-sum-exp


@pytest.mark.parametrize("sizes", [{}, {"q_len": 5, "k_len": 70}, {"dim": 7, "v_dim": 12}, {"q_len": 0}, {"k_len": 0}])
def test_attention_over_arrays(device, sizes):
    q, k, v, grad = arrays(**sizes)
    with aule.Aule() as one:
        near(one.attention(q, k, v, causal=False), expected(q, k, v, grad)[0])
        near(one.attention(q, k, v), expected(q, k, v, grad, causal=True)[0])
        near(one.attention(q.swapaxes(0, 2).copy().swapaxes(0, 2), k, v), expected(q, k, v, grad, causal=True)[0])
        assert one.attention(*(t.astype(np.float64) for t in (q, k, v))).dtype == np.float32


@pytest.mark.parametrize("rows, columns", [(37, 12), (50, 6)])
def test_rotary_embedding(device, rows, columns):
    """Neighbours of a row are a pair; what lies behind the tables' columns stays."""
    q, k, v, grad = arrays()
    angles = torch.rand(rows, columns, dtype=torch.float64) * 6

    def turned(x):
        x = torch.from_numpy(x).double()
        head, tail = x[..., : 2 * columns], x[..., 2 * columns :]
        pairs = torch.view_as_complex(head.unflatten(-1, (-1, 2)).contiguous())
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)[: x.size(-2)])
        return torch.cat((turned.flatten(-2), tail), -1)

    wanted = reference(turned(q), turned(k), torch.from_numpy(v), torch.from_numpy(grad), causal=True)[0].numpy()
    cos, sin = angles.cos().float().numpy(), angles.sin().float().numpy()
    with torch_aule.Aule() as one:
        near(one.attention(q, k, v, cos, sin), wanted)
        *operands, out = uploaded(one, q, k, v, grad)
        one.attention_gpu(*operands, out, *uploaded(one, cos[None, None], sin[None, None]))
        near(out.download(), wanted)


@pytest.mark.parametrize("causal", [True, False])
def test_backward(device, causal):
    q, k, v, grad = arrays(q_len=19, v_dim=10)
    out, *gradients, _ = expected(q, k, v, grad, causal=causal)
    with torch_aule.Aule() as one:
        output, lse = one.attention_forward_with_lse(q, k, v, causal=causal)
        near(output, out)
        scores = np.einsum("bhqd,bhkd->bhqk", *(t.astype(np.float64) for t in (q, k.repeat(2, 1)))) / np.sqrt(24)
        if causal:
            scores[..., np.triu_indices(19, 1, 37)[0], np.triu_indices(19, 1, 37)[1]] = -np.inf
        near(lse, np.log(np.exp(scores).sum(-1)))
        for actual, wanted in zip(one.attention_backward(q, k, v, output, grad, lse, causal=causal), gradients):
            near(actual, wanted)


def test_tensors_are_counted_and_given_back(device):
    one = torch_aule.Aule()
    before = torch.aule.memory_allocated()
    held = [one.tensor((1, 2, 64, 100)), one.tensor((1, 1, 1, 1), np.float16), one.tensor((0, 1, 1, 1), "bfloat16")]
    assert one.tensor_count == 3 and torch.aule.memory_allocated() > before
    held.pop()
    assert one.tensor_count == 2
    held[1].destroy()
    held[1].destroy()
    assert one.tensor_count == 1 and "destroyed" in repr(held[1])
    one.clear_tensors()
    assert one.tensor_count == 0 and torch.aule.memory_allocated() == before
    with pytest.raises(torch_aule.AuleError, match="memory was given back"):
        held[0].download()
    one.tensor((1, 1, 1, 1))
    one.close()
    one.close()
    for call in (lambda: one.tensor((1, 1, 1, 1)), one.get_device_info, lambda: one.attention(*arrays()[:3])):
        with pytest.raises(torch_aule.AuleError, match="closed"):
            call()


def test_upload_and_download(device):
    with torch_aule.Aule() as one:
        tensor = one.tensor((2, 3, 4, 5), torch.bfloat16)
        values = torch.randn(2, 3, 4, 5)
        tensor.upload(values.numpy())
        assert (tensor.download() == values.bfloat16().float().numpy()).all()
        tensor.upload(values.transpose(0, 1).contiguous().transpose(0, 1).double())
        assert (tensor.download() == values.bfloat16().float().numpy()).all()
        with pytest.raises(torch_aule.InvalidShapeError, match=r"expected data of shape \(2, 3, 4, 5\)"):
            tensor.upload(values.numpy()[0])


def test_errors(device):
    with torch_aule.Aule() as one:
        q, k, v, out = uploaded(one, *arrays())
        shape = torch_aule.InvalidShapeError
        with pytest.raises(shape, match="four sizes"):
            one.tensor((1, 2, 3))
        with pytest.raises(TypeError, match="float32, float16 or bfloat16"):
            one.tensor((1, 1, 1, 1), np.int32)
        with pytest.raises(shape, match=r"attention_gpu: expected out of shape \[1, 4, 37, 24\]"):
            one.attention_gpu(q, k, v, k)
        with pytest.raises(TypeError, match="expected q to be a GpuTensor"):
            one.attention_gpu(arrays()[0], k, v, out)
        with pytest.raises(TypeError, match="both of rot_cos and rot_sin"):
            one.attention_gpu(q, k, v, out, rot_cos=q)
        with pytest.raises(TypeError, match="expected out of dtype torch.float32"):
            one.attention_gpu(q, k, v, one.tensor(q.shape, torch.float16))
        with pytest.raises(ValueError, match="window_size of -1 or at least 1"):
            one.attention_gpu(q, k, v, out, window_size=0)
        with pytest.raises(RuntimeError, match="overlap|single memory location"):
            one.attention_gpu(q, k, v, q)
        with pytest.raises(TypeError, match="expected key to be a numpy.ndarray, but got list"):
            one.attention(arrays()[0], [1], arrays()[2])
        with pytest.raises(shape, match="expected query of shape"):
            one.attention(*(t[0] for t in arrays()[:3]))
        with pytest.raises(shape, match="rot_cos of at least 37 rows and at most 12 columns"):
            one.attention(*arrays()[:3], np.ones((36, 12)), np.ones((36, 12)))
        with pytest.raises(shape, match=r"expected lse of shape \[1, 4, 37\]"):
            one.attention_backward(*arrays(kv_heads=4)[:3], *arrays()[3:] * 2, np.ones((1, 4, 36)))
    with pytest.raises(RuntimeError, match="invalid device aule:77"):
        torch_aule.Aule(77)


def test_the_names_of_the_other_package():
    assert set(aule.__all__) >= {"flash_attention", "aule_attention", "attention", "Aule", "GpuTensor", "AuleError"}
    for name in aule.__all__:
        assert getattr(aule, name) is getattr(torch_aule, {"attention": "flash_attention"}.get(name, name)), name
    errors = [name for name in torch_aule.__all__ if name.endswith("Error")]
    assert errors and set(errors) <= set(aule.__all__)


def test_without_a_device():
    check_program("no_device_objects", VK_DRIVER_FILES="/nowhere.json", VK_ICD_FILENAMES="/nowhere.json")


def test_the_example_of_the_page(device, capsys):
    example = re.search(r"## One object\n\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
    found = {}
    exec(compile(example, "docs/use/aule_attention.md", "exec"), found)
    q, k, v = found["arrays"]
    near(found["result"], expected(q, k, v, q, causal=True, window=(15, 0))[0])
    gradients = expected(q, k, v, np.ones_like(q), causal=True)[1:4]
    for actual, wanted in zip(found["gradients"], gradients, strict=True):
        near(actual, wanted)
    assert torch.aule.get_device_name() in capsys.readouterr().out
