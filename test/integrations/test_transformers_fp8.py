"""Fine-grained float8 in transformers: weights stay float8 on the device, and give what the same numbers give."""

import json

import pytest
import torch

pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.integrations.finegrained_fp8")
safetensors = pytest.importorskip("safetensors.torch")

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA transformers chooses it, and the hooks stay off"
)

BLOCK = 128
SIZES = {
    "vocab_size": 96, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "head_dim": 64,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}


def in_blocks(weight, block):
    """float8 of a weight, a scale for each block or one for all, and the numbers that these are."""
    n, k = weight.shape
    rows, columns = block or (n, k)
    parts = weight.float().view(n // rows, rows, k // columns, columns)
    scale = parts.abs().amax((1, 3)) / 448
    q = (parts / scale[:, None, :, None]).view(n, k).to(torch.float8_e4m3fn)
    numbers = (q.float().view(parts.shape) * scale[:, None, :, None]).view(n, k)
    return q, scale if block else scale.reshape(()), numbers


def saved(folder, experts, block, **more):
    """A tiny model whose projections are float8 in a folder, and the dense model of the same numbers."""
    name = "Qwen3Moe" if experts else "Qwen3"
    config = getattr(transformers, f"{name}Config")(**SIZES, **(EXPERTS if experts else {}))
    dense = getattr(transformers, f"{name}ForCausalLM")(config)
    dense.save_pretrained(folder)
    path, tensors = folder / "model.safetensors", {}
    loaded = safetensors.load_file(path)
    for key, weight in list(loaded.items()):
        if weight.dim() == 2 and "proj" in key:
            tensors[key], tensors[f"{key}_scale_inv"], loaded[key] = in_blocks(weight, block)
    safetensors.save_file(loaded, path, {"format": "pt"})
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu")
    safetensors.save_file(loaded | tensors, path, {"format": "pt"})
    written = json.loads((folder / "config.json").read_text())
    written["quantization_config"] = {
        "quant_method": "fp8", "weight_block_size": block, "activation_scheme": "dynamic",
        "modules_to_not_convert": ["lm_head"],
    } | more  # fmt: skip
    (folder / "config.json").write_text(json.dumps(written))
    return reference


@pytest.mark.parametrize("experts, block", [(False, [128, 128]), (False, None), (True, [128, 128])])
def test_models_stay_float8(tmp_path, device, experts, block):
    reference = saved(tmp_path, experts, block)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert {p.device.type for p in model.parameters()} == {"aule"}
    projections = [p for name, p in model.named_parameters() if "proj" in name and "scale" not in name]
    assert projections and {p.dtype for p in projections} == {torch.float8_e4m3fn}
    for shape in ((1, 1), (2, 11)):
        ids = torch.randint(96, shape)
        with torch.no_grad():
            expected, actual = reference(ids).logits, model(ids.to(device)).logits.cpu()
        assert (actual - expected).abs().max() <= 1e-4 * expected.abs().max()  # as of GGUF files: float32 throughout
    tokens = model.generate(ids[:1].to(device), max_new_tokens=5, do_sample=False).cpu()
    with torch.no_grad():
        logits = reference(tokens).logits[0, 10:-1]
    assert (logits.amax(1) - logits.gather(1, tokens[0, 11:, None])[:, 0]).max() <= 2e-4 * logits.abs().max()


@pytest.mark.parametrize("experts", [False, True])
def test_gradients_to_activations(tmp_path, device, experts):
    reference = saved(tmp_path, experts, [128, 128])
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    x = torch.randn(1, 7, SIZES["hidden_size"])
    leaf, own = x.clone().requires_grad_(), x.to(device).requires_grad_()
    weight = torch.randn(1, 7, SIZES["vocab_size"])
    (reference(inputs_embeds=leaf).logits * weight).sum().backward()
    (model(inputs_embeds=own).logits * weight.to(device)).sum().backward()
    assert (own.grad.cpu() - leaf.grad).abs().max() <= 1e-4 * leaf.grad.abs().max()


def test_dense_when_asked(tmp_path, device):
    saved(tmp_path, False, [128, 128], dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16, device_map="aule")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
