"""A Whisper checkpoint of CTranslate2's, which packages ship, as one of transformers'."""

import struct
from pathlib import Path

import torch

DTYPES = {0: torch.float32, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.float16}
PARTS = {  # CTranslate2's names behind a layer's, and transformers'; a fused product is that of several
    "self_attention/layer_norm": ["self_attn_layer_norm"],
    "self_attention/linear_0": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention/linear_1": ["self_attn.out_proj"],
    "attention/layer_norm": ["encoder_attn_layer_norm"],
    "attention/linear_0": ["encoder_attn.q_proj"],
    "attention/linear_1": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "attention/linear_2": ["encoder_attn.out_proj"],
    "ffn/layer_norm": ["final_layer_norm"],
    "ffn/linear_0": ["fc1"],
    "ffn/linear_1": ["fc2"],
    "layer_norm": ["layer_norm"],
    "conv1": ["conv1"],
    "conv2": ["conv2"],
}


def variables(path: Path) -> dict[str, torch.Tensor]:
    """The named arrays of a model.bin."""
    data, at, found = path.read_bytes(), 0, {}

    def number(form):
        nonlocal at
        at += struct.calcsize("<" + form)
        return struct.unpack_from("<" + form, data, at - struct.calcsize("<" + form))[0]

    def text():
        nonlocal at
        length = number("H")
        at += length
        return data[at - length : at].rstrip(b"\0").decode()

    number("I"), text(), number("I")  # the format's version, the model's kind, and its version
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        dtype, length = DTYPES[number("B")], number("I")
        found[name] = torch.frombuffer(bytearray(data[at : at + length]), dtype=dtype).view(shape)
        at += length
    return found


def state_of(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """transformers' names; queries, keys and values apart."""
    state = {}
    for name, value in found.items():
        side, _, rest = name.partition("/")
        if rest == "position_encodings/encodings":
            state[f"model.{side}.embed_positions.weight"] = value
        elif rest == "embeddings/weight":
            state["model.decoder.embed_tokens.weight"] = value
        layer, _, inner = rest.partition("/") if rest.startswith("layer_") and rest[6].isdigit() else ("", "", rest)
        part, _, kind = inner.rpartition("/")
        names = PARTS.get(part, [])
        kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)
        before = f"model.{side}." + (f"layers.{layer[6:]}." if layer else "")
        for target, piece in zip(names, value.chunk(len(names)) if names else ()):
            if not (target.endswith("k_proj") and kind == "bias"):  # Whisper's keys have none
                state[f"{before}{target}.{kind}"] = piece
    return {name: value.float().clone() for name, value in state.items()}


def convert(source: Path, folder: Path) -> None:
    """Write a checkpoint that from_pretrained reads; of an English-only model."""
    import transformers

    found = variables(source / "model.bin")
    state = state_of(found)
    vocabulary, width = state["model.decoder.embed_tokens.weight"].shape
    layers = 1 + max(int(name.split(".")[3]) for name in state if name.startswith("model.encoder.layers."))
    heads, hidden = int(found["encoder/num_heads"]), len(state["model.encoder.layers.0.fc1.bias"])
    tokenizer = transformers.WhisperTokenizerFast(tokenizer_file=str(source / "tokenizer.json"))
    end, start, no_timestamps = (
        tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("endoftext", "startoftranscript", "notimestamps")
    )
    config = transformers.WhisperConfig(
        vocab_size=vocabulary, d_model=width, num_mel_bins=state["model.encoder.conv1.weight"].shape[1],
        encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=hidden, decoder_ffn_dim=hidden, max_source_positions=1500, max_target_positions=448,
        pad_token_id=end, bos_token_id=end, eos_token_id=end, decoder_start_token_id=start,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    missing, unknown = model.load_state_dict(state, strict=False)
    assert not unknown and missing == ["proj_out.weight"], (missing, unknown)
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=start, eos_token_id=end, pad_token_id=end, bos_token_id=end, max_length=448,
        no_timestamps_token_id=no_timestamps, is_multilingual=False, return_timestamps=False,
        begin_suppress_tokens=[220, end], max_initial_timestamp_index=50,
        prev_sot_token_id=tokenizer.convert_tokens_to_ids("<|startofprev|>"),
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
