"""MXFP4 experts of gpt-oss in transformers: they stay packed on the device, and give what the same numbers give."""

import json

import pytest
import torch

pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")
mxfp4 = pytest.importorskip("transformers.integrations.mxfp4")
safetensors = pytest.importorskip("safetensors.torch")

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA transformers chooses it, and the hooks stay off"
)

SIZES = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2,
    "max_position_embeddings": 64, "sliding_window": 8,
}  # fmt: skip
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def numbers(blocks, scales):
    """[experts, k, n] of blocks [experts, n, groups, 16], whose bytes have the first value in the low half."""
    values = torch.stack((E2M1[(blocks & 15).long()], E2M1[(blocks >> 4).long()]), -1).flatten(-2)
    return (values * torch.exp2(scales.float() - 127)[..., None]).flatten(-2).transpose(1, 2).contiguous()


@pytest.fixture
def saved(tmp_path):
    """A tiny model with packed experts in a folder, and the dense model of the same numbers on the CPU."""
    dense = transformers.GptOssForCausalLM(transformers.GptOssConfig(**SIZES))
    for name, parameter in dense.named_parameters():
        if name.endswith("bias") or "sinks" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    dense.save_pretrained(tmp_path)
    path, packed = tmp_path / "model.safetensors", {}
    loaded = safetensors.load_file(path)
    for name, weight in list(loaded.items()):
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, k, n = weight.shape
            blocks = torch.randint(256, (experts, n, k // 32, 16), dtype=torch.uint8)
            scales = torch.randint(118, 124, (experts, n, k // 32), dtype=torch.uint8)
            packed |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
            loaded[name] = numbers(blocks, scales)
    safetensors.save_file(loaded, path, {"format": "pt"})
    reference = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, device_map="cpu")
    kept = {name: t for name, t in loaded.items() if not name.endswith(("gate_up_proj", "down_proj"))}
    safetensors.save_file(kept | packed, path, {"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path, reference, packed


def experts_of(model):
    return [m for m in model.modules() if isinstance(m, mxfp4.Mxfp4GptOssExperts)]


def test_experts_stay_packed(saved, device):
    folder, reference, packed = saved
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    experts = experts_of(model)
    assert len(experts) == SIZES["num_hidden_layers"]
    weights = [getattr(m, name) for m in experts for name in ("gate_up_proj", "down_proj")]
    assert {(w.dtype, w.device.type) for w in weights} == {(torch.uint8, "aule")}
    rows = sum(w.shape[0] * w.shape[1] for w in weights)
    assert sum(w.nbytes for w in weights) <= sum(t.nbytes for t in packed.values()) + 15 * rows
    for shape in ((1, 1), (2, 11)):
        ids = torch.randint(96, shape)
        with torch.no_grad():
            expected, actual = reference(ids).logits, model(ids.to(device)).logits.cpu()
        assert (actual - expected).abs().max() <= 1e-4 * expected.abs().max()  # as of GGUF files: float32 throughout
    half = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map="aule")
    tokens = half.generate(ids[:1].to(device), max_new_tokens=3, do_sample=False)
    assert tokens.shape == (1, 14) and half.lm_head.weight.dtype == torch.bfloat16


def test_gradients_to_activations(saved, device):
    """As the dense experts of the same numbers have them: to rows, and to the router's weights."""
    folder, reference, _ = saved
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    layer, known = model.model.layers[0].mlp, reference.model.layers[0].mlp
    x, grad = torch.randn(1, 7, SIZES["hidden_size"]), torch.randn(1, 7, SIZES["hidden_size"])
    there, here = x.to(device).requires_grad_(), x.clone().requires_grad_()
    layer(there)[0].backward(grad.to(device))
    known(here)[0].backward(grad)
    for actual, expected in ((there.grad, here.grad), (layer.router.weight.grad, known.router.weight.grad)):
        assert (actual.cpu() - expected).norm() <= 1e-5 * expected.norm()


def test_a_saved_model_has_the_checkpoints_bits(saved, tmp_path, device):
    folder, _, packed = saved
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.save_pretrained(tmp_path / "again")
    written = safetensors.load_file(tmp_path / "again" / "model.safetensors")
    for name, tensor in packed.items():
        assert torch.equal(written[name], tensor), name


def test_dense_when_asked(saved, device):
    folder, reference, _ = saved
    config = transformers.Mxfp4Config(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, device_map="aule", quantization_config=config
    )
    assert not experts_of(model) and {p.dtype for p in model.parameters()} == {torch.bfloat16}
