"""Tiny random models of the families that the tests of torch_aule.llm run."""

import copy
from functools import cache

import torch

VOCABULARY = 97
SHAPE = dict(
    vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=1024, bos_token_id=1, eos_token_id=None,
    pad_token_id=0, tie_word_embeddings=False,
)  # fmt: skip
TURNS = dict(sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2)
EXPERTS = dict(num_experts_per_tok=2)


def _families():
    import transformers as t

    return {
        "llama": (t.LlamaForCausalLM, lambda: t.LlamaConfig(**SHAPE)),
        "qwen3": (t.Qwen3ForCausalLM, lambda: t.Qwen3Config(**SHAPE)),
        "gemma3": (t.Gemma3ForCausalLM, lambda: t.Gemma3TextConfig(**SHAPE, **TURNS, query_pre_attn_scalar=16)),
        "mistral": (t.MistralForCausalLM, lambda: t.MistralConfig(**SHAPE, sliding_window=16)),
        "mixtral": (t.MixtralForCausalLM, lambda: t.MixtralConfig(**SHAPE, **EXPERTS, num_local_experts=4)),
        "qwen3moe": (
            t.Qwen3MoeForCausalLM,
            lambda: t.Qwen3MoeConfig(**SHAPE, **EXPERTS, num_experts=4, moe_intermediate_size=48),
        ),
        "gptoss": (
            t.GptOssForCausalLM,
            lambda: t.GptOssConfig(
                **SHAPE, **TURNS, **EXPERTS, num_local_experts=4,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            ),
        ),
        "mamba2": (
            t.Mamba2ForCausalLM,
            lambda: t.Mamba2Config(
                vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=3, num_heads=8, head_dim=16, state_size=16,
                n_groups=2, chunk_size=32, bos_token_id=1, eos_token_id=None, pad_token_id=0,
            ),
        ),
    }  # fmt: skip


FAMILIES = ["llama", "qwen3", "gemma3", "mistral", "mixtral", "qwen3moe", "gptoss", "mamba2"]
RECURRENT = {"mamba2"}


def make(family: str, **changes):
    """A model in float32 on the CPU, and the same on the device. Its answers are not all of one token."""
    owner, configuration = _families()[family]
    config = configuration()
    for name, value in changes.items():
        setattr(config, name, value)
    model = owner(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 1.0 if "embed" in name else 1.5 / parameter.size(-1) ** 0.5)
            elif "sinks" in name:
                parameter.normal_()
    return model, copy.deepcopy(model).to("aule")


@cache
def family(name: str):
    """A model that the tests of a file share; nobody changes it."""
    torch.manual_seed(torch.initial_seed())
    return make(name)


def prompts(*lengths: int) -> list[list[int]]:
    return [torch.randint(2, VOCABULARY, (n,)).tolist() for n in lengths]


def check_greedy(reference, prompt, tokens, penalty: float = 1.0):
    """Each token is the likeliest one after those before it, by a forward of the whole text on the CPU.

    Logits of both differ by roundings: layers of float32, terms of size 10. A token counts as the likeliest if its
    logit is within 1e-3 of the largest.
    """
    assert len(tokens) > 0
    with torch.no_grad():
        logits = reference(input_ids=torch.tensor([prompt + tokens])).logits[0].double()
    for i, token in enumerate(tokens):
        row = logits[len(prompt) + i - 1].clone()
        seen = torch.tensor(sorted(set(prompt + tokens[:i])))
        row[seen] = torch.where(row[seen] > 0, row[seen] / penalty, row[seen] * penalty)
        assert row[token] >= row.max() - 1e-3, (i, token, int(row.argmax()), float(row.max() - row[token]))
