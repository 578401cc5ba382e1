"""Hooks for transformers: Trainer's device, bfloat16, random state, pipelines, loading, queries, offloaded caches."""

from __future__ import annotations

import os
from functools import cached_property
from types import FunctionType, ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations._rng import load_rng_state, save_rng_state
from torch_aule.integrations.patch import (
    NotAsExpected,
    Patches,
    attribute,
    aule_is_default,
    parameters_of,
    wrap,
)

__all__ = ["HOOKS"]

DEVICE_VARIABLE = "ACCELERATE_TORCH_DEVICE"  # accelerate and transformers read it; a user who sets it decides


def _user_chose_another() -> bool:
    return os.environ.get(DEVICE_VARIABLE, "aule").split(":")[0] != "aule"


def _trainer_device(training_args: ModuleType, patches: Patches) -> None:
    owner = attribute(training_args, "TrainingArguments", type)
    own = attribute(owner, "_setup_devices", cached_property)

    @wrap(own.func)
    def _setup_devices(self):
        device = own.func(self)
        if device.type != "cpu" or self.use_cpu or DEVICE_VARIABLE in os.environ:
            return device
        state = getattr(self, "distributed_state", None)  # accelerate's; the Accelerator inside Trainer follows it
        if state is not None and state.device.type == "aule":
            return state.device
        return device

    replacement = cached_property(_setup_devices)
    replacement.__set_name__(owner, "_setup_devices")
    patches.set(owner, "_setup_devices", replacement)


def _bf16(import_utils: ModuleType, patches: Patches) -> None:
    own = attribute(import_utils, "is_torch_bf16_gpu_available")
    parameters_of(own)

    @wrap(own)
    def is_torch_bf16_gpu_available() -> bool:
        if own():
            return True
        return not _user_chose_another() and aule_is_default() and torch.aule.is_bf16_supported()

    patches.rebind(own, is_torch_bf16_gpu_available)


def _rng_state(trainer: ModuleType, patches: Patches) -> None:
    owner = attribute(trainer, "Trainer", type)
    save = attribute(owner, "_save_rng_state", FunctionType)
    load = attribute(owner, "_load_rng_state", FunctionType)
    parameters_of(save, "self", "output_dir")
    parameters_of(load, "self", "checkpoint")

    @wrap(save)
    def _save_rng_state(self, output_dir):
        save(self, output_dir)
        save_rng_state(output_dir, self.args.process_index)

    @wrap(load)
    def _load_rng_state(self, checkpoint):
        load(self, checkpoint)
        if checkpoint is not None:
            load_rng_state(checkpoint, self.args.process_index)

    patches.set(owner, "_save_rng_state", _save_rng_state)
    patches.set(owner, "_load_rng_state", _load_rng_state)


def _warmup(modeling_utils: ModuleType, patches: Patches) -> None:
    own = attribute(modeling_utils, "caching_allocator_warmup")
    parameters_of(own, "model", "expanded_device_map", "hf_quantizer")

    def is_aule(device) -> bool:
        return device != "disk" and torch.device(device).type == "aule"

    @wrap(own)
    def caching_allocator_warmup(model, expanded_device_map, hf_quantizer):
        others = {name: device for name, device in expanded_device_map.items() if not is_aule(device)}
        return own(model, others, hf_quantizer)

    patches.rebind(own, caching_allocator_warmup)


def _pipeline(base: ModuleType, patches: Patches) -> None:
    owner = attribute(base, "Pipeline", type)
    own = attribute(owner, "__init__", FunctionType)
    signature = parameters_of(own, "self", "model", "device")

    @wrap(own)
    def __init__(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        device = given.arguments.get("device")
        device_map = getattr(given.arguments["model"], "hf_device_map", None)
        by_number = device is None or type(device) is int and device >= 0
        if by_number and device_map is None and not _user_chose_another() and aule_is_default():
            given.arguments["device"] = torch.device("aule", device or 0)
        own(*given.args, **given.kwargs)
        if device_map is not None and self.device.type == "cpu":  # an index in the map was taken for the CPU
            first = next(iter(device_map.values()))
            if type(first) is int and torch.device(first).type == "aule":
                self.device = torch.device(first)

    patches.set(owner, "__init__", __init__)


def _gqa(sdpa_attention: ModuleType, patches: Patches) -> None:
    own = attribute(sdpa_attention, "use_gqa_in_sdpa")
    parameters_of(own, "attention_mask", "key")

    @wrap(own)
    def use_gqa_in_sdpa(attention_mask, key, *args, **kwargs):
        return key.device.type == "aule" or own(attention_mask, key, *args, **kwargs)

    patches.rebind(own, use_gqa_in_sdpa)


def _offloaded_cache(cache_utils: ModuleType, patches: Patches) -> None:
    owner = attribute(cache_utils, "Cache", type)
    own = attribute(owner, "update", FunctionType)
    parameters_of(own, "self", "key_states", "value_states", "layer_idx")
    parameters_of(attribute(owner, "prefetch", FunctionType), "self", "layer_idx", "only_non_sliding")
    parameters_of(attribute(owner, "offload", FunctionType), "self", "layer_idx", "only_non_sliding")

    @wrap(own)
    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        if not getattr(self, "offloading", False) or key_states.device.type != "aule":
            return own(self, key_states, value_states, layer_idx, *args, **kwargs)
        here, aside = torch.aule.current_stream(key_states.device), self.prefetch_stream
        here.wait_stream(aside)  # this layer has been fetched
        self.offloading = False  # the class's own way asks CUDA for its streams
        try:
            result = own(self, key_states, value_states, layer_idx, *args, **kwargs)
        finally:
            self.offloading = True
        aside.wait_stream(here)  # what this layer read may be overwritten
        self.prefetch(layer_idx + 1, self.only_non_sliding)
        self.offload(layer_idx, self.only_non_sliding)
        return result

    patches.set(owner, "update", update)


def _batching_memory(utils: ModuleType, patches: Patches) -> None:
    """generate_batch plans its cache by it. Where transformers knows no accelerator, it has the host's memory."""
    own = attribute(utils, "get_device_and_memory_breakdown", FunctionType)

    @wrap(own)
    def get_device_and_memory_breakdown():
        if not aule_is_default():
            return own()
        device = torch.device("aule", torch.aule.current_device())
        torch.aule.empty_cache()
        torch.aule.synchronize(device)
        free, total = torch.aule.mem_get_info(device)
        return device, total, torch.aule.memory_reserved(device), total - free

    patches.rebind(own, get_device_and_memory_breakdown)


def _batching_streams(input_outputs: ModuleType, patches: Patches) -> None:
    owner = attribute(input_outputs, "ContinuousBatchingAsyncIOs", type)
    known = attribute(owner, "_supported_device_types", tuple)
    if "aule" in known:
        raise NotAsExpected("not needed: this version takes the device itself")
    init, reset = (attribute(owner, name, FunctionType) for name in ("__init__", "reset"))

    def behind_all(own):  # they fill tensors on the current stream, and its streams, which use them next, do not wait
        @wrap(own)
        def method(self, *args, **kwargs):
            own(self, *args, **kwargs)
            torch.accelerator.synchronize()

        return method

    patches.set(owner, "_supported_device_types", (*known, "aule"))
    patches.set(owner, "__init__", behind_all(init))
    patches.set(owner, "reset", behind_all(reset))


HOOKS = [
    Hook(
        "transformers", "trainer_device", "transformers.training_args",
        "Trainer trains on aule where it would on the CPU (use_cpu=True and ACCELERATE_TORCH_DEVICE win)",
        _trainer_device, chooses_device=True,
    ),
    Hook(
        "transformers", "bf16", "transformers.utils.import_utils",
        "TrainingArguments(bf16=True) is allowed", _bf16, chooses_device=True,
    ),
    Hook(
        "transformers", "rng_state", "transformers.trainer",
        "Trainer's checkpoints keep the random state of aule devices, in random_state_aule_N.pt", _rng_state,
    ),
    Hook(
        "transformers", "warmup", "transformers.modeling_utils",
        "from_pretrained allocates no block of the whole model's size on aule before it loads", _warmup,
    ),
    Hook(
        "transformers", "pipeline", "transformers.pipelines.base",
        "pipeline(device=0), and pipeline() without a device, take aule where they would take the CPU",
        _pipeline, chooses_device=True,
    ),
    Hook(
        "transformers", "gqa", "transformers.integrations.sdpa_attention",
        "attention on aule gets keys and values of grouped queries as they are, also with a mask, not repeated", _gqa,
    ),
    Hook(
        "transformers", "offloaded_cache", "transformers.cache_utils",
        "a cache that offloads its layers waits for streams of aule, not of CUDA", _offloaded_cache,
    ),
    Hook(
        "transformers", "batching_memory", "transformers.generation.continuous_batching.utils",
        "generate_batch without a size plans its cache by the free memory of aule, not of the host", _batching_memory,
        chooses_device=True,
    ),
    Hook(
        "transformers", "batching_streams", "transformers.generation.continuous_batching.input_outputs",
        "generate_batch takes use_async_batching=True on aule", _batching_streams,
    ),
]  # fmt: skip
