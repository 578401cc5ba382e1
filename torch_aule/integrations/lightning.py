"""Hooks for lightning (and pytorch_lightning, lightning_fabric): an accelerator ``"aule"``, found by ``"auto"``."""

from __future__ import annotations

import warnings
from types import FunctionType, ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute, aule_is_default, wrap

__all__ = ["HOOKS"]

_NAME = "aule"


def _indices(devices) -> list[int]:
    """Indices of the `devices` of a Trainer: a number of devices, some indices, or text of either."""
    if isinstance(devices, str):
        devices = [int(i) for i in devices.split(",") if i.strip()] if "," in devices else int(devices)
    count = torch.aule.device_count()
    indices = list(range(count if devices == -1 else devices)) if isinstance(devices, int) else list(devices)
    if not indices or len(set(indices)) < len(indices) or not all(0 <= i < count for i in indices):
        raise ValueError(f"devices={devices!r}: this machine has {count} device(s) aule")
    return indices


def _accelerator(base: type) -> type:
    """A class of accelerators, derived from the package's own."""

    class AuleAccelerator(base):
        """Devices of torch_aule."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != _NAME:
                raise ValueError(f"expected a device aule, got {device}")
            torch.aule.set_device(device)

        def get_device_stats(self, device) -> dict:
            return torch.aule.memory_stats(device)

        def teardown(self) -> None:
            torch.aule.empty_cache()

        @staticmethod
        def parse_devices(devices) -> list[int]:
            return _indices(devices)

        @staticmethod
        def get_parallel_devices(devices) -> list[torch.device]:
            return [torch.device(_NAME, i) for i in _indices(devices)]

        @staticmethod
        def auto_device_count() -> int:
            return 1  # several would ask for a distributed backend

        @staticmethod
        def is_available() -> bool:
            return torch.aule.is_available()

        @staticmethod
        def name() -> str:
            return _NAME

    return AuleAccelerator


def _register(registry_name: str):
    def install(accelerators: ModuleType, patches: Patches) -> None:
        base = attribute(accelerators, "Accelerator", type)
        registry = attribute(accelerators, registry_name, dict)
        if _NAME in registry:
            raise NotAsExpected("not needed: an accelerator of that name is registered already")
        kind = _accelerator(base)
        registry.register(_NAME, kind, description=kind.__doc__)
        patches.on_undo(lambda: registry.remove(_NAME))

    return install


def _is_ours(connector) -> bool:
    flag = connector._accelerator_flag
    return flag == _NAME or getattr(type(flag), "name", lambda: None)() == _NAME


def _choices(connector_name: str):
    """Strategy, precision and ``"gpu"``, where lists of devices stand in the package's code."""

    def install(module: ModuleType, patches: Patches) -> None:
        owner = attribute(module, connector_name, type)
        own_gpu = attribute(owner, "_choose_gpu_accelerator_backend", staticmethod).__func__
        own_strategy = attribute(owner, "_choose_strategy", FunctionType)
        own_precision = attribute(owner, "_check_and_init_precision", FunctionType)
        strategy = attribute(module, "SingleDeviceStrategy", type)
        mixed = attribute(module, "MixedPrecision", type)

        @wrap(own_gpu)
        def _choose_gpu_accelerator_backend():
            return _NAME if aule_is_default() else own_gpu()

        @wrap(own_strategy)
        def _choose_strategy(self):
            if _is_ours(self) and self._num_nodes_flag == 1 and len(self._parallel_devices) == 1:
                return strategy(device=self._parallel_devices[0])
            return own_strategy(self)

        @wrap(own_precision)
        def _check_and_init_precision(self):
            with warnings.catch_warnings():
                if _is_ours(self):  # of a scaler of CUDA's, which is replaced
                    warnings.filterwarnings("ignore", message=".*GradScaler is enabled, but CUDA is not available.*")
                made = own_precision(self)
            # One that the caller made keeps its device.
            given = (getattr(self, "_precision_plugin_flag", None), getattr(self, "_precision_instance", None))
            if _is_ours(self) and type(made) is mixed and made.device == "cuda" and all(made is not g for g in given):
                return mixed(made.precision, _NAME)
            return made

        patches.set(owner, "_choose_gpu_accelerator_backend", staticmethod(_choose_gpu_accelerator_backend))
        patches.set(owner, "_choose_strategy", _choose_strategy)
        patches.set(owner, "_check_and_init_precision", _check_and_init_precision)

    return install


def _auto(connector_name: str):
    def install(module: ModuleType, patches: Patches) -> None:
        owner = attribute(module, connector_name, type)
        own = attribute(owner, "_choose_auto_accelerator", staticmethod).__func__

        @wrap(own)
        def _choose_auto_accelerator():
            chosen = own()
            return _NAME if chosen == "cpu" and aule_is_default() else chosen

        patches.set(owner, "_choose_auto_accelerator", staticmethod(_choose_auto_accelerator))

    return install


def _hooks(package: str, prefix: str, kind: str, connector: str, connector_name: str, registry: str) -> list[Hook]:
    return [
        Hook(
            package, f"{kind}.accelerator", f"{prefix}.accelerators",
            'accelerator="aule" is one, and moves work to the device', _register(registry),
        ),
        Hook(
            package, f"{kind}.choices", f"{prefix}.{connector}",
            'accelerator="gpu" is aule; a single device has its strategy, mixed precision its autocast and scaler',
            _choices(connector_name),
        ),
        Hook(
            package, f"{kind}.auto", f"{prefix}.{connector}",
            'accelerator="auto" chooses aule instead of the CPU', _auto(connector_name), chooses_device=True,
        ),
    ]  # fmt: skip


_TRAINER = ("trainer", "trainer.connectors.accelerator_connector", "_AcceleratorConnector", "AcceleratorRegistry")
_FABRIC = ("fabric", "connector", "_Connector", "ACCELERATOR_REGISTRY")

HOOKS = [
    *_hooks("lightning", "lightning.pytorch", *_TRAINER),
    *_hooks("lightning", "lightning.fabric", *_FABRIC),
    *_hooks("pytorch_lightning", "pytorch_lightning", *_TRAINER),
    *_hooks("pytorch_lightning", "lightning_fabric", *_FABRIC),
]
