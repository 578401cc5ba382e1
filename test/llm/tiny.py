"""Tiny models in folders, with a tokenizer whose tokens are bytes and a few words."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import torch
from families import make
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gguf_writer import write_gguf

TEMPLATE = (
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<' + m.role + '>' }}{{ m.content }}{{ '<end>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
SPECIAL = ["<end>", "<user>", "<assistant>", "<system>"]
WORDS = ["th", "the", "er", "in"]
VOCABULARY = 256 + len(WORDS) + len(SPECIAL)


@cache
def letters() -> list[str]:
    """Of byte-level tokenizers: one letter that can be seen for each byte."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    of = {byte: chr(byte) for byte in own} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [of[byte] for byte in range(256)]


def tokenizer(template: str | None = TEMPLATE):
    vocabulary = {letter: i for i, letter in enumerate(letters())}
    vocabulary |= {word: 256 + i for i, word in enumerate(WORDS)}
    inner = Tokenizer(models.BPE(vocabulary, [("t", "h"), ("th", "e"), ("e", "r"), ("i", "n")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    whole = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
    whole.chat_template = template
    return whole


def save(folder: Path, family: str = "llama", template: str | None = TEMPLATE, dtype=torch.float32, **changes):
    """A random model and the tokenizer; the model on the CPU."""
    model, _ = make(family, vocab_size=VOCABULARY, **changes)
    head = model.get_output_embeddings().weight
    if head is not model.get_input_embeddings().weight:
        with torch.no_grad():
            head[-len(SPECIAL) :] = 0  # of 260 others one is likelier: answers have no end, and are all text
    model = model.to(dtype)
    model.save_pretrained(folder)
    tokenizer(template).save_pretrained(folder)
    return model


def save_gguf(file: Path):
    """A random Llama in Q8_0, and its weights as numbers in float32 on the CPU, by the name in the model."""
    layers, hidden, inner, heads, kv_heads = 2, 64, 96, 4, 2
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": layers, "llama.context_length": 512, "llama.embedding_length": hidden,
        "llama.feed_forward_length": inner, "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": hidden // heads, "llama.vocab_size": VOCABULARY,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [*letters(), *WORDS, *SPECIAL],
        "tokenizer.ggml.token_type": [1] * (256 + len(WORDS)) + [3] * len(SPECIAL),
        "tokenizer.ggml.merges": ["t h", "th e", "e r", "i n"],
        "tokenizer.ggml.eos_token_id": VOCABULARY - len(SPECIAL),
        "tokenizer.ggml.bos_token_id": VOCABULARY - len(SPECIAL),
        "tokenizer.ggml.eot_token_id": VOCABULARY - 1,
        "tokenizer.chat_template": TEMPLATE,
    }  # fmt: skip
    narrow = kv_heads * hidden // heads
    shapes = {"token_embd": (VOCABULARY, hidden), "output": (VOCABULARY, hidden)}
    for i in range(layers):
        shapes |= {
            f"blk.{i}.attn_q": (hidden, hidden), f"blk.{i}.attn_k": (narrow, hidden),
            f"blk.{i}.attn_v": (narrow, hidden), f"blk.{i}.attn_output": (hidden, hidden),
            f"blk.{i}.ffn_gate": (inner, hidden), f"blk.{i}.ffn_up": (inner, hidden),
            f"blk.{i}.ffn_down": (hidden, inner),
        }  # fmt: skip
    tensors = {f"{name}.weight": ("q8_0", shape, blocks(shape)) for name, shape in shapes.items()}
    norms = ["output_norm", *(f"blk.{i}.{name}" for i in range(layers) for name in ("attn_norm", "ffn_norm"))]
    tensors |= {f"{name}.weight": ("f32", (hidden,), np.ones(hidden, np.float32)) for name in norms}
    write_gguf(file, metadata, tensors)


def blocks(shape) -> np.ndarray:
    """Random q8_0: a scale of two bytes, and 32 numbers of one."""
    rows, k = shape
    scale = np.full((rows, k // 32, 1), 2.0 / (127 * k**0.5), np.float16).view(np.uint8)
    numbers = np.random.default_rng(torch.randint(2**31, ()).item()).integers(-127, 128, (rows, k // 32, 32), np.int8)
    return np.concatenate([scale, numbers.view(np.uint8)], 2)


def edit(folder: Path, **changes) -> None:
    """Change keys of a folder's config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
