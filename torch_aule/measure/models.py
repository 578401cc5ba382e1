"""Models and inputs by name, for the command line: random weights, nothing is fetched."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import runpy
from collections.abc import Mapping
from typing import Any

import torch


def _of_torchvision(name: str, batch: int):
    if importlib.util.find_spec("torchvision") is None:
        return None
    import torchvision

    if name not in torchvision.models.list_models():
        return None
    return torchvision.models.get_model(name, weights=None), torch.randn(batch, 3, 224, 224)


def _of_transformers(name: str, batch: int, length: int):
    if importlib.util.find_spec("transformers") is None:
        return None
    import transformers

    if name not in transformers.CONFIG_MAPPING:
        return None
    config = transformers.AutoConfig.for_model(name)
    model = transformers.AutoModel.from_config(config)
    if model.main_input_name == "pixel_values":
        size = getattr(config, "image_size", 224)
        height, width = (size, size) if isinstance(size, int) else size
        return model, torch.randn(batch, getattr(config, "num_channels", 3), height, width)
    if model.main_input_name != "input_ids":
        raise SystemExit(f"{name}: its input is {model.main_input_name}; write a path.py:factory for it")
    return model, torch.randint(config.vocab_size, (batch, length))


def _imported(name: str) -> dict[str, Any]:
    try:
        return vars(importlib.import_module(name))
    except ModuleNotFoundError as error:
        raise SystemExit(f"{name} cannot be imported: {error}") from error


def add_model_options(parser: argparse.ArgumentParser, runs: int) -> None:
    """Options of what :func:`model_named` makes, and how often it runs."""
    parser.add_argument("--batch", type=int, default=1, help="images or sequences (default 1)")
    parser.add_argument("--length", type=int, default=128, help="tokens of a sequence (default 128)")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="of weights and real inputs")
    parser.add_argument("--runs", type=int, default=runs, help=f"timed calls (default {runs})")


def model_named(text: str, batch: int, length: int):
    """(model, inputs) of what the command line names."""
    path, _, factory = text.rpartition(":")
    if path:
        made = runpy.run_path(path) if path.endswith(".py") else _imported(path)
        if factory not in made:
            raise SystemExit(f"{path} has no function {factory}")
        return made[factory]()
    found = _of_torchvision(text, batch) or _of_transformers(text, batch, length)
    if found is None:
        raise SystemExit(
            f"{text}: neither path.py:factory, nor module:factory, nor a model that an installed torchvision or "
            "transformers knows"
        )
    return found


def moved(value: Any, device: torch.device, dtype: torch.dtype | None) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device, dtype if value.is_floating_point() else None)
    if isinstance(value, Mapping):
        return {name: moved(one, device, dtype) for name, one in value.items()}
    return type(value)(moved(one, device, dtype) for one in value) if isinstance(value, (tuple, list)) else value
