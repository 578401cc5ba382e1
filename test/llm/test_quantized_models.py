"""Quantized models run packed: the tokens of greedy decoding by the same numbers on the CPU, in recorded steps."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

from families import prompts  # noqa: E402

from gguf_writer import write_gguf  # noqa: E402
from quantized_reference import decoded, random_blocks  # noqa: E402
from torch_aule import llm  # noqa: E402

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA transformers chooses it, and the hooks stay off"
)
SHAPE = dict(
    vocab_size=97, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=64, max_position_embeddings=128, tie_word_embeddings=False, pad_token_id=None,
    bos_token_id=None, eos_token_id=None,
)  # fmt: skip
NAMES = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
         "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}  # fmt: skip


def gguf(folder):
    """A Qwen 3 whose weights are Q4_K, Q6_K and Q8_0 in turn."""
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SHAPE)).eval()
    rng, tensors, state, count = np.random.default_rng(torch.randint(2**31, ()).item()), {}, {}, 0
    for name, parameter in model.state_dict().items():
        layer, part = (name.split(".")[2], name.split(".")[-2]) if ".layers." in name else (None, name.split(".")[-2])
        if parameter.dim() == 1:
            parts = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "q_norm": "attn_q_norm",
                     "k_norm": "attn_k_norm", "norm": "output_norm"}  # fmt: skip
            w = rng.normal(1, 0.1, tuple(parameter.shape)).astype(np.float32)
            entry, own = ("f32", w.shape, w), parts[part]
        else:
            format = ("q4_k", "q6_k", "q8_0")[count % 3]
            count += 1
            blocks = random_blocks(rng, format, *parameter.shape, scale=2.0**-4)
            w, own = decoded(blocks, format), {"embed_tokens": "token_embd", "lm_head": "output"}.get(part)
            entry, own = (format, tuple(parameter.shape), blocks), own or NAMES[part]
        tensors[f"blk.{layer}.{own}.weight" if layer is not None else f"{own}.weight"] = entry
        state[name] = torch.from_numpy(np.ascontiguousarray(w))
    model.load_state_dict(state)
    metadata = {
        "general.architecture": "qwen3", "qwen3.context_length": 128, "qwen3.embedding_length": 256,
        "qwen3.feed_forward_length": 512, "qwen3.block_count": 2, "qwen3.attention.head_count": 4,
        "qwen3.attention.head_count_kv": 2, "qwen3.attention.key_length": 64,
        "qwen3.attention.layer_norm_rms_epsilon": 1e-6, "qwen3.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": [str(i) for i in range(97)],
    }  # fmt: skip
    write_gguf(folder / "tiny.gguf", metadata, tensors)
    return model, {"gguf_file": "tiny.gguf", "device_map": "aule"}


def float8(folder):
    """A Qwen 3 whose projections are float8_e4m3fn with a scale for each 128 x 128 weights."""
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SHAPE)).eval()
    tensors = {}
    for name, parameter in model.named_parameters():
        if "proj" not in name:
            tensors[name] = parameter.data
            continue
        n, k = parameter.shape
        parts = parameter.data.view(n // 128, 128, k // 128, 128)
        scale = parts.abs().amax((1, 3)) / 448
        q = (parts / scale[:, None, :, None]).to(torch.float8_e4m3fn)
        tensors[name], tensors[f"{name}_scale_inv"] = q.view(n, k), scale
        parameter.data.copy_((q.float() * scale[:, None, :, None]).view(n, k))
    model.save_pretrained(folder)
    safetensors.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    method = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
    return add_method(folder, model, method)


def mxfp4(folder):
    """A gpt-oss whose experts are MXFP4."""
    experts = dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=8, hidden_size=64, intermediate_size=96)
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**(SHAPE | experts), rope_parameters=rope)).eval()
    levels = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    levels, tensors = torch.cat((levels, -levels)), {}
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "sinks" in name:
            torch.nn.init.normal_(parameter, std=0.5)
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = parameter.data
            continue
        count, k, n = parameter.shape
        blocks = torch.randint(256, (count, n, k // 32, 16), dtype=torch.uint8)
        scales = torch.randint(118, 124, (count, n, k // 32), dtype=torch.uint8)
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        values = torch.stack((levels[(blocks & 15).long()], levels[(blocks >> 4).long()]), -1).flatten(-2)
        weight = (values * torch.exp2(scales.float() - 127)[..., None]).flatten(-2)
        parameter.data.copy_(weight.transpose(1, 2))
    model.save_pretrained(folder)
    safetensors.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return add_method(folder, model, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})


def add_method(folder, model, method):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": method}))
    return model, {"device_map": "aule"}


@pytest.mark.parametrize("strategy", ["plain", "lookup"])
@pytest.mark.parametrize("make", [gguf, float8, mxfp4], ids=lambda f: f.__name__)
def test_packed_models(make, strategy, tmp_path):
    """Logits of the packed model differ from those of its numbers by 1e-4 of the largest, as test/integrations says."""
    reference, options = make(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, **options)
    packed = [p for p in model.parameters() if p.dtype in (torch.uint8, torch.float8_e4m3fn)]
    assert packed and {p.device.type for p in model.parameters()} == {"aule"}
    held = {p.data_ptr() for p in packed}
    runner = llm.Runner(model, max_batch=2, max_len=64, strategy=llm.PromptLookup(3) if strategy == "lookup" else None)
    assert runner.engine.fusions.counts["attention"] == 2 and not runner.engine.fusions.left_out
    texts = prompts(11, 20)
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=10)):
        with torch.no_grad():
            logits = reference(input_ids=torch.tensor([text + answer])).logits[0, len(text) - 1 : -1]
        chosen = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
        assert (logits.amax(1) - chosen).max() <= 2e-4 * logits.abs().max()
    assert {p.data_ptr() for p in packed} == held  # nothing was unpacked
    assert runner._recorder._graphs


def bits_and_bytes():
    pytest.importorskip("bitsandbytes", reason=HOW)
    quantization = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )  # fmt: skip
    return torch.float32, {"quantization_config": quantization}, None


def hqq(bits):
    pytest.importorskip("hqq", reason=HOW)
    return torch.float32, {"quantization_config": transformers.HqqConfig(nbits=bits, group_size=64)}, None


def torchao(bits):
    package = pytest.importorskip("torchao.quantization", reason=HOW)
    if bits == 8:
        config = package.Int8WeightOnlyConfig()
    else:
        config = package.Int4WeightOnlyConfig(group_size=32, int4_packing_format="plain_int32")
    return torch.bfloat16, {}, lambda model: package.quantize_(model, config)


HOW = "is not installed: pip install torch_aule[nightly]"
PACKAGES = {
    "nf4": bits_and_bytes, "hqq-4": lambda: hqq(4), "hqq-8": lambda: hqq(8), "int4": lambda: torchao(4),
    "int8": lambda: torchao(8),
}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_weights_of_packages(package, tmp_path):
    """Their own layers decide what the likeliest token is: bfloat16 rounds sums in two orders, float32 hardly."""
    dtype, options, change = PACKAGES[package]()
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype, device_map="aule", **options)
    if change is not None:
        change(model)
    runner = llm.Runner(model, max_batch=2, max_len=64)
    assert runner.engine.fusions.counts == {"rms_norm": 5, "gated_mlp": 2, "attention": 2, "layer": 2}
    texts = prompts(9, 20)
    for text, answer in zip(texts, runner.generate(texts, max_new_tokens=8)):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([text + answer], device="aule")).logits[0, len(text) - 1 : -1]
        logits = logits.float().cpu()
        chosen = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
        assert (logits.amax(1) - chosen).max() <= (2e-4 if dtype == torch.float32 else 0.1) * logits.abs().max()
    assert runner._recorder._graphs
