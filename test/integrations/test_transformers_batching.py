"""transformers' continuous batching by the kernels and graphs of the device."""

import copy

import pytest
import torch

import torch_aule
import torch_aule.integrations
from torch_aule.integrations import transformers_batching

transformers = pytest.importorskip("transformers", reason="needs transformers, of the test extra")
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA transformers takes its streams from there"
)

SHAPE = dict(
    vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=128, eos_token_id=None, bos_token_id=None,
    pad_token_id=0, tie_word_embeddings=False,
)  # fmt: skip
TURNS = dict(sliding_window=16, layer_types=["sliding_attention", "full_attention"])
HOOKS = ("kernels", "attention", "decode", "pages", "padding", "graphs")


def made(family):
    """A model on the CPU, and the same on the device. Its answers are not all of one token."""
    config, owner = {
        "llama": lambda: (transformers.LlamaConfig(**SHAPE), transformers.LlamaForCausalLM),
        "qwen3": lambda: (transformers.Qwen3Config(**SHAPE), transformers.Qwen3ForCausalLM),
        "gemma3": lambda: (
            transformers.Gemma3TextConfig(**SHAPE, **TURNS, query_pre_attn_scalar=16),
            transformers.Gemma3ForCausalLM,
        ),
    }[family]()
    model = owner(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 1.0 if "embed" in name else 1.5 / parameter.size(-1) ** 0.5)
    model.set_attn_implementation("sdpa")
    return model, copy.deepcopy(model).to("aule")


def check(model, prompt, tokens, wanted=12):
    """Each token is the likeliest of the CPU after those before it."""
    assert len(tokens) == wanted
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
    found = logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]
    assert (logits.amax(1) - found).max() <= 1e-3 * logits.abs().max()


def run(model, prompts, **more):
    how = transformers.GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=-1, pad_token_id=0)
    batching = transformers.ContinuousBatchingConfig(
        num_blocks=24, page_size=16, max_batch_tokens=64, max_requests_per_batch=4, **more
    )
    outputs = model.generate_batch(inputs=prompts, generation_config=how, continuous_batching_config=batching)
    by_prompt = {tuple(out.prompt_ids): list(out.generated_tokens) for out in outputs.values()}
    return [by_prompt[tuple(prompt)] for prompt in prompts]


@pytest.fixture
def seen(monkeypatch):
    """What was called, and how often."""
    counts = {"decode": 0, "packed": 0, "replays": 0}

    def counting(name, own):
        def function(*args, **kwargs):
            counts[name] += 1
            return own(*args, **kwargs)

        return function

    monkeypatch.setattr(torch_aule, "flash_attn_with_kvcache", counting("decode", torch_aule.flash_attn_with_kvcache))
    monkeypatch.setattr(torch.aule.Graph, "replay", counting("replays", torch.aule.Graph.replay))
    return counts


WAYS = {
    "kernels": dict(use_cuda_graph=False),
    "graphs of single tokens": dict(use_cuda_graph=(False, True), use_async_batching=False),
    "graphs": dict(use_cuda_graph=True, use_async_batching=False),
    "as chosen": dict(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_tokens_are_those_of_the_cpu(device, seen, family, way):
    model, there = made(family)
    prompts = [torch.randint(1, 97, (n,)).tolist() for n in (5, 9, 3, 40, 17, 1)]
    for prompt, tokens in zip(prompts, run(there, prompts, **WAYS[way]), strict=True):
        check(model, prompt, tokens)
    assert there.config._attn_implementation == "sdpa", "as it was"
    assert (seen["decode"] > 0) == (family != "gemma3"), "layers with a window have no table of pages"
    # Layers with a window have one pass of many tokens, and a graph is of one length of keys.
    assert (seen["replays"] > 0) == (way != "kernels" and (family != "gemma3" or way != "graphs of single tokens"))


def test_a_model_that_answers_alone_while_its_attention_is_ours(device):
    model, there = made("llama")
    transformers_batching._register(torch_aule.integrations.patch.Patches())
    there.set_attn_implementation(transformers_batching.ATTENTION)
    for shape in ((1, 7), (3, 9)):
        ids = torch.randint(1, 97, shape)
        out = there.generate(ids.to("aule"), max_new_tokens=12, do_sample=False, pad_token_id=0).cpu()
        for row, prompt in zip(out, ids, strict=True):
            check(model, prompt.tolist(), row[len(prompt) :].tolist())


def test_without_the_hooks(device, seen):
    from transformers.generation.continuous_batching import initialization, utils
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    model, there = made("llama")
    prompts = [torch.randint(1, 97, (n,)).tolist() for n in (5, 9)]
    run(there, prompts, use_cuda_graph=False)
    decoded = seen["decode"]
    names = [f"transformers.batching_{hook}" for hook in HOOKS]
    assert utils.get_accelerator_graph_name() == initialization.get_accelerator_graph_name() == "Graph"
    torch_aule.integrations.disable(*names)
    try:
        assert utils.get_accelerator_graph_name() is None
        assert transformers_batching.ATTENTION not in ALL_ATTENTION_FUNCTIONS
        for prompt, tokens in zip(prompts, run(there, prompts), strict=True):
            check(model, prompt, tokens)
        assert seen["decode"] == decoded
    finally:
        torch_aule.integrations.enable(*names)
    run(there, prompts, use_cuda_graph=False)
    assert seen["decode"] > decoded


def test_models_that_keep_their_attention(device):
    _, there = made("llama")
    assert transformers_batching._suits(there)
    there.config.attn_logit_softcapping = 30.0
    assert not transformers_batching._suits(there), "scores that are capped"
    there.config.attn_logit_softcapping = None
    assert not transformers_batching._suits(there.cpu())
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SHAPE, "head_dim": 264})).to("aule")
    model.set_attn_implementation("sdpa")
    assert not transformers_batching._suits(model), "wide heads"
    there.to("aule").set_attn_implementation("eager")
    assert not transformers_batching._suits(there)
