"""Architectures of GGUF files that transformers reads by its older loader, which makes every weight dense.

For each, as transformers' own tables have them: the names of its tensors, what llama.cpp's converter did to their
values or rows, and the configuration that the file's metadata stand for. Both are of public conventions: the keys of
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and the names of transformers' modules.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["CONFIGS", "MAPPINGS", "Q5_AND_FP4", "is_served"]

NORMS = {r"\.attn_norm\.": ".input_layernorm.", r"\.ffn_norm\.": ".post_attention_layernorm."}
QK_NORMS = {r"\.attn_q_norm\.": ".self_attn.q_norm.", r"\.attn_k_norm\.": ".self_attn.k_norm."}
FINAL_NORM = {r"^output_norm\.": "model.norm."}


def _renamed(*tables: dict[str, str]) -> list:
    from transformers.core_model_loading import WeightRenaming

    return [WeightRenaming(old, new) for table in tables for old, new in table.items()]


def _dense() -> list:
    from transformers.integrations.gguf.gguf_conversion_mapping import DENSE_DECODER_RENAMINGS

    return list(DENSE_DECODER_RENAMINGS)


def _converted(name: str, operation, target: str | None = None):
    from transformers.core_model_loading import WeightConverter

    return WeightConverter(source_patterns=name, target_patterns=target or name, operations=[operation])


def _experts() -> list:
    """One tensor for all experts; gate and up become one."""
    from transformers.core_model_loading import WeightConverter
    from transformers.integrations.gguf.gguf_conversion_mapping import ConcatenateRows

    return [
        *_renamed({r"\.ffn_gate_inp\.": ".mlp.gate.", r"\.ffn_down_exps\.weight": ".mlp.experts.down_proj"}),
        WeightConverter(
            source_patterns=[r"\.ffn_gate_exps\.weight", r"\.ffn_up_exps\.weight"],
            target_patterns=".mlp.experts.gate_up_proj",
            operations=[ConcatenateRows(dim=1)],
        ),
    ]


def _halves_to_pairs(heads: int, head_dim: int):
    """llama.cpp turns pairs of neighbours, transformers pairs across the halves of a head: rows were interleaved."""
    from transformers.integrations.gguf.gguf_conversion_mapping import PermuteRows

    rows = torch.arange(heads * head_dim, device="cpu").reshape(heads, head_dim // 2, 2)
    return PermuteRows(rows.transpose(1, 2).reshape(-1))


def _llama(config) -> list:
    """Llama, Mistral, and Mixtral, which has experts."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    turned = []
    for name, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
        for kind in ("weight", "bias"):
            turned.append(_converted(f"self_attn.{name}_proj.{kind}", _halves_to_pairs(heads, head_dim)))
    experts = _experts() if getattr(config, "num_local_experts", 0) else []
    return [*_dense(), *_renamed(NORMS, FINAL_NORM), *turned, *experts]


def _qwen(config) -> list:
    """Qwen2 and Qwen3."""
    return [*_dense(), *_renamed(NORMS, QK_NORMS, FINAL_NORM)]


def _qwen_experts(config) -> list:
    return [*_qwen(config), *_experts()]


def _phi3(config) -> list:
    fused = {r"\.attn_qkv\.": ".self_attn.qkv_proj.", r"\.ffn_up\.": ".mlp.gate_up_proj."}
    return [*_renamed(fused), *_dense(), *_renamed(NORMS, FINAL_NORM)]


def _gemma3(config) -> list:
    """Norms are stored with 1 added."""
    from transformers.integrations.gguf.gguf_conversion_mapping import SubtractOne

    norms = {
        r"\.attn_norm\.weight": ".input_layernorm.weight",
        r"\.post_attention_norm\.weight": ".post_attention_layernorm.weight",
        r"\.ffn_norm\.weight": ".pre_feedforward_layernorm.weight",
        r"\.post_ffw_norm\.weight": ".post_feedforward_layernorm.weight",
        r"\.attn_q_norm\.weight": ".self_attn.q_norm.weight",
        r"\.attn_k_norm\.weight": ".self_attn.k_norm.weight",
        r"^output_norm\.weight": "model.norm.weight",
    }
    return [*_dense(), *(_converted(old, SubtractOne(), new) for old, new in norms.items())]


MAPPINGS: dict[str, Callable] = {
    "llama": _llama,
    "qwen2": _qwen,
    "qwen3": _qwen,
    "qwen3moe": _qwen_experts,
    "phi3": _phi3,
    "gemma3": _gemma3,
}
"""Architecture of a file -> the transforms that make transformers' weights of its tensors, for a configuration."""


def is_served(metadata: dict, tensor_names: tuple[str, ...]) -> bool:
    """Whether a file's architecture, and what it stores, is one of :data:`MAPPINGS`."""
    arch = metadata["general.architecture"]
    if arch not in MAPPINGS:
        return False
    if any(name.startswith("rope_factors_") for name in tensor_names):  # Phi-3's long contexts
        return False
    # Older files have a tensor for each expert.
    return not any(name.startswith("blk.0.ffn_gate.") and name.count(".") == 4 for name in tensor_names)


def _common(metadata: dict, tensor_names: tuple[str, ...], model_type: str, classes: str) -> dict:
    arch = metadata["general.architecture"]

    def key(name, default=None):
        return metadata.get(f"{arch}.{name}", default)

    heads, hidden = key("attention.head_count"), key("embedding_length")
    head_dim = key("attention.key_length") or key("rope.dimension_count") or hidden // heads
    # The vocabulary as the reader leaves it: its length.
    vocabulary = metadata.get("tokenizer.ggml.tokens", key("vocab_size"))
    return {
        "model_type": model_type,
        "architectures": [classes],
        "max_position_embeddings": key("context_length"),
        "hidden_size": hidden,
        "intermediate_size": key("feed_forward_length"),
        "num_hidden_layers": key("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": key("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": key("attention.layer_norm_rms_epsilon"),
        "rope_parameters": _rope(key),
        "vocab_size": vocabulary if isinstance(vocabulary, int) else len(vocabulary),
        "tie_word_embeddings": "output.weight" not in tensor_names,
        **{f"{name}_token_id": metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")},
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
    }


def _rope(key) -> dict:
    rope = {"rope_type": "default", "rope_theta": key("rope.freq_base", 10000.0)}
    scaling, factor = key("rope.scaling.type"), key("rope.scaling.factor")
    if scaling in ("linear", "yarn") and factor:
        rope |= {"rope_type": scaling, "factor": factor}
        if scaling == "yarn":
            rope["original_max_position_embeddings"] = key("rope.scaling.original_context_length")
    return rope


def _llama_config(metadata: dict, tensor_names: tuple[str, ...]) -> dict:
    experts = metadata.get("llama.expert_count", 0)
    if experts:
        return _common(metadata, tensor_names, "mixtral", "MixtralForCausalLM") | {
            "num_local_experts": experts,
            "num_experts_per_tok": metadata["llama.expert_used_count"],
            "sliding_window": None,
        }
    if "mistral" in str(metadata.get("general.name", "")).lower():
        window = metadata.get("llama.attention.sliding_window")
        return _common(metadata, tensor_names, "mistral", "MistralForCausalLM") | {"sliding_window": window}
    biases = {"attention_bias": "blk.0.attn_q.bias" in tensor_names, "mlp_bias": "blk.0.ffn_up.bias" in tensor_names}
    return _common(metadata, tensor_names, "llama", "LlamaForCausalLM") | biases


def _qwen2_config(metadata: dict, tensor_names: tuple[str, ...]) -> dict:
    return _common(metadata, tensor_names, "qwen2", "Qwen2ForCausalLM")


def _qwen3_config(metadata: dict, tensor_names: tuple[str, ...]) -> dict:
    return _common(metadata, tensor_names, "qwen3", "Qwen3ForCausalLM")


def _qwen3moe_config(metadata: dict, tensor_names: tuple[str, ...]) -> dict:
    return _common(metadata, tensor_names, "qwen3_moe", "Qwen3MoeForCausalLM") | {
        "moe_intermediate_size": metadata["qwen3moe.expert_feed_forward_length"],
        "num_experts": metadata["qwen3moe.expert_count"],
        "num_experts_per_tok": metadata["qwen3moe.expert_used_count"],
        "norm_topk_prob": True,
    }


def _phi3_config(metadata: dict, tensor_names: tuple[str, ...]) -> dict:
    config = _common(metadata, tensor_names, "phi3", "Phi3ForCausalLM")
    del config["head_dim"]  # Phi-3 has none of its own
    turned = metadata.get("phi3.rope.dimension_count")
    if turned:
        config["rope_parameters"]["partial_rotary_factor"] = (
            turned * config["num_attention_heads"] / config["hidden_size"]
        )
    return config | {"sliding_window": metadata.get("phi3.attention.sliding_window")}


def _gemma3_config(metadata: dict, tensor_names: tuple[str, ...]) -> dict:
    config = _common(metadata, tensor_names, "gemma3_text", "Gemma3ForCausalLM")
    # The one of 62 layers divides scores by the root of hidden size over heads.
    of_heads = config["hidden_size"] // config["num_attention_heads"]
    scale = of_heads if config["num_hidden_layers"] == 62 else config["head_dim"]
    # A number, or whether each layer has a window; older files have neither.
    pattern = metadata.get("gemma3.attention.sliding_window_pattern", 6)
    if isinstance(pattern, int):
        pattern = [(layer + 1) % pattern != 0 for layer in range(config["num_hidden_layers"])]
    return config | {
        "layer_types": ["sliding_attention" if has_window else "full_attention" for has_window in pattern],
        "query_pre_attn_scalar": scale,
        "sliding_window": metadata["gemma3.attention.sliding_window"],
        # Layers with a window turn by their own base, which files do not state.
        "rope_parameters": {
            "full_attention": config["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }


CONFIGS: dict[str, Callable] = {
    "llama": _llama_config,
    "qwen2": _qwen2_config,
    "qwen3": _qwen3_config,
    "qwen3moe": _qwen3moe_config,
    "phi3": _phi3_config,
    "gemma3": _gemma3_config,
}
"""Architecture of a file -> transformers' configuration as a dict, of its metadata and the names of its tensors."""


def _half(blocks: torch.Tensor, at: int, dtype: torch.dtype) -> torch.Tensor:
    return blocks[:, at : at + 2].view(torch.float16).to(dtype)


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    return torch.cat([packed & 15, packed >> 4], 1)


def _fifth_bits(word: torch.Tensor) -> torch.Tensor:
    """Bits of four bytes as [blocks, 32] of 0 and 16."""
    bits = word.unsqueeze(2) >> torch.arange(8, dtype=torch.uint8, device=word.device)
    return (bits & 1).flatten(1) << 4


def _q5_0(blocks: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    values = (_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])).to(torch.int8) - 16
    return _half(blocks, 0, dtype) * values.to(dtype)


def _q5_1(blocks: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    values = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0, dtype) * values.to(dtype) + _half(blocks, 2, dtype)


def _mxfp4(blocks: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    levels = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float32, device=blocks.device)
    levels = torch.cat([levels, -levels])
    scale = torch.ldexp(torch.ones((), device=blocks.device), blocks[:, :1].to(torch.int32) - 127)
    return (scale * levels[_nibbles(blocks[:, 1:]).long()]).to(dtype)


Q5_AND_FP4 = {6: ("Q5_0", 32, 22, _q5_0), 7: ("Q5_1", 32, 24, _q5_1), 39: ("MXFP4", 32, 17, _mxfp4)}
"""Types that transformers' tables lack: name, values and bytes of a block, a decoder for the CPU."""
