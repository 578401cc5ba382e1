"""Hooks for ultralytics: ``device="aule"``, the default device, and a scaler for float16 training."""

from __future__ import annotations

import re
import warnings
from types import FunctionType, ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import Patches, attribute, aule_is_default, parameters_of, wrap

__all__ = ["HOOKS"]


def _by_name(text: str) -> torch.device:
    """The device that "aule", "aule:1" names, or an index alone."""
    index = text.partition(":")[2] if text.startswith("aule") else text
    count = torch.aule.device_count()
    number = int(index) if index else torch.aule.current_device()
    if number >= count:
        raise ValueError(f"device={text!r}: this machine has {count} device(s) aule")
    torch.aule.set_device(number)
    return torch.device("aule", number)


def _select(torch_utils: ModuleType, patches: Patches) -> None:
    own = attribute(torch_utils, "select_device", FunctionType)
    parameters_of(own, "device")

    @wrap(own)
    def select_device(device="", *args, **kwargs):
        text = "" if device is None else str(device).lower().strip("[]() ")
        named = re.fullmatch(r"aule(:\d+)?", text)
        if not isinstance(device, torch.device) and (named or re.fullmatch(r"\d*", text) and aule_is_default()):
            return _by_name(text)
        return own(device, *args, **kwargs)

    patches.rebind(own, select_device)


def _scaler(trainer: ModuleType, patches: Patches) -> None:
    owner = attribute(trainer, "BaseTrainer", type)
    own = attribute(owner, "_setup_train", FunctionType)

    @wrap(own)
    def _setup_train(self, *args, **kwargs):
        with warnings.catch_warnings():
            if self.device.type == "aule":  # of CUDA's scaler, which is replaced
                warnings.filterwarnings("ignore", message=".*GradScaler is enabled, but CUDA is not available.*")
            result = own(self, *args, **kwargs)
        if self.device.type == "aule":
            self.scaler = torch.amp.GradScaler("aule", enabled=self.amp and getattr(self.args, "amp", None) != "bf16")
        return result

    patches.set(owner, "_setup_train", _setup_train)


HOOKS = [
    Hook(
        "ultralytics", "device", "ultralytics.utils.torch_utils",
        'device="aule" and "aule:1" name the device; none, or a number, is aule instead of the CPU or an error',
        _select,
    ),
    Hook(
        "ultralytics", "scaler", "ultralytics.engine.trainer",
        "float16 training scales its loss", _scaler,
    ),
]  # fmt: skip
