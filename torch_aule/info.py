"""``python -m torch_aule.info [--kernels]``: devices, drivers, what serves attention and products, what is missing."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

import torch

_WIDTH = 110


def _capabilities() -> dict[str, str]:
    """Capabilities of get_device_properties(), and what their lack means; "" where no program notices."""
    from torch_aule import _C

    return dict(_C.capabilities())


def _gib(n: int) -> str:
    return f"{n / 2**30:.2f} GiB"


def _row(head: str, text: str) -> list[str]:
    """`head`, then `text` beside it in as many lines as it takes."""
    return textwrap.wrap(text, _WIDTH, initial_indent=f"  {head:14}", subsequent_indent=" " * 16)


def _on_matrix_units(index: int) -> tuple[list[str], list[str]]:
    """16-bit dtypes that attention and products take on matrix units: with the layout known, and without."""
    from torch_aule import _C

    layouts = {name: _C.matrix_layout(index, name == "bfloat16") for name in ("float16", "bfloat16")}
    known = [name for name, layout in layouts.items() if layout["usable"] and layout["known"]]
    return known, [name for name, layout in layouts.items() if layout["usable"] and name not in known]


def _serving(index: int, software: bool) -> dict[str, str]:
    """The units that attention and matrix products run on, in words."""
    if software:  # whose matrix units, if any, are slower than its lanes
        return {"attention": "all by vector lanes of the CPU", "products": "all by vector lanes of the CPU"}
    known, unknown = _on_matrix_units(index)
    if not known and not unknown:
        return {"attention": "all by multiply-adds", "products": "all by multiply-adds"}
    attention = [f"{', '.join(known)} on matrix units"] if known else []
    if unknown:
        attention.append(f"{', '.join(unknown)} on matrix units through shared memory (their element order is unknown)")
    both = ", ".join([*known, *unknown])
    return {
        "attention": "; ".join([*attention, "else by multiply-adds"]),
        "products": f"{both} on matrix units; else by multiply-adds",
    }


def _device_lines(index: int, kernels: bool) -> list[str]:
    from torch_aule import _C
    from torch_aule.backend.devices import get_device_properties

    p = get_device_properties(index)
    values = p.as_dict()
    lines = [f"aule:{index}  {p.name} ({p.kind})"]
    lines += _row("driver", f"{p.driver_name} {p.driver_info}, Vulkan {'.'.join(map(str, p.vulkan_version))}")
    lines += _row("uuid", p.uuid)
    lines += _row("memory", f"{_gib(p.total_memory)}, largest allocation {_gib(p.max_allocation_bytes)}")
    if values["created"]:
        for what, text in _serving(index, p.kind == "cpu").items():
            lines += _row(what, text)
    else:
        lines += _row("attention", "known once the device is used")
    software = p.kind == "cpu"
    missing = [
        f"{name}: {text}"
        for name, text in _capabilities().items()
        if text and not values.get(name) and not (software and name == "cooperative_matrix")
    ]
    for head, text in zip(["missing", *[""] * len(missing)], missing or ["nothing"]):
        lines += _row(head, text)
    if values["driver_loop_limit"] or values["max_loop_iterations"]:
        driver = values["driver_loop_limit"] or "no number of"
        asked = "" if values["created"] else " (assumed: the device was not created)"
        planned = f", kernels plan with {values['max_loop_iterations'] or 'no limit'}"
        lines += _row("loops", f"end after {driver} iterations of one invocation{asked}{planned}")
    if not kernels:
        return lines
    lines += _row(
        "subgroup",
        f"{p.subgroup_size} ({p.min_subgroup_size} to {p.max_subgroup_size}), workgroup {p.max_workgroup_invocations}, "
        f"shared {p.max_shared_bytes // 1024} KiB, push constants {p.max_push_constant_bytes} B",
    )
    lines += _row("has", ", ".join(name for name in _capabilities() if values.get(name)) or "-")
    lines += _row("has not", ", ".join(name for name in _capabilities() if not values.get(name)) or "-")
    for shape in values.get("coopmat_shapes", []):
        lines += _row("matrix unit", str(shape))
    used = _C.active_pipelines(index)
    return lines + _row("pipelines", f"{len(used)} in use" + (": " + ", ".join(sorted(used)) if used else ""))


def _kernel_lines() -> list[str]:
    from torch_aule import _C

    families: dict[str, list[int]] = {}
    for name, size, supported in _C.registered_kernels():
        entry = families.setdefault(name.split("<")[0], [0, 0, 0])
        entry[0] += bool(supported)
        entry[1] += 1
        entry[2] += size
    return [
        f"  {family:32} {good:4} of {every:<4} {size / 1024:8.1f} KiB"
        for family, (good, every, size) in sorted(families.items())
    ]


def backend_info(kernels: bool = False) -> str:
    """The text that :func:`print_backend_info` prints.

    Parameters
    ----------
    kernels : bool, default False
        Also limits, capabilities by name, shapes of the matrix units, pipelines in use, and every kernel's variants.

    Returns
    -------
    str
        One screen: versions; for each device its driver, memory, what serves attention and products, and what is
        missing and why. Without a device, why there is none.
    """
    from torch_aule import _C, __version__
    from torch_aule.backend.fallback import is_strict

    count = _C.device_count()
    lines = [f"torch_aule {__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"]
    if count == 0:
        lines.append(f"no device: {_C.unavailable_reason()}")
        return "\n".join(lines)
    for index in range(count):
        lines += _device_lines(index, kernels)
    registered = _C.registered_kernels()
    active = sum(bool(supported) for _, _, supported in registered)
    total = sum(size for _, size, _ in registered)
    lines.append(
        f"kernels: {active} of {len(registered)} variants run on aule:{_C.current_device()}, "
        f"{total // 1024} KiB of SPIR-V"
    )
    if kernels:
        lines += _kernel_lines()
    lines.append(f"operators: {len(native_ops())} native overloads, strict mode {'on' if is_strict() else 'off'}")
    return "\n".join(lines)


def get_include() -> str:
    """The folder of ``aule.h``, the C interface's header."""
    return str(Path(__file__).with_name("include"))


def native_ops() -> list[str]:
    """Overloads that have a kernel of this backend, by their full names."""
    return sorted(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))


def print_backend_info(kernels: bool = False) -> None:
    """Print what :func:`backend_info` gives.

    Parameters
    ----------
    kernels : bool, default False
        As there.
    """
    print(backend_info(kernels))


if __name__ == "__main__":
    import torch_aule  # noqa: F401  registers the backend

    parser = argparse.ArgumentParser(prog="python -m torch_aule.info", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--kernels", action="store_true", help="limits, capabilities by name, and every kernel")
    options = parser.parse_args()
    for index in range(torch.aule.device_count()):
        torch.empty(1, device=f"aule:{index}")  # some things only the created device answers
    print_backend_info(options.kernels)
