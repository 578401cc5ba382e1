"""GGUF files in transformers: models stay packed on the device, and give what the same weights give as numbers."""

import copy
import gc
import importlib

import numpy as np
import pytest
import torch

pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

pytest.importorskip(
    "transformers.integrations.gguf.gguf_conversion_mapping", reason="this transformers keeps no GGUF file packed"
)
from transformers.integrations.gguf import gguf_conversion_mapping  # noqa: E402

if not hasattr(gguf_conversion_mapping, "ConcatenateRows"):
    pytest.skip("this transformers is older than the hooks for GGUF files", allow_module_level=True)

from gguf_writer import write_gguf  # noqa: E402
from quantized_reference import FORMATS, decoded, random_blocks  # noqa: E402
from torch_aule.quantized.gguf import read_header  # noqa: E402

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, VOCABULARY, EXPERTS = 2, 256, 512, 4, 2, 96, 4
HEAD = HIDDEN // HEADS
COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
# Architecture of the file -> configuration of transformers, further metadata of the file.
MODELS = {
    "llama": ("llama", {"head_dim": HEAD, "tie_word_embeddings": False}, {"llama.rope.dimension_count": HEAD}),
    "mistral": ("mistral", {"head_dim": HEAD, "sliding_window": None}, {"general.name": "tiny Mistral"}),
    "mixtral": ("mixtral", {"num_local_experts": EXPERTS, "num_experts_per_tok": 2, "sliding_window": None},
                {"llama.expert_count": EXPERTS, "llama.expert_used_count": 2}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}, {}),
    "qwen3": ("qwen3", {"head_dim": HEAD, "tie_word_embeddings": False}, {"qwen3.attention.key_length": HEAD}),
    "qwen3moe": ("qwen3_moe", {"head_dim": HEAD, "num_experts": EXPERTS, "num_experts_per_tok": 2,
                               "moe_intermediate_size": INNER, "norm_topk_prob": True},
                 {"qwen3moe.attention.key_length": HEAD, "qwen3moe.expert_count": EXPERTS,
                  "qwen3moe.expert_used_count": 2, "qwen3moe.expert_feed_forward_length": INNER}),
    "phi3": ("phi3", {}, {"phi3.rope.dimension_count": HEAD}),
    "gemma3": ("gemma3_text", {"head_dim": HEAD, "sliding_window": 8, "query_pre_attn_scalar": HEAD,
                               "layer_types": ["sliding_attention", "full_attention"]},
               {"gemma3.attention.key_length": HEAD, "gemma3.attention.sliding_window": 8,
                "gemma3.attention.sliding_window_pattern": 2}),
}  # fmt: skip
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
    "model.norm.weight": "output_norm.weight",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up", "mlp.gate": "ffn_gate_inp",
    "mlp.experts.down_proj": "ffn_down_exps.weight", "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip


def name_in_file(name, model):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    if rest == "post_attention_layernorm.weight":
        return f"blk.{layer}.{'post_attention_norm' if model == 'gemma3' else 'ffn_norm'}.weight"
    stem = rest if rest in NAMES else rest.rpartition(".")[0]
    return f"blk.{layer}.{NAMES[stem]}" + rest[len(stem) :]


def turned(w, heads):
    """Rows as llama.cpp's converter leaves them -> as transformers has them."""
    return w.reshape(heads, HEAD // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def tiny(model, folder, formats, rope_factors=None):
    """A file of random weights in `formats`, in turn, and the model of transformers with the same numbers."""
    rng = np.random.default_rng(torch.randint(2**31, ()).item())
    kind, own, further = MODELS[model]
    config = transformers.AutoConfig.for_model(kind, **(COMMON | own))
    reference = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    tensors, state, next_format = {}, {}, 0

    def quantized(*sizes, format=None):
        nonlocal next_format
        if format is None:
            format = formats[next_format % len(formats)]
            next_format += 1
        blocks = random_blocks(rng, format, *sizes, scale=2.0**-4)
        return format, blocks, decoded(blocks, format)

    for name, parameter in reference.state_dict().items():
        sizes = tuple(parameter.shape)
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name.endswith("experts.gate_up_proj"):
            stem = name_in_file(name.replace("gate_up_proj", "down_proj"), model).replace("down", "{}")
            halves, format = [], None  # both have one
            for part in ("gate", "up"):
                format, blocks, w = quantized(EXPERTS, INNER, HIDDEN, format=format)
                tensors[stem.format(part)] = (format, w.shape, blocks)
                halves.append(w)
            w = np.concatenate(halves, 1)
        elif len(sizes) > 1 and not name.endswith("mlp.gate.weight"):
            format, blocks, w = quantized(*sizes)
            tensors[name_in_file(name, model)] = (format, sizes, blocks)
        else:
            w = rng.normal(1, 0.1, sizes).astype(np.float32) if "norm" in name else rng.normal(0, 0.1, sizes)
            w = w.astype(np.float32)
            tensors[name_in_file(name, model)] = ("f32", sizes, w + 1 if model == "gemma3" else w)
        if model in ("llama", "mistral", "mixtral") and ("q_proj" in name or "k_proj" in name):
            w = turned(w, HEADS if "q_proj" in name else KV_HEADS)
        state[name] = torch.from_numpy(np.ascontiguousarray(w))
    reference.load_state_dict(state, strict=False)
    reference.tie_weights()
    arch = "llama" if model in ("mistral", "mixtral") else model
    if rope_factors is not None:
        tensors["rope_freqs.weight"] = ("f32", rope_factors.shape, rope_factors)
        for name in ("inv_freq", "original_inv_freq"):
            setattr(
                reference.model.rotary_emb,
                name,
                getattr(reference.model.rotary_emb, name) / torch.from_numpy(rope_factors),
            )
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    metadata = {
        "general.architecture": arch, f"{arch}.context_length": 128, f"{arch}.embedding_length": HIDDEN,
        f"{arch}.feed_forward_length": INNER, f"{arch}.block_count": LAYERS, f"{arch}.attention.head_count": HEADS,
        f"{arch}.attention.head_count_kv": KV_HEADS, f"{arch}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{arch}.rope.freq_base": float(rope["rope_theta"]),
        "tokenizer.ggml.tokens": [str(i) for i in range(config.vocab_size)],
    } | further  # fmt: skip
    write_gguf(folder / "tiny.gguf", metadata, tensors)
    return reference


def load(folder, **options):
    options = {"dtype": torch.float32, "attn_implementation": "sdpa"} | options
    return transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file="tiny.gguf", **options)


def check_like(model, reference, tolerance):
    """Logits are the same, and each token that is generated is one of the largest of the reference's logits."""
    ids = torch.randint(VOCABULARY, (2, 11))
    with torch.no_grad():
        expected, actual = reference(ids).logits, model(ids.to("aule")).logits.cpu().float()
    size = expected.abs().max()
    assert (actual - expected).abs().max() <= tolerance * size
    tokens = model.generate(ids[:1].to("aule"), max_new_tokens=6, do_sample=False, use_cache=True).cpu()
    with torch.no_grad():
        logits = reference(tokens).logits[0, 10:-1]
    chosen = logits.gather(1, tokens[0, 11:, None])[:, 0]
    assert (logits.amax(1) - chosen).max() <= 2 * tolerance * size


@pytest.mark.parametrize("model", MODELS)
def test_models_of_packed_weights(model, tmp_path):
    reference = tiny(model, tmp_path, ["q4_k", "q6_k", "q8_0"])
    packed = load(tmp_path, device_map="aule")
    assert packed.config.model_type == reference.config.model_type
    held = {p.data_ptr(): p for p in packed.parameters()}.values()
    assert {p.device.type for p in held} == {"aule"}
    assert sum(p.nbytes for p in held) <= 1.1 * (tmp_path / "tiny.gguf").stat().st_size
    assert all(p.dtype == torch.uint8 for p in held if p.dim() > 1 and not p.size(0) == EXPERTS)
    check_like(packed, reference, 1e-4)


def test_loading_takes_little_more_than_the_file(tmp_path, monkeypatch):
    """Also while it loads; and nobody asks the hub for kernels of other devices or warns that these are missing."""
    kernels = importlib.import_module("transformers.integrations.gguf.kernels")
    monkeypatch.setattr(kernels, "is_kernels_available", pytest.fail)
    told = []
    quantizer = importlib.import_module("transformers.quantizers.quantizer_gguf")
    monkeypatch.setattr(quantizer.logger, "warning", told.append)
    monkeypatch.setitem(COMMON, "vocab_size", 30_000)  # the embedding is most of the model, as in small ones
    tiny("qwen2", tmp_path, ["q8_0"])
    gc.collect()
    before, size = torch.aule.memory_allocated(), (tmp_path / "tiny.gguf").stat().st_size
    torch.aule.reset_peak_memory_stats()
    model = load(tmp_path, device_map="aule", dtype=torch.bfloat16, attn_implementation=None)
    assert told == [] and model.config._attn_implementation == "sdpa"
    assert torch.aule.memory_allocated() - before <= 1.1 * size
    # The numbers that are looked at: 4 MiB at a time, and a sum.
    assert torch.aule.max_memory_allocated() - before <= 1.1 * size + (5 << 20)


def test_every_format_in_one_model(tmp_path):
    reference = tiny("qwen3", tmp_path, list(FORMATS))
    check_like(load(tmp_path, device_map="aule"), reference, 1e-4)
    half = load(tmp_path, device_map="aule", dtype=torch.bfloat16)
    with torch.no_grad():
        ids = torch.randint(VOCABULARY, (1, 20))
        expected, actual = reference(ids).logits, half(ids.to("aule")).logits
    assert actual.dtype == torch.bfloat16
    assert (actual.cpu().float() - expected).norm() <= 0.05 * expected.norm()


def test_factors_of_the_frequencies(tmp_path):
    """Llama 3's, which its file has as a tensor."""
    factors = np.linspace(1, 8, HEAD // 2, dtype=np.float32)
    reference = tiny("llama", tmp_path, ["q8_0"], rope_factors=factors)
    check_like(load(tmp_path, device_map="aule"), reference, 1e-4)


def test_a_model_moves_to_the_cpu_and_back(tmp_path):
    reference = tiny("mixtral", tmp_path, ["q6_k", "q8_0", "q4_0"])
    model = load(tmp_path, device_map="aule")
    ids = torch.randint(VOCABULARY, (1, 5))
    with torch.no_grad():
        there = model(ids.to("aule")).logits.cpu()
        assert torch.equal(copy.deepcopy(model)(ids.to("aule")).logits.cpu(), there)
        model = model.to("cpu").to("aule")
        assert torch.equal(model(ids.to("aule")).logits.cpu(), there)
    check_like(model, reference, 1e-4)


@pytest.mark.parametrize("model", ["llama", "qwen3moe"])
def test_gradients_pass_through_packed_weights(model, tmp_path):
    """A gradient passes through them as it passes through the same weights as numbers on the CPU."""
    reference = tiny(model, tmp_path, ["q4_k", "q8_0"])
    layer, known = load(tmp_path, device_map="aule").model.layers[0].mlp, reference.model.layers[0].mlp
    x, grad = torch.randn(2, 3, HIDDEN), torch.randn(2, 3, HIDDEN)
    there, here = x.to("aule").requires_grad_(), x.clone().requires_grad_()
    layer(there).backward(grad.to("aule"))
    known(here).backward(grad)
    assert (there.grad.cpu() - here.grad).norm() <= 1e-5 * here.grad.norm()


def test_broken_files_are_refused_by_name(tmp_path):
    tiny("llama", tmp_path, ["q4_k", "q8_0"])
    path = tmp_path / "tiny.gguf"
    data = path.read_bytes()
    before = torch.aule.memory_allocated()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"tiny.gguf: tensor '\S+' of \w+ wants \d+ bytes"):
        load(tmp_path, device_map="aule")
    at = read_header_of(data, tmp_path).tensors["blk.1.ffn_down.weight"].offset
    path.write_bytes(data[:at] + b"\x00\x7e" + data[at + 2 :])  # the scale of a block: NaN
    with pytest.raises(ValueError, match=r"tiny.gguf: the tensor of '\S*1.mlp.down_proj.weight', of \w+, has scales"):
        load(tmp_path, device_map="aule")
    gc.collect()
    assert torch.aule.memory_allocated() <= before


def read_header_of(data, folder):
    path = folder / "whole.gguf"
    path.write_bytes(data)
    return read_header(path)
