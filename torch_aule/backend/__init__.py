"""``torch.aule``: the device module, put together from its parts.

It answers the calls that programs written for ``torch.cuda`` make. What a Vulkan device cannot tell is documented at
the function rather than made up.
"""

from __future__ import annotations

from torch import OutOfMemoryError

from torch_aule import indices as _utils  # noqa: F401  PyTorch looks there for index helpers
from torch_aule.backend import amp, graphs, memory, random
from torch_aule.backend.amp import get_amp_supported_dtype
from torch_aule.backend.devices import (
    _is_in_bad_fork,  # noqa: F401  PyTorch asks for these two by name
    _lazy_init,  # noqa: F401
    _shutdown,  # noqa: F401  by its name
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_sync_debug_mode,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    set_sync_debug_mode,
    synchronize,
    unavailable_reason,
)
from torch_aule.backend.fallback import fallback_report, is_strict, reset_fallback_report, set_strict, strict
from torch_aule.backend.graphs import (
    Graph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from torch_aule.backend.memory import (
    empty_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    recommended_max_memory,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_max_memory_reserved,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_aule.backend.random import (
    _get_generator,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_aule.backend.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    in_flight,
    set_in_flight_limit,
    set_stream,
    stream,
)
from torch_aule.backend.telemetry import (
    can_device_access_peer,
    clock_rate,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)

# torch.utils.checkpoint keeps and restores the random state of a device only when its module says this.
_initialized = True

__all__ = [
    "BFloat16Tensor",  # noqa: F822  by __getattr__
    "BoolTensor",  # noqa: F822  by __getattr__
    "ByteTensor",  # noqa: F822  by __getattr__
    "CharTensor",  # noqa: F822  by __getattr__
    "DoubleTensor",  # noqa: F822  by __getattr__
    "Event",
    "ExternalStream",
    "FloatTensor",  # noqa: F822  by __getattr__
    "Graph",
    "HalfTensor",  # noqa: F822  by __getattr__
    "IntTensor",  # noqa: F822  by __getattr__
    "LongTensor",  # noqa: F822  by __getattr__
    "OutOfMemoryError",
    "ShortTensor",  # noqa: F822  by __getattr__
    "Stream",
    "StreamContext",
    "amp",
    "available_variants",  # noqa: F822  by __getattr__
    "can_device_access_peer",
    "clock_rate",
    "compile_shader",  # noqa: F822  by __getattr__
    "current_device",
    "current_stream",
    "default_generators",  # noqa: F822  made on first use, by __getattr__
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback_report",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "in_flight",
    "set_in_flight_limit",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_strict",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "power_draw",
    "profiler",  # noqa: F822  torch_aule/_register.py adds it: profiler stands above the backend
    "random",
    "recommended_max_memory",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_fallback_report",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_max_memory_reserved",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_kernel_variant",  # noqa: F822  by __getattr__
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_strict",
    "set_sync_debug_mode",
    "stream",
    "strict",
    "synchronize",
    "temperature",
    "unavailable_reason",
    "utilization",
]


def __getattr__(name: str):
    if name == "default_generators":  # made on demand: asking for it at import would enumerate devices
        return tuple(_get_generator(i) for i in range(device_count()))
    if name.endswith("Tensor"):
        from torch_aule.backend.tensor_types import TYPES

        if name in TYPES:
            return TYPES[name]
    # By the door, which loads them on demand: they stand above the backend.
    if name in ("available_variants", "compile_shader", "set_kernel_variant"):
        import torch_aule

        return getattr(torch_aule, name)
    raise AttributeError(f"module 'torch.aule' has no attribute {name!r}")
