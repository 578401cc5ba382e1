"""Parts of layers that run as one: what is found, what is left out, and that the model is as before."""

import collections

import pytest
import torch

pytest.importorskip("transformers")

from families import FAMILIES, check_greedy, family, make, prompts  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from torch_aule import llm  # noqa: E402

FOUND = {
    "llama": {"rms_norm": 9, "gated_mlp": 4, "attention": 4, "layer": 4},
    "qwen3": {"rms_norm": 17, "gated_mlp": 4, "attention": 4, "layer": 4},
    "gemma3": {"rms_norm": 25, "gated_mlp": 4, "attention": 4},
    "mistral": {"rms_norm": 9, "gated_mlp": 4, "attention": 4, "layer": 4},
    "mixtral": {"rms_norm": 9, "attention": 4, "layer": 4},
    "qwen3moe": {"rms_norm": 17, "attention": 4, "layer": 4},
    "gptoss": {"rms_norm": 9, "attention": 4, "layer": 4},
    "mamba2": {"rms_norm": 4},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_found(name, dtype):
    _, model = make(name)
    fusions = llm.Runner(model.to(dtype), max_batch=1, max_len=64).engine.fusions
    assert fusions.counts == FOUND[name] and fusions.left_out == []


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_with_and_without(name):
    """The same rows through both: float32 layers in another order of sums, terms below 10."""
    _, model = make(name)
    (text,) = prompts(20)
    found = []
    for fuse in (False, True):
        runner = llm.Runner(model, max_batch=1, max_len=64, graphs=False, fuse=fuse)
        runner.add(text, max_new_tokens=9)
        seen, forward = [], runner.engine.forward
        runner.engine.forward = lambda *a, _f=forward, _s=seen, **k: _s.append(_f(*a, **k)) or _s[-1]
        runner.step()
        found.append(seen[-1])
    torch.testing.assert_close(*found, rtol=0, atol=1e-3)


VIEWS = set("view slice select unsqueeze split_with_sizes transpose t _unsafe_view alias expand".split())


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[function._overloadpacket._qualified_op_name] += 1
        return function(*args, **(kwargs or {}))


def test_a_layer_is_eight_operators():
    """Four products with what surrounds them, append, attention, norms of queries and keys: nothing else."""
    _, model = family("qwen3")
    runner = llm.Runner(model, max_batch=1, max_len=64, graphs=False)
    runner.add(prompts(8)[0], max_new_tokens=9)
    runner.step()
    with Operators() as seen:
        runner._run(1, "greedy")
    expected = {
        "aten::_fused_rms_norm": 2 * 4 + 1,
        "aten::mm": 1,
        "aule::norm_linear_act": 4 * 4,
        "aule::kv_cache_append": 4,
        "aule::flash_attn_decode": 4,
        "aten::embedding": 1,
        "aule::accept_likeliest": 1,
    }
    views = {name for name in seen.counts if name.rsplit("::")[-1] in VIEWS}
    assert {name: count for name, count in seen.counts.items() if name not in views} == expected


def change_activation(model):
    for layer in model.model.layers:
        layer.mlp.act_fn = torch.nn.GELU()


def change_gate(model):
    owner = type(model.model.layers[0].mlp)

    class Other(owner):
        def forward(self, x):
            return super().forward(x) + x

    for layer in model.model.layers:
        layer.mlp.__class__ = Other


def change_norm(model):
    owner = type(model.model.norm)

    class OtherRMSNorm(owner):
        def forward(self, x):
            return super().forward(x) * 0.5

    for layer in model.model.layers:
        layer.input_layernorm.__class__ = OtherRMSNorm


def change_attention(model):
    owner = type(model.model.layers[0].self_attn)

    class Other(owner):
        def forward(self, hidden_states, **kwargs):
            out, weights = super().forward(hidden_states, **kwargs)
            return out * 1.5, weights

    for layer in model.model.layers:
        layer.self_attn.__class__ = Other


def change_layer(model):
    owner = type(model.model.layers[0])

    class Other(owner):
        def forward(self, hidden_states, **kwargs):
            return super().forward(hidden_states, **kwargs) * 0.5

    for layer in model.model.layers:
        layer.__class__ = Other


@pytest.mark.parametrize(
    "change, left_out",
    [
        (change_activation, "gated_mlp"), (change_gate, "gated_mlp"), (change_norm, "rms_norm"),
        (change_attention, "attention"), (change_layer, "layer"),
    ],
)  # fmt: skip
def test_what_only_looks_alike_keeps_its_own_code(change, left_out):
    reference, model = make("llama")
    change(reference)
    change(model)
    runner = llm.Runner(model, max_batch=2, max_len=64)
    fusions = runner.engine.fusions
    assert left_out not in fusions.counts or left_out == "rms_norm" and fusions.counts[left_out] == 5
    assert [name.split()[0] for name in fusions.left_out].count(left_out) == 4
    for text, answer in zip(texts := prompts(7, 20), runner.generate(texts, max_new_tokens=10)):
        check_greedy(reference, text, answer)


def test_angles_that_grow_are_left_to_the_model():
    reference, model = make("llama", rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0})
    runner = llm.Runner(model, max_batch=1, max_len=64)
    assert "attention" not in runner.engine.fusions.counts and "gated_mlp" in runner.engine.fusions.counts
    (text,) = prompts(9)
    with pytest.warns(UserWarning, match="cannot be recorded"):  # it reads the length on the host
        answer = runner.generate([text], max_new_tokens=10)[0]
    check_greedy(reference, text, answer)
    check_greedy(reference, text, runner.generate([text], max_new_tokens=10)[0])


class Packed(torch.Tensor):
    """A weight that only products know, as packages have them for packed numbers."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.linear:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        if function in (torch.cat, torch.Tensor.narrow):
            raise NotImplementedError(f"{function} of a packed weight")
        return super().__torch_function__(function, types, args, kwargs or {})


def test_weights_of_other_classes_are_not_merged():
    reference, model = make("llama")
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight = torch.nn.Parameter(module.weight.data.as_subclass(Packed), requires_grad=False)
    runner = llm.Runner(model, max_batch=1, max_len=64)
    assert runner.engine.fusions.counts == FOUND["llama"]
    (text,) = prompts(12)
    check_greedy(reference, text, runner.generate([text], max_new_tokens=8)[0])


def test_the_model_is_as_before():
    reference, model = make("llama")
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = torch.aule.memory_allocated()
    # Recorded prompts need further rows of the tables of angles.
    runner = llm.Runner(model, max_batch=1, max_len=64, page_size=16, record_prompts=False)
    cache = sum(c.nbytes for layer in runner.engine.paged_layers for c in (layer.key_cache, layer.value_cache))
    del runner.engine._layers[:], runner.engine._caches
    assert torch.aule.memory_allocated() - before < cache + 100_000  # merged weights are not a second copy
    layer = model.model.layers[0]
    assert "forward" not in layer.__dict__ and "forward" not in layer.mlp.__dict__
    assert layer.self_attn.k_proj.weight.untyped_storage().data_ptr() == (
        layer.self_attn.q_proj.weight.untyped_storage().data_ptr()
    )
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    ids = torch.tensor(prompts(12))
    with torch.no_grad():
        torch.testing.assert_close(
            model(input_ids=ids.to("aule")).logits.cpu(), reference(input_ids=ids).logits, rtol=0, atol=1e-3
        )
