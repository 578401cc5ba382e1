"""Hooks for accelerate: the default device, several processes and what launches them, float16, memory for
``device_map="auto"``, random state in checkpoints.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from types import FunctionType, ModuleType

import torch

from torch_aule import distributed
from torch_aule.integrations._registry import Hook
from torch_aule.integrations._rng import load_rng_state, save_rng_state
from torch_aule.integrations.patch import (
    NotAsExpected,
    Patches,
    attribute,
    aule_is_default,
    parameters_of,
    tuple_constant,
    wrap,
)

__all__ = ["HOOKS"]


def _default_device(state: ModuleType, patches: Patches) -> None:
    owner = attribute(state, "PartialState", type)
    own = attribute(owner, "default_device", property)

    @wrap(own.fget)
    def default_device(self):
        device = own.fget(self)
        if device.type == "cpu" and aule_is_default():
            return torch.device("aule", torch.aule.current_device())
        return device

    patches.set(owner, "default_device", property(default_device, own.fset, own.fdel, own.__doc__))


def _asked_processes() -> int | None:
    """The number after --num_processes in the command line of the launcher above, if it can be read."""
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    except (OSError, UnicodeDecodeError):
        return None
    found = None
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, value = word.replace("-", "_").partition("=")
        if name == "__num_processes":
            found = value if equals else following
    return int(found) if found is not None and found.isdecimal() else None


def _tell_of_one_process() -> None:
    """A launcher without the hooks knows no aule devices, and starts one process. The launched script notices."""
    launched = "ACCELERATE_MIXED_PRECISION" in os.environ and "LOCAL_RANK" not in os.environ
    if not launched or os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true") or not aule_is_default():
        return
    wanted = _asked_processes() or torch.aule.device_count()
    if wanted > 1:
        warnings.warn(
            f"torch_aule: accelerate's launcher started one process, not {wanted}, because it does not know aule "
            "devices: give it --multi_gpu beside --num_processes, or install torch_aule and take `accelerate launch`",
            stacklevel=2,
        )


def _processes(state: ModuleType, patches: Patches) -> None:
    """Without this a launched script would train on its own in each process: accelerate knows backends by device."""
    owner = attribute(state, "PartialState", type)
    prepare = attribute(owner, "_prepare_backend", FunctionType)
    place = attribute(owner, "set_device", FunctionType)
    parameters_of(prepare, "cpu", "sagemaker_dp", "backend")
    kinds = attribute(state, "DistributedType", type)
    _tell_of_one_process()

    @wrap(prepare)
    def _prepare_backend(self, cpu=False, sagemaker_dp=False, backend=None):
        found, kind = prepare(self, cpu, sagemaker_dp, backend)
        launched = int(os.environ.get("LOCAL_RANK", "-1")) != -1 and not cpu
        ours = self.device is None and aule_is_default() or self.device is not None and self.device.type == "aule"
        if kind != kinds.NO or not (launched and ours and distributed.is_available()):
            return found, kind
        if backend is not None and distributed.BACKEND not in backend:
            return found, kind
        return backend or distributed.BACKEND, kinds.MULTI_GPU

    @wrap(place)
    def set_device(self):
        if self.backend is None or distributed.BACKEND not in self.backend:
            return place(self)
        if self.device is None or self.device.index is None:
            self.device = torch.device("aule", self.local_process_index % torch.aule.device_count())
        return torch.aule.set_device(self.device)

    patches.set(owner, "_prepare_backend", _prepare_backend)
    patches.set(owner, "set_device", set_device)


def _launch(launch: ModuleType, patches: Patches) -> None:
    """The launcher counts devices that it knows by name, and starts one process where it knows none."""
    validate = attribute(launch, "_validate_launch_command", FunctionType)
    attribute(launch, "multi_gpu_launcher", FunctionType)
    parameters_of(validate, "args")
    config = attribute(launch, "default_config_file", str)
    none = attribute(launch, "DistributedType", type).NO
    # Flags that ask for another launcher than torchrun's for GPUs.
    others = ("cpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "mpirun_hostfile")

    @wrap(validate)
    def _validate_launch_command(args):
        ours = aule_is_default() and not args.cpu
        if ours and args.num_processes is None and args.config_file is None and not os.path.isfile(config):
            args.num_processes = torch.aule.device_count()
        args, defaults, precision_given = validate(args)
        wanted = ours and (args.num_processes or 0) > 1 and (defaults is None or defaults.distributed_type is none)
        if wanted and not args.use_cpu and not any(getattr(args, name) for name in others):
            args.multi_gpu = True
            args.num_machines = args.num_machines or 1
        return args, defaults, precision_given

    patches.rebind(validate, _validate_launch_command)


def _gpu_ids(launch: ModuleType, patches: Patches) -> None:
    for name in ("prepare_simple_launcher_cmd_env", "prepare_multi_gpu_env"):
        parameters_of(attribute(launch, name, FunctionType), "args")

    def with_ids(own):
        @wrap(own)
        def prepare(args):
            prepared = own(args)
            environment = prepared[1] if isinstance(prepared, tuple) else prepared
            if args.gpu_ids not in (None, "all") and aule_is_default():
                environment["TORCH_AULE_VISIBLE_DEVICES"] = args.gpu_ids
            return prepared

        return prepare

    for name in ("prepare_simple_launcher_cmd_env", "prepare_multi_gpu_env"):
        own = vars(launch)[name]
        patches.rebind(own, with_ids(own))


def _basic_config(default: ModuleType, patches: Patches) -> None:
    """``accelerate config default`` would write that there is but the CPU, and the launcher believes it."""
    own = attribute(default, "write_basic_config", FunctionType)
    parameters_of(own, "mixed_precision", "save_location")
    config = attribute(default, "ClusterConfig", type)
    parameters_of(config, "use_cpu", "num_processes", "distributed_type")
    parameters_of(getattr(config, "from_json_file", None), "json_file")
    parameters_of(getattr(config, "to_json_file", None), "json_file")

    @wrap(own)
    def write_basic_config(*args, **kwargs):
        path = own(*args, **kwargs)
        if path and aule_is_default():
            written = config.from_json_file(path)
            written.use_cpu, written.num_processes = False, torch.aule.device_count()
            if written.num_processes > 1:
                written.distributed_type = "MULTI_GPU"
            written.to_json_file(path)
        return path

    patches.rebind(own, write_basic_config)


def _fp16(accelerator: ModuleType, patches: Patches) -> None:
    constructor = attribute(attribute(accelerator, "Accelerator", type), "__init__", FunctionType)
    names = tuple_constant(constructor.__code__, "cuda", "xpu", "mps")
    if "aule" in names:
        raise NotAsExpected("not needed: this version takes the device itself")
    patches.set_constant(constructor, names, (*names, "aule"))


def _grad_scaler(modeling: ModuleType, patches: Patches) -> None:
    own = attribute(modeling, "get_grad_scaler")
    parameters_of(own, "distributed_type", "kwargs")

    @wrap(own)
    def get_grad_scaler(distributed_type=None, **kwargs):
        sharded = getattr(distributed_type, "value", distributed_type) == "FSDP"
        if sharded or sys.modules["accelerate.state"].PartialState().device.type != "aule":
            return own(distributed_type, **kwargs)
        return torch.amp.GradScaler("aule", **kwargs)

    patches.rebind(own, get_grad_scaler)


def _free_memory() -> tuple[dict[int, int], int]:
    """Free bytes of each device, and how many of them the CPU counts as its own."""
    devices, shared = {}, 0
    for index in range(torch.aule.device_count()):
        devices[index] = torch.aule.mem_get_info(index)[0]
        if torch.aule.get_device_properties(index).unified_memory:
            shared = max(shared, devices[index])
    return devices, shared


def _max_memory(modeling: ModuleType, patches: Patches) -> None:
    own = attribute(modeling, "get_max_memory")
    parameters_of(own, "max_memory")
    to_bytes = attribute(modeling, "convert_file_size_to_int")

    @wrap(own)
    def get_max_memory(max_memory=None):
        if not aule_is_default():
            return own(max_memory)
        if max_memory is None:
            found = own()
            if set(found) - {"cpu", "disk"}:
                return found
            devices, shared = _free_memory()
            if "cpu" in found:
                found["cpu"] = max(0, found["cpu"] - shared)
            return {**devices, **found}
        # Given limits: `own` would warn that there is no such device, and knows the rest. It changes texts to bytes in
        # place, and callers rely on that.
        max_memory.update({k: to_bytes(v) for k, v in max_memory.items() if isinstance(v, str)})
        ours = {k: max_memory[k] for k in sorted(k for k in max_memory if type(k) is int)}
        ours = {k: v for k, v in ours.items() if 0 <= k < torch.aule.device_count()}
        return {**ours, **own({k: v for k, v in max_memory.items() if k not in ours})}

    patches.rebind(own, get_max_memory)


def _rng_state(checkpointing: ModuleType, patches: Patches) -> None:
    save = attribute(checkpointing, "save_accelerator_state")
    load = attribute(checkpointing, "load_accelerator_state")
    save_parameters = parameters_of(save, "output_dir", "process_index")
    load_parameters = parameters_of(load, "input_dir", "process_index")

    @wrap(save)
    def save_accelerator_state(*args, **kwargs):
        given = save_parameters.bind(*args, **kwargs).arguments
        result = save(*args, **kwargs)
        save_rng_state(given["output_dir"], given["process_index"])
        return result

    @wrap(load)
    def load_accelerator_state(*args, **kwargs):
        given = load_parameters.bind(*args, **kwargs).arguments
        result = load(*args, **kwargs)
        load_rng_state(given["input_dir"], given["process_index"])
        return result

    patches.rebind(save, save_accelerator_state)
    patches.rebind(load, load_accelerator_state)


HOOKS = [
    Hook(
        "accelerate", "default_device", "accelerate.state",
        "Accelerator() and PartialState() take aule where they would take the CPU (ACCELERATE_TORCH_DEVICE wins)",
        _default_device, chooses_device=True,
    ),
    Hook(
        "accelerate", "processes", "accelerate.state",
        "scripts started by torchrun or accelerate launch make one group over aule devices", _processes,
        chooses_device=True,
    ),
    Hook(
        "accelerate", "launch", "accelerate.commands.launch",
        "accelerate launch starts --num_processes processes, or one for each aule device", _launch, chooses_device=True,
    ),
    Hook(
        "accelerate", "gpu_ids", "accelerate.utils.launch",
        "accelerate launch --gpu_ids names aule devices", _gpu_ids, chooses_device=True,
    ),
    Hook(
        "accelerate", "basic_config", "accelerate.commands.config.default",
        "accelerate config default writes how many aule devices there are", _basic_config, chooses_device=True,
    ),
    Hook("accelerate", "fp16", "accelerate.accelerator", "mixed_precision='fp16' is allowed on aule", _fp16),
    Hook(
        "accelerate", "grad_scaler", "accelerate.utils.modeling",
        "float16 training on aule gets GradScaler('aule') instead of a disabled one for CUDA", _grad_scaler,
    ),
    Hook(
        "accelerate", "max_memory", "accelerate.utils.modeling",
        "device_map='auto' counts the free memory of aule devices", _max_memory, chooses_device=True,
    ),
    Hook(
        "accelerate", "rng_state", "accelerate.checkpointing",
        "save_state and load_state keep the random state of aule devices, in random_state_aule_N.pt", _rng_state,
    ),
]  # fmt: skip
