"""accelerate, transformers, safetensors, peft and diffusers choose and use the device, on tiny random models."""

import contextlib
import copy
import importlib
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import assert_close, check_program, without

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")
pytest.importorskip("peft")

import safetensors.torch  # noqa: E402
from safetensors import safe_open  # noqa: E402
from transformers import Trainer, TrainingArguments, pipeline  # noqa: E402

from torch_aule import integrations  # noqa: E402

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA the packages choose it, and the hooks stay off"
)
VOCABULARY = 64


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No variable chooses the device, and accelerate forgets the device of the test before."""
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE", raising=False)
    accelerate.state.AcceleratorState._reset_state(True)
    yield
    accelerate.state.AcceleratorState._reset_state(True)


def language_model(dropout=0.0):
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, attention_dropout=dropout, initializer_range=0.2,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def sentences(rows=16, length=9):
    return [{"input_ids": row, "labels": row} for row in torch.randint(3, VOCABULARY, (rows, length))]


def trainer(model, data, folder, **arguments):
    arguments = {"max_steps": 5, "save_strategy": "no", **arguments}
    options = TrainingArguments(
        str(folder), per_device_train_batch_size=4, logging_steps=1, report_to=[], disable_tqdm=True,
        learning_rate=3e-3, **arguments,
    )  # fmt: skip
    return Trainer(copy.deepcopy(model), options, train_dataset=data)


def losses(trained):
    return [entry["loss"] for entry in trained.state.log_history if "loss" in entry]


def test_trainer_trains_on_the_device(device, tmp_path):
    model, data = language_model(), sentences()
    on_cpu = trainer(model, data, tmp_path, use_cpu=True)
    on_cpu.train()
    assert on_cpu.args.device.type == "cpu" == next(on_cpu.model.parameters()).device.type
    torch.aule.reset_fallback_report()
    ours = trainer(model, data, tmp_path)
    ours.train()
    assert ours.args.device.type == "aule" == next(ours.model.parameters()).device.type
    assert not torch.aule.fallback_report()
    assert len(losses(ours)) == 5 and losses(on_cpu)[0] > 3
    np.testing.assert_allclose(losses(ours), losses(on_cpu), rtol=2e-5)
    for (name, a), (_, b) in zip(ours.model.named_parameters(), on_cpu.model.named_parameters()):
        assert_close(a.detach(), b.detach(), rtol=0, atol=2e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_trainer_with_mixed_precision(device, tmp_path, precision):
    model, data = language_model(), sentences()
    on_cpu = trainer(model, data, tmp_path, use_cpu=True)
    on_cpu.train()
    ours = trainer(model, data, tmp_path, **{precision: True})
    ours.train()
    assert next(ours.model.parameters()).device.type == "aule"
    assert ours.accelerator.mixed_precision == precision
    np.testing.assert_allclose(losses(ours), losses(on_cpu), rtol=2e-2 if precision == "bf16" else 3e-3)
    assert losses(ours) != losses(on_cpu), "computed in float32"


def test_the_user_s_variable_wins(device, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "cpu")
    assert accelerate.Accelerator().device.type == "cpu"
    assert trainer(language_model(), sentences(), tmp_path).args.device.type == "cpu"
    with pytest.raises(ValueError, match="bf16"):
        TrainingArguments(str(tmp_path), bf16=True, report_to=[])


def test_accelerator_device():
    assert accelerate.Accelerator().device == torch.device("aule:0")
    accelerate.state.AcceleratorState._reset_state(True)
    assert accelerate.Accelerator(cpu=True).device.type == "cpu"


@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_accelerator(device, precision):
    """Three steps against a loop without accelerate on the CPU."""
    model = torch.nn.Sequential(torch.nn.Linear(9, 33), torch.nn.GELU(), torch.nn.Linear(33, 3))
    data = torch.randn(12, 9)
    reference = copy.deepcopy(model)
    start = copy.deepcopy(model.state_dict())
    accelerator = accelerate.Accelerator(mixed_precision=precision)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=4))
    plain = torch.optim.SGD(reference.parameters(), lr=1.0)
    seen = []
    for batch, on_cpu in zip(loader, data.split(4)):
        assert batch.device.type == "aule"
        with accelerator.autocast():
            seen.append(torch.nn.functional.linear(batch, torch.ones(2, 9, device=batch.device)).dtype)
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        reference(on_cpu).square().mean().backward()
        plain.step()
        plain.zero_grad()
    assert set(seen) == {{"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]}
    if precision == "fp16":
        assert accelerator.scaler.is_enabled() and accelerator.scaler._device == "aule"
        assert accelerator.scaler.get_scale() == 65536 and not optimizer.step_was_skipped
    tolerance = {"no": 1e-6, "bf16": 6e-3, "fp16": 8e-4}[precision]
    learned = max((parameter - start[name]).abs().max().item() for name, parameter in reference.named_parameters())
    assert learned > 10 * tolerance
    for name, parameter in accelerator.unwrap_model(model).named_parameters():
        assert_close(parameter.detach(), reference.get_parameter(name).detach(), rtol=0, atol=tolerance)


def test_random_state_in_checkpoints(device, tmp_path):
    """A resumed run draws the dropout that the uninterrupted one drew."""
    model, data = language_model(dropout=0.3), sentences(32)
    whole = trainer(model, data, tmp_path / "a", save_strategy="steps", save_steps=3, max_steps=6)
    whole.train()
    resumed = trainer(model, data, tmp_path / "b", max_steps=6)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a/checkpoint-3"))
    assert (tmp_path / "a/checkpoint-3/random_state_aule_0.pt").is_file()
    assert losses(resumed)[-3:] == losses(whole)[-3:]
    (tmp_path / "a/checkpoint-3/random_state_aule_0.pt").unlink()
    forgetful = trainer(model, data, tmp_path / "c", max_steps=6)
    forgetful.train(resume_from_checkpoint=str(tmp_path / "a/checkpoint-3"))
    assert losses(forgetful)[-3:] != losses(whole)[-3:], "the test shows nothing: the dropout makes no difference"


def test_random_state_of_save_state(device, tmp_path):
    accelerator = accelerate.Accelerator()
    torch.rand(3, device=device)
    accelerator.save_state(str(tmp_path))
    expected = torch.rand(5, device=device).cpu()
    torch.aule.manual_seed(123)
    accelerator.load_state(str(tmp_path))
    assert torch.equal(torch.rand(5, device=device).cpu(), expected)


def test_device_map_auto(device, tmp_path, caplog):
    model = language_model()
    model.save_pretrained(tmp_path)
    tokens = torch.randint(3, VOCABULARY, (2, 7))
    options = {"max_new_tokens": 6, "do_sample": False}
    expected = model.generate(tokens, attention_mask=torch.ones_like(tokens), **options)
    with caplog.at_level(logging.WARNING, "accelerate"):
        loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path, device_map="auto")
    assert "is not available" not in caplog.text
    assert {parameter.device for parameter in loaded.parameters()} == {torch.device("aule:0")}
    on_device = tokens.to(device)
    actual = loaded.generate(on_device, attention_mask=torch.ones_like(on_device), **options)
    assert torch.equal(actual.cpu(), expected)
    # Between device and CPU, where the device may take less than the model.
    bytes_of_model = sum(p.numel() * p.element_size() for p in model.parameters())
    limits = {0: f"{bytes_of_model * 2 // 3 // 1024}KiB", "cpu": "1GiB"}
    split = transformers.LlamaForCausalLM.from_pretrained(tmp_path, device_map="auto", max_memory=limits)
    assert {0, "cpu"} == set(split.hf_device_map.values())
    actual = split.generate(on_device, attention_mask=torch.ones_like(on_device), **options)
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("kind", ["offloaded", "offloaded_static"])
def test_generation_with_an_offloaded_cache(device, kind):
    model = language_model()
    tokens = torch.randint(3, VOCABULARY, (2, 7))
    options = {"max_new_tokens": 12, "do_sample": False}
    expected = model.generate(tokens, attention_mask=torch.ones_like(tokens), **options)
    on_device = tokens.to(device)
    actual = model.to(device).generate(
        on_device, attention_mask=torch.ones_like(on_device), cache_implementation=kind, **options
    )
    assert torch.equal(actual.cpu(), expected)


def test_max_memory():
    found = accelerate.utils.get_max_memory()
    free, total = torch.aule.mem_get_info(0)
    assert list(found)[: torch.aule.device_count()] == list(range(torch.aule.device_count()))
    assert abs(found[0] - free) < 0.1 * total and found["cpu"] >= 0
    limits = {"cpu": "1GB", 0: "2KB"}
    assert accelerate.utils.get_max_memory(limits) == {0: 2000, "cpu": 10**9} and list(limits.values()) == [10**9, 2000]


def test_loading_takes_no_block_of_the_model_s_size(device):
    from transformers.modeling_utils import caching_allocator_warmup

    model = language_model()
    where = {name: device for name, _ in model.named_parameters()}

    def peak():
        torch.aule.reset_peak_memory_stats()
        before = torch.aule.memory_allocated()
        caching_allocator_warmup(model, where, None)
        return torch.aule.max_memory_allocated() - before

    assert peak() == 0
    caching_allocator_warmup(model, {name: "cpu" for name in where}, None)
    integrations.disable("transformers.warmup")
    try:
        from transformers.modeling_utils import caching_allocator_warmup

        assert peak() >= sum(p.numel() * 4 for p in model.parameters()), "without the hook"
    finally:
        integrations.enable("transformers.warmup")


@pytest.fixture(scope="module")
def classifier():
    """A text classifier with a tokenizer of words, on the CPU."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *"the cat sat on a mat and slept".split()])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=32, num_labels=3, initializer_range=0.3,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config).eval(), fast


def test_pipeline(device, classifier, tmp_path):
    model, tokenizer = classifier
    texts = ["the cat sat", "a mat and the cat slept on the mat"]

    def scores(where, which=None, **options):
        runner = pipeline(
            "text-classification", model=which or copy.deepcopy(model), tokenizer=tokenizer, top_k=None, **options
        )
        assert runner.device == torch.device(where) == runner.model.device, options
        return [[entry["score"] for entry in sorted(row, key=lambda e: e["label"])] for row in runner(texts)]

    expected = scores("cpu", device=-1)
    assert np.std(expected) > 0.01
    for options in ({"device": 0}, {}, {"device": "aule:0"}, {"device": torch.device("aule:0")}):
        np.testing.assert_allclose(scores("aule:0", **options), expected, rtol=1e-5)
    assert scores("cpu", device="cpu") == expected
    model.save_pretrained(tmp_path)
    mapped = type(model).from_pretrained(tmp_path, device_map={"": 0})
    np.testing.assert_allclose(scores("aule:0", mapped), expected, rtol=1e-5)


@pytest.mark.parametrize("where", ["aule", "aule:0", torch.device("aule"), torch.device("aule", 0), 0])
def test_safetensors(device, tmp_path, where):
    path = tmp_path / "weights.safetensors"
    tensors = {"a": torch.randn(5, 7), "b": torch.randn(33).to(torch.bfloat16), "c": torch.arange(9)}
    safetensors.torch.save_file({name: t.to(device) for name, t in tensors.items()}, path)
    loaded = safetensors.torch.load_file(path, device=where)
    assert loaded.keys() == tensors.keys()
    for name, tensor in loaded.items():
        assert tensor.device == torch.device("aule:0") and torch.equal(tensor.cpu(), tensors[name])
    with safe_open(path, framework="pt", device=where) as file:
        assert file.get_tensor("a").device == torch.device("aule:0")
        assert torch.equal(file.get_slice("a")[1:3].cpu(), tensors["a"][1:3])
    with safe_open(path, "pt", where) as file:
        assert isinstance(file, safe_open) and set(file.keys()) == tensors.keys()
    layer = torch.nn.Linear(7, 5, bias=False).to(device)
    safetensors.torch.save_model(layer, path)
    other = torch.nn.Linear(7, 5, bias=False).to(device)
    safetensors.torch.load_model(other, path, device=where)
    assert torch.equal(other.weight.cpu(), layer.weight.cpu())


def test_safetensors_elsewhere(tmp_path):
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file({"a": torch.ones(3)}, path)
    for where in ("cpu", torch.device("cpu")):
        assert safetensors.torch.load_file(path, device=where)["a"].device.type == "cpu"
    assert safetensors.torch.load_file(path)["a"].device.type == "cpu"
    for where in ("aule:77", "aula"):
        with pytest.raises(Exception, match="aule:77|aula|77|invalid|device"):
            safetensors.torch.load_file(path, device=where)


def test_lora(device, tmp_path):
    """Train, save and load an adapter on the device; the CPU does the same."""
    from peft import LoraConfig, PeftModel, get_peft_model

    base, batch = language_model(), torch.stack([row["input_ids"] for row in sentences(4)])
    results = {}
    for where in ("cpu", "aule"):
        torch.manual_seed(5)
        model = get_peft_model(copy.deepcopy(base), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
        model.to(where)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
        for _ in range(3):
            loss = model(input_ids=batch.to(where), labels=batch.to(where)).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.save_pretrained(tmp_path / where)
        loaded = PeftModel.from_pretrained(copy.deepcopy(base).to(where), tmp_path / where).eval()
        assert {parameter.device.type for parameter in loaded.parameters()} == {where}
        with torch.no_grad():
            results[where] = loss.detach().cpu(), loaded(input_ids=batch.to(where)).logits.cpu()
            kept = model.eval()(input_ids=batch.to(where)).logits.cpu()
        assert torch.equal(results[where][1], kept)
        assert (kept - base(input_ids=batch).logits).abs().max() > 1e-3, "the adapter does something"
    assert_close(results["aule"], results["cpu"], rtol=1e-4, atol=1e-4)


def test_grouped_queries_are_not_repeated(device, monkeypatch):
    """With a mask, too: transformers then passes enable_gqa to the fused kernels instead of copying keys and values."""
    from transformers.integrations import sdpa_attention

    asked = []
    own = torch.nn.functional.scaled_dot_product_attention

    def record(query, key, value, **options):
        asked.append((query.shape[1], key.shape[1], options.get("enable_gqa"), options.get("attn_mask") is not None))
        return own(query, key, value, **options)

    model, tokens = language_model().eval(), torch.randint(3, VOCABULARY, (2, 7))
    mask = torch.ones_like(tokens)
    mask[1, :3] = 0
    expected = model(input_ids=tokens, attention_mask=mask).logits[mask.bool()]
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    actual = model.to(device)(input_ids=tokens.to(device), attention_mask=mask.to(device)).logits.cpu()[mask.bool()]
    assert asked == [(4, 2, True, True)] * 2
    assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert not sdpa_attention.use_gqa_in_sdpa(mask, torch.empty(1, 2, 3, 8), torch.empty(1, 2, 3, 8)), "the CPU's way"


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "config, words, expected",
    [
        (None, "--num_processes 2", (True, 2)),
        (None, "--num_processes 1", (False, 1)),
        (None, "", (True, 3)),
        (None, "--multi_gpu", (True, 3)),
        (None, "--multi_gpu --num_processes 2", (True, 2)),
        (None, "--cpu --num_processes 2", (False, 2)),
        (None, "--use_fsdp --num_processes 2", (False, 2)),  # torchrun's launcher, too
        ("distributed_type: MULTI_GPU\nnum_processes: 4", "", (True, 4)),
        ("distributed_type: MULTI_GPU\nnum_processes: 4", "--num_processes 2", (True, 2)),
        ("distributed_type: 'NO'\nnum_processes: 1", "", (False, 1)),
        ("distributed_type: 'NO'\nnum_processes: 1", "--num_processes 2", (True, 2)),
        ("distributed_type: 'NO'\nnum_processes: 1\nuse_cpu: true", "--num_processes 2", (False, 2)),
        ("distributed_type: MULTI_CPU\nnum_processes: 2\nuse_cpu: true", "", (False, 2)),
        ("default", "", (True, 3)),  # as `accelerate config default` writes it
    ],
)
def test_launcher(tmp_path, monkeypatch, config, words, expected):
    """What accelerate launch starts on a machine with three devices."""
    launch = importlib.import_module("accelerate.commands.launch")
    monkeypatch.setattr(torch.aule, "device_count", lambda: 3)
    monkeypatch.setattr(launch, "default_config_file", str(tmp_path / "none.yaml"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    chosen = []
    if config:
        file = tmp_path / "config.yaml"
        if config == "default":
            assert accelerate.utils.write_basic_config(save_location=str(file)) == file
            assert not accelerate.utils.write_basic_config(save_location=str(file)), "there is one"
        else:
            file.write_text(config)
        chosen = ["--config_file", str(file)]
    args = launch.launch_command_parser().parse_args([*words.split(), *chosen, "script.py"])
    args, _, _ = launch._validate_launch_command(args)
    assert (args.multi_gpu, args.num_processes) == expected
    if args.multi_gpu:
        monkeypatch.setattr(launch, "simple_launcher", None)
        started = []
        monkeypatch.setattr("torch.distributed.run.run", started.append)
        args.gpu_ids, args.main_process_port = "2,1", 0
        launch.multi_gpu_launcher(args)
        assert started[0].nproc_per_node == str(expected[1]) and started[0].training_script == "script.py"
        assert launch.prepare_multi_gpu_env(args)["TORCH_AULE_VISIBLE_DEVICES"] == "2,1"
    else:
        monkeypatch.delenv("TORCH_AULE_VISIBLE_DEVICES", raising=False)
        for ids, environment in (("1", "1"), ("all", None), (None, None)):
            args.gpu_ids = ids
            assert launch.prepare_simple_launcher_cmd_env(args)[1].get("TORCH_AULE_VISIBLE_DEVICES") == environment


def test_status_and_rows():
    importlib.import_module("accelerate.commands.launch")

    rows = integrations.status()
    assert len({(row.package, row.hook) for row in rows}) == len(rows) >= 13
    tested_here = {"accelerate", "transformers", "safetensors", "diffusers"}
    # May not be installed.
    elsewhere = {"lightning", "pytorch_lightning", "sentence_transformers", "ultralytics", "bitsandbytes", "torchao",
                 "compressed_tensors", "gptqmodel", "hqq", "liger-kernel"}  # fmt: skip
    assert {row.package for row in rows} == tested_here | elsewhere
    for row in rows:
        assert row.reason and row.state in ("applied", "pending", "skipped", "failed")
        assert row.version or row.package in elsewhere and row.state == "pending", row
        if row.package in ("accelerate", "safetensors"):
            assert row.state == "applied", row
    assert Path(integrations.__file__).parent.name == "integrations"


def test_beside_cuda(monkeypatch):
    """Where a built-in accelerator is, hooks that choose the device stay off, and the others work."""
    from torch_aule.integrations import patch

    integrations.disable("accelerate", "transformers")
    monkeypatch.setattr(patch, "_built_in", ["cuda"])
    try:
        integrations.enable("accelerate", "transformers")
        rows = {row.hook: row for row in integrations.status() if row.package == "accelerate"}
        assert rows["default_device"].state == "skipped" and "cuda" in rows["default_device"].reason
        assert rows["max_memory"].state == "skipped" and rows["fp16"].state == "applied"
        assert accelerate.state.PartialState().device.type == "cpu"
    finally:
        monkeypatch.undo()
        integrations.disable("accelerate", "transformers")
        integrations.enable("accelerate", "transformers")
    accelerate.state.AcceleratorState._reset_state(True)
    assert accelerate.state.PartialState().device.type == "aule"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("words, wanted", [("--num_processes 3", 3), ("--num-processes=2 a.py", 2), ("a.py", 4),
                                           ("--num_processes 1", None)])  # fmt: skip
def test_a_launched_script_tells_that_it_is_alone(monkeypatch, words, wanted):
    """On a machine with four devices, started by a launcher that had no hooks."""
    program = [sys.executable, "-c", "print(flush=True); input()", *words.split()]
    launcher = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    launcher.stdout.readline()  # it has its command line now
    try:
        monkeypatch.setattr("os.getppid", lambda: launcher.pid)
        monkeypatch.setattr(torch.aule, "device_count", lambda: 4)
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
        monkeypatch.delenv("LOCAL_RANK", raising=False)
        told = pytest.warns(UserWarning, match=f"started one process, not {wanted},.*give it --multi_gpu beside")
        with told if wanted else contextlib.nullcontext():
            integrations.accelerate._tell_of_one_process()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name, value in (("LOCAL_RANK", "0"), ("ACCELERATE_USE_CPU", "True")):
                with monkeypatch.context() as patch:
                    patch.setenv(name, value)
                    integrations.accelerate._tell_of_one_process()
            monkeypatch.delenv("ACCELERATE_MIXED_PRECISION")
            integrations.accelerate._tell_of_one_process()
    finally:
        launcher.communicate(b"\n")


@pytest.mark.parametrize("name", ["integrations_switch", "integrations_lazy"])
def test_in_a_fresh_interpreter(name):
    check_program(name)


@pytest.mark.parametrize("wish", ["0", "safetensors"])
def test_off_by_the_environment(wish):
    check_program("integrations_off", TORCH_AULE_INTEGRATIONS=wish)


def test_diffusers_without_float64():
    pytest.importorskip("diffusers")
    check_program("integrations_float64", **without("float64"))
