"""ComfyUI's nodes, on a stand-in for its loader and for its attention."""

import math

import pytest
import torch
import torch.nn.functional as F
from stand_ins.comfyui_loader import ModelPatcher, load_custom_node, run_node, wrap_attn

import torch_aule
from attention_reference import TOLERANCE
from helpers import FLOATS, launches, relative_error

NN = torch._C._nn  # where PyTorch's own function stays
INIT = "from torch_aule.integrations.comfyui import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS\n"


@pytest.fixture
def nodes(tmp_path, device):
    folder = tmp_path / "custom_nodes" / "aule_nodes"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(INIT)
    classes, names = load_custom_node(folder)
    assert sorted(names.values()) == ["Aule Disable", "Aule Enable", "Aule Info", "Aule Patch Model"]
    assert all(node.CATEGORY == "aule" for node in classes.values()) and classes.keys() == names.keys()
    yield {names[name]: node for name, node in classes.items()}
    torch_aule.uninstall()


@wrap_attn
def optimized_attention(
    q, k, v, heads, mask=None, attn_precision=None, skip_reshape=False, skip_output_reshape=False, **kwargs
):
    raise AssertionError("the model's own attention was called")


def expected(q, k, v, mask, causal, turned):
    q, k, v = (t.double() for t in (q, k, v))
    if turned:
        q, k = rotated(q), rotated(k)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask.double()
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ v


def rotated(x):
    angles = torch.outer(
        torch.arange(x.size(-2)).double(), 10000 ** (-torch.arange(0, x.size(-1), 2).double() / x.size(-1))
    )
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def test_the_page_has_the_file_of_the_node():
    from helpers import ROOT

    assert f"```python\n{INIT}```" in (ROOT / "docs/use/aule_attention.md").read_text()


def test_enable_info_and_disable(nodes):
    q = torch.randn(1, 2, 5, 8)
    assert run_node(nodes["Aule Enable"]) == ()
    assert launches(lambda: F.scaled_dot_product_attention(q, q, q)) > 0
    (text,) = run_node(nodes["Aule Info"])
    assert f"vulkan: in use, {torch.aule.get_device_name()}" in text and "\ncpu: available" in text
    assert run_node(nodes["Aule Disable"]) == ()
    assert F.scaled_dot_product_attention is NN.scaled_dot_product_attention
    assert "vulkan: available" in run_node(nodes["Aule Info"])[0]
    never = nodes["Aule Enable"].IS_CHANGED()
    assert never != never  # ComfyUI runs the node each time


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("where", ["cpu", "aule"])
@pytest.mark.parametrize("causal, use_rope", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("kind", [None, "bool", "float"])
def test_a_patched_model(nodes, dtype, where, causal, use_rope, kind):
    model = ModelPatcher()
    (patched,) = run_node(nodes["Aule Patch Model"], model=model, causal=causal, use_rope=use_rope)
    assert patched is not model and not model.model_options["transformer_options"]
    options = patched.model_options["transformer_options"]
    q, k, v = (torch.randn(2, 3, 17, 12).to(dtype) for _ in range(3))
    mask = {"bool": torch.rand(17, 17) < 0.7, "float": torch.randn(2, 17, 17).to(dtype)}.get(kind)
    if kind == "bool":
        mask[:, 0] = True
    wanted = expected(q, k, v, mask.unsqueeze(1) if kind == "float" else mask, causal, use_rope)
    moved = [t.to(where) for t in (q, k, v)]
    there = None if mask is None else mask.to(where)
    found = []

    def call():
        found.append(optimized_attention(*moved, 3, mask=there, skip_reshape=True, skip_output_reshape=True,
                                         transformer_options=options))  # fmt: skip
        flat = [t.transpose(1, 2).reshape(2, 17, 36) for t in moved]
        found.append(optimized_attention(*flat, 3, mask=there, transformer_options=options))

    assert launches(call) >= 2
    assert found[0].dtype == dtype and found[0].device.type == where
    assert relative_error(found[0], wanted) < max(TOLERANCE[dtype], 3e-5)
    assert relative_error(found[1], wanted.transpose(1, 2).flatten(2)) < max(TOLERANCE[dtype], 3e-5)


def test_a_model_that_was_not_patched_keeps_its_attention(nodes):
    with pytest.raises(AssertionError, match="own attention"):
        optimized_attention(*(torch.ones(1, 1, 2) for _ in range(3)), 1, transformer_options={})
