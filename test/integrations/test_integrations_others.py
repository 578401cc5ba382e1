"""Other packages on the device, with tiny models: lightning, sentence-transformers, ultralytics, bitsandbytes and more.

They are no requirement of the tests (test_integrations_stubs.py has stand-ins for them): what is not installed is left
out. `pip install torch_aule[nightly]` installs them, and .github/workflows/nightly.yml runs this file.
"""

import copy
import os

import numpy
import pytest
import torch

from torch_aule import integrations

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA the packages choose it, and the hooks stay off"
)


def package(name):
    """The package, or a skip that says how it comes to be there."""
    what = "gptqmodel optimum" if name in ("gptqmodel", "optimum") else "torch_aule[nightly]"
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {what}")


@pytest.fixture
def not_strict_either():
    with torch.aule.strict(False):
        yield


@pytest.mark.parametrize("accelerator", ["auto", "gpu", "aule"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_lightning_trains(device, tmp_path, accelerator, precision):
    lightning = package("lightning")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
            self.seen = []

        def training_step(self, batch, number):
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.layers(x), y)
            self.seen.append((x.device.type, self.device.type, loss.item()))
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    x = torch.randn(64, 8)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
    model = Model()
    trainer = lightning.Trainer(
        accelerator=accelerator, devices=1, precision=precision, max_epochs=8, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, data)
    assert {seen[:2] for seen in model.seen} == {("aule", "aule")}
    losses = [loss for *_, loss in model.seen]
    assert sum(losses[-4:]) < sum(losses[:4])
    fabric = lightning.Fabric(accelerator=accelerator, devices=1, precision=precision)
    module, optimizer = fabric.setup(torch.nn.Linear(4, 2), torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1))
    assert fabric.device.type == "aule" == next(module.parameters()).device.type


def test_sentences_are_embedded_on_the_device(device, tmp_path):
    sentence_transformers = package("sentence_transformers")
    transformers = package("transformers")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]))
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    folder = tmp_path / "model"
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts = ["a b c", "d d", "c a b d"]
    ours = sentence_transformers.SentenceTransformer(str(folder))
    assert ours.device.type == "aule"
    reference = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert reference.device.type == "cpu"
    torch.testing.assert_close(
        torch.as_tensor(ours.encode(texts)), torch.as_tensor(reference.encode(texts)), rtol=1e-4, atol=1e-4
    )


def test_yolo_predicts_on_the_device(device, tmp_path, not_strict_either, monkeypatch):
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("YOLO_OFFLINE", "true")
    ultralytics = package("ultralytics")
    image = numpy.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=numpy.uint8)
    for wish in (None, "aule", "aule:0", 0):
        model = ultralytics.YOLO("yolov8n.yaml")
        (found,) = model.predict(image, imgsz=64, device=wish, verbose=False)
        assert model.predictor.device.type == "aule" == found.boxes.data.device.type
    model = ultralytics.YOLO("yolov8n.yaml")
    model.predict(image, imgsz=64, device="cpu", verbose=False)
    assert model.predictor.device.type == "cpu"


def test_their_hooks_are_applied():
    """In the versions that are installed; what is not there is pending."""
    for name in ("lightning", "sentence_transformers", "ultralytics"):
        rows = [row for row in integrations.status() if row.package == name]
        assert rows and all(row.state in ("applied", "pending") for row in rows), rows
    assert os.environ.get("TORCH_AULE_INTEGRATIONS", "") == ""


@pytest.fixture
def saved_llama(tmp_path):
    """A tiny Llama of random weights, in a folder."""
    transformers = package("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def in_4_bits(folder, kind="nf4", **options):
    transformers = package("transformers")
    quantization = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32, llm_int8_skip_modules=[],
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_pretrained(folder, quantization_config=quantization, **options)


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_bitsandbytes_models(device, saved_llama, kind):
    """Packed weights are bitsandbytes' own numbers, and the model gives what these numbers give on the CPU."""
    bitsandbytes, transformers = package("bitsandbytes"), package("transformers")
    there = in_4_bits(saved_llama, kind)
    assert there.device.type == "aule"
    here = transformers.AutoModelForCausalLM.from_pretrained(saved_llama, dtype=torch.float32)
    packed = {name: m for name, m in there.named_modules() if isinstance(m, bitsandbytes.nn.Linear4bit)}
    assert len(packed) >= 14
    functional = bitsandbytes.functional
    for name, module in packed.items():
        weight, state = module.weight.data, module.weight.quant_state
        numbers = functional.dequantize_4bit(weight, state).cpu()
        on_cpu = functional.QuantState(
            absmax=functional.dequantize_blockwise(state.absmax.cpu(), _on_cpu(state.state2)) + state.offset.cpu(),
            shape=state.shape, code=state.code.cpu(), blocksize=state.blocksize, quant_type=kind, dtype=state.dtype,
        )  # fmt: skip
        assert torch.equal(numbers, functional.dequantize_4bit(weight.cpu(), on_cpu))
        here.get_submodule(name).weight.data.copy_(numbers)
    ids = torch.randint(64, (2, 9))
    with torch.no_grad():
        expected, actual = here(ids).logits, there(ids.to("aule")).logits
    assert (actual.cpu() - expected).abs().max() <= 1e-4 * expected.abs().max()


def _on_cpu(state):
    state = copy.copy(state)
    state.absmax, state.code = state.absmax.cpu(), state.code.cpu()
    return state


def test_qlora_learns_as_on_the_cpu(device, saved_llama, tmp_path):
    """50 steps of adapters over 4-bit weights, then a checkpoint that is gone on from, and a merge."""
    package("bitsandbytes")
    peft, transformers = package("peft"), package("transformers")
    data = [{"input_ids": row, "labels": row} for row in torch.randint(1, 64, (32, 12)).tolist()]
    losses = {}
    for place in ("cpu", "aule"):
        transformers.set_seed(3)
        model = in_4_bits(saved_llama, device_map=place)
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
        model = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules="all-linear", lora_dropout=0.0))
        arguments = transformers.TrainingArguments(
            tmp_path / place, max_steps=50, per_device_train_batch_size=4, learning_rate=1e-2, logging_steps=1,
            save_steps=25, report_to=[], use_cpu=place == "cpu", seed=3, data_seed=3,
        )  # fmt: skip
        trainer = transformers.Trainer(model, arguments, train_dataset=data)
        trainer.train()
        losses[place] = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        if place == "aule":
            assert model.device.type == "aule"
            trainer.train(resume_from_checkpoint=str(tmp_path / place / "checkpoint-25"))
            again = [row["loss"] for row in trainer.state.log_history if "loss" in row]
            assert again[-1] == pytest.approx(losses[place][-1], abs=1e-2)
            merged = model.merge_and_unload()
            ids = torch.randint(64, (1, 5), device="aule")
            assert merged(ids).logits.isfinite().all()
    assert losses["cpu"][-1] < losses["cpu"][0] - 0.2
    assert losses["aule"] == pytest.approx(losses["cpu"], abs=1e-2)


@pytest.mark.parametrize("name", ["AdamW8bit", "Lion8bit", "AdEMAMix8bit", "SGD8bit", "RMSprop8bit", "Adagrad8bit"])
def test_optimizers_with_states_of_a_byte(device, name):
    """They learn what the same optimizer with float32 states learns."""
    bitsandbytes = package("bitsandbytes")
    losses = {}
    for kind in (name, name.removesuffix("8bit")):
        torch.manual_seed(5)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 64)).to("aule")
        options = {"momentum": 0.9} if "SGD" in name else {}
        optimizer = getattr(bitsandbytes.optim, kind)(model.parameters(), lr=1e-2 if "SGD" in name else 1e-3, **options)
        x = torch.randn(256, 64, device="aule")
        seen = []
        for _ in range(30):
            loss = torch.nn.functional.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        losses[kind] = seen
    eight, whole = losses.values()
    assert whole[-1] < whole[0] and abs(eight[-1] - whole[-1]) <= 0.1 * (whole[0] - whole[-1])


def test_formats_are_those_of_gguf(device):
    """Every weight has the bits that the package gguf gives."""
    gguf = package("gguf")
    from quantized_reference import FORMATS, decoded, random_blocks
    from torch_aule import quantized

    rng = numpy.random.default_rng(torch.randint(2**31, ()).item())
    for name, form in FORMATS.items():
        blocks = random_blocks(rng, name, 5, 4 * form.values)
        expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()])
        packed = quantized.pack(torch.from_numpy(blocks), name).to("aule")
        assert numpy.array_equal(decoded(blocks, name), expected)
        assert numpy.array_equal(quantized.dequantize(packed, name, 4 * form.values).cpu().numpy(), expected)


@pytest.mark.parametrize("name", ["int4", "int8", "int8 groups", "int8 dynamic"])
@pytest.mark.parametrize("compiled", [False, True])
def test_torchao_quantizes_on_the_device(device, name, compiled):
    """Weights have the CPU's bits, and results are those of the weights as numbers; nothing runs on the CPU."""
    quantization = package("torchao.quantization")
    from torchao.quantization.granularity import PerGroup

    config = {
        "int4": lambda: quantization.Int4WeightOnlyConfig(group_size=32, int4_packing_format="plain_int32"),
        "int8": quantization.Int8WeightOnlyConfig,
        "int8 groups": lambda: quantization.Int8WeightOnlyConfig(granularity=PerGroup(64)),
        "int8 dynamic": quantization.Int8DynamicActivationInt8WeightConfig,
    }[name]()
    layers = torch.nn.Sequential(torch.nn.Linear(256, 128), torch.nn.SiLU(), torch.nn.Linear(128, 64)).bfloat16()
    model = copy.deepcopy(layers).to("aule")
    quantization.quantize_(model, config)
    x = torch.randn(5, 256, dtype=torch.bfloat16)
    numbers = copy.deepcopy(layers)
    with torch.no_grad():
        for layer, own in ((model[0], numbers[0]), (model[2], numbers[2])):
            weight = layer.weight
            if name == "int4":
                q = torch.stack([weight.qdata.cpu() >> shift & 15 for shift in range(0, 32, 4)], 2).flatten(1)
                scale, zero = (t.cpu().t().repeat_interleave(32, 1) for t in (weight.scale, weight.zero_point))
                own.weight.copy_(scale.float() * (q - zero))
            else:
                own.weight.copy_(weight.dequantize(torch.float32).cpu())
        expected = numbers.float()(x.float())
        actual = (torch.compile(model) if compiled else model)(x.to("aule")).cpu().float()
    # bfloat16 rounds x, both layers' results and, of "int8 dynamic", integers stand for activations: 1 / 254 of the
    # largest of a row each.
    assert (actual - expected).abs().max() <= (0.05 if name == "int8 dynamic" else 0.02) * expected.abs().max()


@pytest.mark.parametrize("strategy", [{"strategy": "group", "group_size": 64}, {"strategy": "channel"}], ids=str)
def test_compressed_tensors_stay_packed(device, tmp_path, strategy):
    """A tiny model of 4-bit weights: loaded packed, run packed, and the CPU's logits of the same file."""
    quantization = package("compressed_tensors.quantization")
    transformers = package("transformers")
    from compressed_tensors.compressors import ModelCompressor

    sizes = {"vocab_size": 96, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}  # fmt: skip
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).bfloat16()
    weights = quantization.QuantizationArgs(num_bits=4, type="int", symmetric=True, **strategy)
    scheme = quantization.QuantizationScheme(targets=["Linear"], weights=weights)
    config = quantization.QuantizationConfig(
        config_groups={"group_0": scheme}, ignore=["lm_head"], format="pack-quantized"
    )
    quantization.apply_quantization_config(model, config)
    for layer in model.modules():
        if hasattr(layer, "weight_scale"):
            rows = layer.weight.data.float().unflatten(1, (layer.weight_scale.shape[1], -1))
            layer.weight_scale.data = (rows.abs().amax(2) / 7.5).to(layer.weight_scale)
    compressor = ModelCompressor(quantization_config=config)
    compressor.compress_model(model)
    model.save_pretrained(tmp_path)
    compressor.update_config(tmp_path)
    ids = torch.randint(96, (1, 11))
    logits = {}
    for where in ("aule", "cpu"):
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map=where, dtype=torch.bfloat16)
        with torch.no_grad():
            logits[where] = model(ids.to(where)).logits.cpu().float()
        packed = [name for name, _ in model.named_parameters() if name.endswith("weight_packed")]
        assert len(packed) == (14 if where == "aule" else 0)
    assert (logits["aule"] - logits["cpu"]).abs().max() <= 0.03 * logits["cpu"].abs().max()  # bfloat16 in two orders


def gptq_or_awq(folder, method, bits, fmt, ordered, biased):
    """A tiny checkpoint of random numbers: all that gptqmodel's kernels and transformers read."""
    transformers = package("transformers")
    from safetensors.torch import save_file

    name = "Qwen2" if biased else "Llama"
    sizes = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
             "tie_word_embeddings": False}  # fmt: skip
    config = getattr(transformers, f"{name}Config")(**sizes)
    state = getattr(transformers, f"{name}ForCausalLM")(config).half().state_dict()
    for key in [key for key in state if key.endswith("proj.weight")]:
        (n, k), prefix, word = state.pop(key).shape, key.removesuffix("weight"), 32 // bits
        groups = k // 32

        def words(*sizes):
            return torch.randint(-(2**31), 2**31, sizes, dtype=torch.int64).to(torch.int32)

        state[prefix + "qweight"] = words(k // word, n) if method == "gptq" else words(k, n // word)
        state[prefix + "scales"] = (torch.rand(groups, n) / 40 * 2.0 ** (4 - bits)).half()
        if method == "awq":
            state[prefix + "qzeros"] = words(groups, n // word)
            continue
        zeros = torch.randint(2**bits - 1, (groups, n // word, word))  # none is the largest, which version 1 has not
        state[prefix + "qzeros"] = (zeros << torch.arange(0, 32, bits)).sum(2).to(torch.int32)
        index = torch.arange(k, dtype=torch.int32) // 32
        state[prefix + "g_idx"] = index[torch.randperm(k)] if ordered else index
    config.quantization_config = {"quant_method": method, "bits": bits, "group_size": 32, "desc_act": ordered,
                                  "sym": False, "version": "gemm", "zero_point": True}  # fmt: skip
    if method == "gptq":
        config.quantization_config.update(format=fmt, checkpoint_format=fmt)
    config.architectures, config.dtype = [f"{name}ForCausalLM"], "float16"
    config.save_pretrained(folder)
    save_file({key: value.contiguous() for key, value in state.items()}, folder / "model.safetensors", {"format": "pt"})
    return state


@pytest.mark.parametrize(
    "method, bits, fmt, ordered, biased",
    [
        ("gptq", 4, "gptq", False, True),
        ("gptq", 4, "gptq_v2", True, False),
        ("gptq", 4, "gptq", True, False),
        ("gptq", 8, "gptq", True, True),
        ("awq", 4, "", False, True),
        ("awq", 8, "", False, False),
    ],
)
def test_gptq_and_awq_stay_packed(device, tmp_path, method, bits, fmt, ordered, biased):
    """Weights have the bits of gptqmodel's torch code, the model gives what they give, and saves what it has loaded."""
    package("gptqmodel"), package("optimum")
    transformers = package("transformers")
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
    from safetensors.torch import load_file

    from torch_aule import quantized

    saved = gptq_or_awq(tmp_path / "a", method, bits, fmt, ordered, biased)
    there = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "a", dtype=torch.float32)
    assert there.device.type == "aule"
    plain = transformers.AutoConfig.from_pretrained(tmp_path / "a")
    del plain.quantization_config
    here = type(there)(plain).float()
    here.load_state_dict({key: value for key, value in saved.items() if "proj.q" not in key}, strict=False)
    packed = {name: m for name, m in there.named_modules() if "_aule_rows" in m._buffers}
    assert len(packed) == 14 and not any("qweight" in name for name, _ in there.named_buffers())
    for name, module in packed.items():
        # The package's own numbers, of scales in float32: then it rounds once, as the kernels do.
        if method == "gptq":
            own = copy.deepcopy(module).cpu()
            own.scales = own.scales.float()
            expected = type(own).dequantize_weight(own).t()
        else:
            qweight, qzeros = (saved[f"{name}.{part}"] for part in ("qweight", "qzeros"))
            expected = dequantize_gemm(qweight, qzeros, saved[f"{name}.scales"].float(), bits, 32).t()
        scales, order = [module.scales.t(), module._buffers["_aule_zeros"]], module._buffers["_aule_order"]
        numbers = quantized.dequantize(
            module._buffers["_aule_rows"], f"int{bits}", module.in_features, scales=scales, group=32
        ).cpu()
        assert (order is None) == (not ordered)
        assert torch.equal(numbers if order is None else numbers[:, order.cpu().argsort()], expected)
        here.get_submodule(name).weight.data.copy_(expected)
    ids = torch.randint(96, (2, 9))
    embedded = here.get_input_embeddings()(ids).detach()
    results = {}
    for where, model in {"cpu": here, "aule": there}.items():
        leaf = embedded.clone().to(where).requires_grad_()
        logits = model(inputs_embeds=leaf).logits
        logits.square().sum().backward()
        results[where] = logits.detach().cpu(), leaf.grad.cpu()
    for expected, actual in zip(results["cpu"], results["aule"]):
        assert (actual - expected).abs().max() <= 1e-4 * expected.abs().max()
    with torch.no_grad():
        compiled = torch.compile(there)(ids.to("aule")).logits.cpu()
    assert (compiled - results["cpu"][0]).abs().max() <= 1e-4 * results["cpu"][0].abs().max()
    there.save_pretrained(tmp_path / "b")
    again = load_file(tmp_path / "b" / "model.safetensors")
    parts = "qweight", "qzeros", "scales", "g_idx"
    names = {name for name in saved if name.endswith(parts)}
    assert names == {name for name in again if name.endswith(parts)}
    assert all(torch.equal(again[name], saved[name]) for name in names)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "b", dtype=torch.float32, device_map="aule")
    with torch.no_grad():
        assert torch.equal(loaded(ids.to("aule")).logits, there(ids.to("aule")).logits)


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_other_bits_of_gptqmodel_run_by_its_own_operators(device, tmp_path, method):
    package("gptqmodel"), package("optimum")
    transformers = package("transformers")
    gptq_or_awq(tmp_path, method, 2, "gptq", False, False)
    logits, ids = {}, torch.randint(96, (2, 9))
    for where in ("cpu", "aule"):
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float16, device_map=where)
        with torch.no_grad():
            logits[where] = model(ids.to(where)).logits.cpu().float()
    assert (logits["aule"] - logits["cpu"]).abs().max() <= 0.02 * logits["cpu"].abs().max()  # float16 throughout


@pytest.mark.parametrize("bits, axis", [(4, 1), (8, 1), (4, 0), (3, 1), (2, 1)])
def test_hqq_quantizes_on_the_device(device, saved_llama, bits, axis):
    package("hqq")
    transformers = package("transformers")
    from hqq.core.quantize import HQQLinear, Quantizer

    from torch_aule import quantized

    config = transformers.HqqConfig(nbits=bits, group_size=64, axis=axis)
    there = transformers.AutoModelForCausalLM.from_pretrained(saved_llama, quantization_config=config)
    here = transformers.AutoModelForCausalLM.from_pretrained(saved_llama, dtype=torch.float32)
    assert there.device.type == "aule"
    layers = {name: module for name, module in there.named_modules() if isinstance(module, HQQLinear)}
    assert len(layers) == 14
    for name, module in layers.items():
        meta = {key: value.cpu() if isinstance(value, torch.Tensor) else value for key, value in module.meta.items()}
        expected = Quantizer.dequantize(module.W_q.cpu(), meta)
        assert ("_aule_rows" in module._buffers) == (bits in (4, 8) and axis == 1)
        if "_aule_rows" in module._buffers:
            scales = [module._buffers["_aule_scales"], module._buffers["_aule_zeros"]]
            numbers = quantized.dequantize(
                module._buffers["_aule_rows"], f"int{bits}", module.in_features, scales=scales, group=64
            ).cpu()
            # Of 8 bits, zero points from which 128 is taken may be rounded: to 2^-18, and q - zero of both to 2^-17.
            bound = meta["scale"].max() * 2.0**-15 + expected.abs() * 2.0**-22
            assert torch.equal(numbers, expected) if bits == 4 else ((numbers - expected).abs() <= bound).all()
        here.get_submodule(name).weight.data.copy_(expected)
    ids = torch.randint(64, (2, 9))
    with torch.no_grad():
        expected = here(ids).logits
        for model in (there, torch.compile(there)):
            assert (model(ids.to("aule")).logits.cpu() - expected).abs().max() <= 1e-4 * expected.abs().max()
