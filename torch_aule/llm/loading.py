"""Models from files to the device, with a runner: checks first, then transformers' own loader."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from os import PathLike
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from torch_aule.llm import sources
from torch_aule.llm.cache import row_bytes
from torch_aule.llm.language_model import LanguageModel
from torch_aule.llm.sources import LoadError, Source
from torch_aule.llm.speculative import Strategy
from torch_aule.measure.numbers import bytes_text

__all__ = ["LoadError", "from_gguf", "from_safetensors", "load", "read_model"]

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
QUANTIZATIONS = (("8 bits (Q8_0)", 8.5), ("4 bits (Q4_K)", 4.5))  # and their bits of a weight, scales included
ENDS_OF_TURNS = ("tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")


def _configuration(source: Source):
    """transformers' configuration, of an architecture that it has a causal language model for."""
    if source.gguf is None:
        kind = source.metadata.get("model_type")
        if kind not in CONFIG_MAPPING:
            raise LoadError(
                f"{source.name}: the installed transformers {transformers.__version__} does not know the architecture "
                f"{kind!r} of its config.json"
            )
        options = {}
    else:
        from transformers.integrations.gguf import GGUF_CONFIG_ARCHS
        from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

        kind = source.metadata.get("general.architecture")
        if kind not in GGUF_CONFIG_ARCHS and kind not in GGUF_SUPPORTED_ARCHITECTURES:
            raise LoadError(
                f"{source.name}: the installed transformers {transformers.__version__} does not read GGUF files of the "
                f"architecture {kind!r}"
            )
        if kind not in GGUF_CONFIG_ARCHS and importlib.util.find_spec("gguf") is None:
            raise LoadError(f"{source.name}: GGUF files of the architecture {kind!r} need the package gguf")
        options = {"gguf_file": source.gguf.name}
    with _one_sentence(source):
        config = AutoConfig.from_pretrained(source.folder, trust_remote_code=False, **options)
    if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise LoadError(f"{source.name}: the architecture {config.model_type!r} is no causal language model")
    return config


@contextmanager
def _one_sentence(source: Source):
    """An error inside another package becomes one sentence, with its own first line."""
    try:
        yield
    except LoadError:
        raise
    except torch.OutOfMemoryError as error:
        raise LoadError(f"{source.name}: the memory of the device ran out while the model was loaded") from error
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise LoadError(f"{source.name}: {lines[0].rstrip('.')}") from error


@contextmanager
def _progress(wanted: bool):
    """transformers' bar is on for the whole process, or off."""
    bars = transformers.utils.logging
    before = bars.is_progress_bar_enabled()
    try:
        (bars.enable_progress_bar if wanted else bars.disable_progress_bar)()
        yield
    finally:
        (bars.enable_progress_bar if before else bars.disable_progress_bar)()


def _dtype(source: Source, config, wanted: str | torch.dtype, device: torch.device) -> torch.dtype:
    if isinstance(wanted, torch.dtype):
        return wanted
    if wanted != "auto":
        if wanted not in DTYPES:
            raise ValueError(f"load: expected a dtype of auto, {', '.join(DTYPES)}, but got {wanted!r}")
        return DTYPES[wanted]
    if source.gguf is not None:  # whose file says nothing about activations
        software = device.type == "aule" and torch.aule.get_device_properties(device).kind == "cpu"
        return torch.float32 if software else torch.bfloat16
    own = getattr(config.get_text_config(), "dtype", None) or getattr(config, "dtype", None)
    own = getattr(torch, own, None) if isinstance(own, str) else own
    return own or {"F32": torch.float32, "F16": torch.float16}.get(source.type, torch.bfloat16)


def cache_bytes(config, tokens: int, dtype: torch.dtype, kv_cache_dtype: str | None = None) -> int:
    """The bytes of keys and values, by a model's configuration.

    Parameters
    ----------
    config : transformers.PretrainedConfig
        Of the model.
    tokens : int
        Of one sequence.
    dtype : torch.dtype
        Of keys and values.
    kv_cache_dtype : str, optional
        As :class:`torch_aule.llm.Runner` takes it.

    Returns
    -------
    int
        Bytes; 0 for a model without attention.
    """
    text = config.get_text_config()
    heads = getattr(text, "num_attention_heads", None)
    if not heads:
        return 0
    kinds = getattr(text, "layer_types", None) or ["attention"] * text.num_hidden_layers
    layers = sum("attention" in kind and "linear" not in kind for kind in kinds)
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    size = getattr(text, "head_dim", None) or text.hidden_size // heads
    return tokens * row_bytes([("pages", kv_heads, size, size, dtype)] * layers, kv_cache_dtype)


def check_memory(
    name: str,
    weights: int,
    elements: int,
    config,
    dtype: torch.dtype,
    device: torch.device,
    max_len: int | None,
    kv_cache_dtype: str | None = None,
) -> None:
    """Whether the weights and the cache of one sequence have room.

    Parameters
    ----------
    name : str
        For the message.
    weights, elements : int
        Bytes of the weights, and how many there are.
    config : transformers.PretrainedConfig
        Of the model.
    dtype : torch.dtype
        Of the cache.
    device : torch.device
        Where to.
    max_len : int or None
        Tokens of a sequence; None as :class:`torch_aule.llm.Runner` has it.
    kv_cache_dtype : str, optional
        As :class:`torch_aule.llm.Runner` takes it.

    Raises
    ------
    LoadError
        If they have not: what is needed, what is free and what would fit.
    """
    if device.type != "aule":
        return
    if max_len is None:
        max_len = min(getattr(config.get_text_config(), "max_position_embeddings", None) or 4096, 4096)
    cache, free = cache_bytes(config, max_len, dtype, kv_cache_dtype), torch.aule.mem_get_info(device)[0]
    if weights + cache <= free:
        return
    smaller = [(how, elements * bits / 8) for how, bits in QUANTIZATIONS if elements * bits / 8 < 0.9 * weights]
    ways = [f"a file quantized to {how}, {bytes_text(size)}," for how, size in smaller if size + cache <= free]
    if weights < free:
        ways.append(f"a max_len of {int(0.8 * (free - weights) / (cache / max_len))}")
    if ways:
        way = f"{' or '.join(ways)} would fit"
    elif smaller:
        way = f"even {smaller[-1][0]} would not fit, {bytes_text(smaller[-1][1])}"
    else:
        way = "a smaller model would fit"
    raise LoadError(
        f"{name}: the weights take {bytes_text(weights)} and the cache of a sequence of {max_len} tokens "
        f"{bytes_text(cache)}, but {bytes_text(free)} of the device are free; {way}"
    )


def _bytes(source: Source, dtype: torch.dtype) -> int:
    """The bytes of the weights: architectures that transformers' older loader reads become dense."""
    from transformers.integrations.gguf import GGUF_CONFIG_ARCHS

    if source.gguf is not None and source.metadata.get("general.architecture") not in GGUF_CONFIG_ARCHS:
        return source.elements * torch.empty((), dtype=dtype, device="cpu").element_size()
    return source.bytes_in(dtype)


def _tokenizer(source: Source):
    if source.gguf is not None:
        options = {"gguf_file": source.gguf.name}
    elif not any((source.folder / name).is_file() for name in TOKENIZERS):
        return None  # a model of something else than text, or one that is measured
    else:
        options = {}
    with _one_sentence(source):
        return AutoTokenizer.from_pretrained(source.folder, trust_remote_code=False, **options)


def read_model(
    path: str | PathLike,
    *,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device = "aule",
    max_len: int | None = None,
    progress: bool | None = None,
    kind: str | None = None,
    kv_cache_dtype: str | None = None,
):
    """A model on the device and its tokenizer, without a runner: for the small model of a strategy.

    Parameters
    ----------
    path : str or os.PathLike
        As :func:`load` takes it.
    dtype, device, max_len, progress
        As :func:`load` takes them.
    kind : str, optional
        :data:`torch_aule.llm.sources.SAFETENSORS` or :data:`torch_aule.llm.sources.GGUF`: only this one.
    kv_cache_dtype : str, optional
        As :func:`load` takes it.

    Returns
    -------
    (transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase or None, Source)
        The tokenizer is None if the folder has none.

    Raises
    ------
    LoadError
        As :func:`load` does.
    """
    place = torch.device(device)
    source = sources.read(path, kind)
    config = _configuration(source)
    if importlib.util.find_spec("accelerate") is None:
        raise LoadError(f"{path}: loading needs the package accelerate: pip install torch_aule[llm]")
    chosen = _dtype(source, config, dtype, place)
    check_memory(source.name, _bytes(source, chosen), source.elements, config, chosen, place, max_len, kv_cache_dtype)
    tokenizer = _tokenizer(source)
    options = {} if source.gguf is None else {"gguf_file": source.gguf.name}
    with _one_sentence(source), _progress(sys.stderr.isatty() if progress is None else progress):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source.folder,
            dtype=chosen,
            device_map={"": str(place)},
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
        model, found = loaded
        missing = sorted(found["missing_keys"])
        if missing:
            raise LoadError(
                f"{path}: the files lack {len(missing)} weights of {type(model).__name__}; one is {missing[0]}"
            )
    return model, tokenizer, source


def load(
    path: str | PathLike,
    *,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device = "aule",
    max_batch: int = 8,
    max_len: int | None = None,
    strategy: Strategy | None = None,
    progress: bool | None = None,
    kind: str | None = None,
    kv_cache_dtype: str | None = None,
    **runner,
) -> LanguageModel:
    """Load a language model, its tokenizer and a runner.

    Files are checked, and the memory of the device, before anything is loaded.

    Parameters
    ----------
    path : str or os.PathLike
        A folder with config.json and safetensors files; a GGUF file, or a folder with one, whose blocks stay packed; or
        a name as Hugging Face has them, from its cache where it is there.
    dtype : str or torch.dtype, default "auto"
        Of weights that are no blocks, and of activations. "auto": what the configuration says; for a GGUF file bfloat16
        on a GPU and float32 on a software device.
    device : str or torch.device, default "aule"
        Where to.
    max_batch : int, default 8
        How many sequences run at once.
    max_len : int, optional
        Tokens of a sequence, prompt and answer; by default what the model was made for, but no more than 4,096.
    strategy : Strategy, optional
        Where guesses at next tokens come from.
    progress : bool, optional
        Show transformers' bar on stderr; by default if that is a terminal.
    kind : str, optional
        "safetensors" or "gguf": take only this one.
    kv_cache_dtype : str, optional
        "int8": keys and values are kept in 8 bits (:class:`torch_aule.llm.Runner`).
    **runner
        Further options of :class:`torch_aule.llm.Runner`.

    Returns
    -------
    LanguageModel
        Ready to answer.

    Raises
    ------
    LoadError
        If nothing is at the path, a file is cut off, transformers does not know the architecture, or there is too
        little memory.
    UnsupportedModelError
        For an architecture that the runner does not support.
    ValueError
        For a dtype, or an option of the runner, that cannot be.

    Examples
    --------
    >>> lm = torch_aule.llm.load("SmolLM2-135M-Instruct.Q4_1.gguf")
    >>> print(lm.chat("What is the capital of France?", max_new_tokens=40))
    """
    model, tokenizer, source = read_model(
        path,
        dtype=dtype,
        device=device,
        max_len=max_len,
        progress=progress,
        kind=kind,
        kv_cache_dtype=kv_cache_dtype,
    )
    more = [source.metadata[key] for key in ENDS_OF_TURNS if source.gguf is not None and key in source.metadata]
    lm = LanguageModel(
        model,
        tokenizer,
        max_batch=max_batch,
        max_len=max_len,
        strategy=strategy,
        stop_tokens=more,
        kv_cache_dtype=kv_cache_dtype,
        **runner,
    )
    lm.name = (source.gguf.stem if source.gguf is not None else source.folder.name) or source.name
    if source.gguf is None and "snapshots" in source.folder.parts:  # a folder of the cache is named by a hash
        lm.name = source.name
    lm.type, lm.elements = source.type, source.elements
    return lm


def from_safetensors(path: str | PathLike, **options) -> LanguageModel:
    """Load a model from a folder with config.json and safetensors files, even if a GGUF file lies beside them.

    Parameters
    ----------
    path : str or os.PathLike
        The folder, or a name as Hugging Face has them.
    **options
        As :func:`load` takes them.

    Returns
    -------
    LanguageModel
        Ready to answer.

    Raises
    ------
    LoadError
        As :func:`load` does.
    """
    return load(path, kind=sources.SAFETENSORS, **options)


def from_gguf(path: str | PathLike, **options) -> LanguageModel:
    """Load a model from a GGUF file, even if other files lie beside it.

    Parameters
    ----------
    path : str or os.PathLike
        The file, or a folder with one.
    **options
        As :func:`load` takes them.

    Returns
    -------
    LanguageModel
        Ready to answer.

    Raises
    ------
    LoadError
        As :func:`load` does.
    """
    return load(path, kind=sources.GGUF, **options)
