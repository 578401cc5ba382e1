"""``python -m torch_aule.info``: devices, what they can do, their drivers, and which kernel variants serve them."""

from __future__ import annotations

import sys

import torch

_FEATURES = [
    "unified_memory",
    "float16",
    "bfloat16",
    "float64",
    "int8",
    "int16",
    "int_dot_product",
    "float32_atomic_add",
    "shared_float32_atomic_add",
    "subgroup_basic",
    "subgroup_arithmetic",
    "subgroup_shuffle",
    "subgroup_ballot",
    "subgroup_size_control",
    "full_subgroups",
    "cooperative_matrix",
    "cooperative_matrix2",
    "sparse_binding",
    "memory_budget",
    "device_fault",
    "pipeline_executable_properties",
]


def _gib(n: int) -> str:
    return f"{n / 2**30:.2f} GiB"


def _device_lines(index: int) -> list[str]:
    from torch_aule import _C
    from torch_aule.device import get_device_properties

    p = get_device_properties(index)
    values = p.as_dict()
    have = [name for name in _FEATURES if values.get(name)]
    lack = [name for name in _FEATURES if name in values and not values[name]]
    lines = [
        f"aule:{index}  {p.name} ({p.kind})",
        f"  driver        {p.driver_name} {p.driver_info}, Vulkan {'.'.join(map(str, p.vulkan_version))}",
        f"  uuid          {p.uuid}",
        f"  memory        {_gib(p.total_memory)}, largest allocation {_gib(p.max_allocation_bytes)}",
        f"  subgroup      {p.subgroup_size} ({p.min_subgroup_size} to {p.max_subgroup_size}), "
        f"workgroup {p.max_workgroup_invocations}, shared {p.max_shared_bytes // 1024} KiB, "
        f"push constants {p.max_push_constant_bytes} B",
        f"  has           {', '.join(have) or '-'}",
        f"  has not       {', '.join(lack) or '-'}",
    ]
    if values["driver_loop_limit"] or values["max_loop_iterations"]:
        driver = values["driver_loop_limit"] or "no number of"
        asked = "" if values["created"] else " (assumed: the device was not created)"
        planned = f", kernels plan with {values['max_loop_iterations'] or 'no limit'}"
        lines.append(f"  loops         end after {driver} iterations of one invocation{asked}{planned}")
    for shape in values.get("coopmat_shapes", []):
        lines.append(f"  matrix unit   {shape}")
    used = _C.active_pipelines(index)
    lines.append(f"  pipelines     {len(used)} in use" + (": " + ", ".join(sorted(used)) if used else ""))
    return lines


def backend_info() -> str:
    """The text that :func:`print_backend_info` prints."""
    from torch_aule import _C, __version__
    from torch_aule.fallback import is_strict

    count = _C.device_count()
    lines = [f"torch_aule {__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"]
    if count == 0:
        lines.append(f"no device: {_C.unavailable_reason()}")
        return "\n".join(lines)
    for index in range(count):
        lines += _device_lines(index)
    kernels = _C.registered_kernels()
    families: dict[str, list[int]] = {}
    for name, size, supported in kernels:
        entry = families.setdefault(name.split("<")[0], [0, 0, 0])
        entry[0] += bool(supported)
        entry[1] += 1
        entry[2] += size
    total = sum(size for _, size, _ in kernels)
    active = sum(bool(supported) for _, _, supported in kernels)
    lines.append(
        f"kernels: {active} of {len(kernels)} variants run on aule:{_C.current_device()}, {total // 1024} KiB of SPIR-V"
    )
    for family, (good, every, size) in sorted(families.items()):
        lines.append(f"  {family:32} {good:4} of {every:<4} {size / 1024:8.1f} KiB")
    lines.append(f"operators: {len(native_ops())} native overloads, strict mode {'on' if is_strict() else 'off'}")
    return "\n".join(lines)


def native_ops() -> list[str]:
    """Overloads that have a kernel of this backend, by their full names."""
    return sorted(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))


def print_backend_info() -> None:
    """Print devices, capabilities, drivers and active kernel variants."""
    print(backend_info())


if __name__ == "__main__":
    import torch_aule  # noqa: F401  registers the backend

    for index in range(torch.aule.device_count()):
        torch.empty(1, device=f"aule:{index}")  # some things only the created device answers
    print_backend_info()
