"""The call of a generated kernel, and the head of its text."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen.common import SizeArg, TensorArg
from torch._inductor.virtualized import V

from torch_aule.compile.codegen.forms.form import Form
from torch_aule.compile.codegen.types import FLOAT8_SATURATES, compute_type

__all__ = ["head_of", "is_float_size", "params_of", "sizes_of"]


def is_float_size(expr) -> bool:
    """True for a size that is a floating-point number, as those of interpolation may be."""
    return getattr(expr, "is_integer", None) is False


def sizes_of(kernel: Any) -> list[str]:
    """Lines of main() that give the sizes among the arguments the names that indices have for them."""
    kind = kernel.index_type
    return [
        f"  const float {name} = p.{name};" if is_float_size(symbol) else f"  const {kind} {name} = {kind}(p.{name});"
        for symbol, name in kernel.args.sizevars.items()
    ]


def params_of(kernel: Any, form: Form) -> tuple[str, list[str], list[str]]:
    """The signature (launch.py), the arguments of a call, and the members of Params."""
    statements = form.facts.statements
    names, calls, kinds, _ = kernel.args.python_argdefs()
    loaded = {s.load.argument for s in statements if s.load is not None}
    atomic = {s.store.argument for s in statements if s.atomic}
    stored = {s.store.argument for s in statements if s.store is not None}
    signature, arguments, params = "", [], []
    for name, call, kind in zip(names, calls, kinds, strict=True):
        name = name.name
        if isinstance(kind, TensorArg):
            if name in kernel.host_scalars:
                dtype = kernel.host_scalars[name]
                signature += "h"
                params.append(f"{compute_type(dtype) if dtype != torch.bool else 'int'} {name};")
            else:
                reads, writes = name in loaded or name in atomic, name in stored
                signature += "m" if reads and writes else "w" if writes else "r"
                params.append(f"uint64_t {name};")
            arguments.append(call)
        elif isinstance(kind, SizeArg):
            is_float = is_float_size(kind.expr)
            signature += "f" if is_float else "l"
            params.append(f"{'float' if is_float else 'int64_t'} {name};")
            arguments.append(V.graph.wrapper_code.val_to_arg_str(call) if not isinstance(call, str) else call)
        else:
            raise NotImplementedError(f"generated kernels have no argument {kind}")
    if kernel.uses_errors:
        signature += "et"  # filled by the launch
        params += ["uint64_t errors;", "uint error_tag;"]
    if form.has_lanes:
        signature += "n"  # this, too
        params.append("uint digits[8];")
    return signature, arguments, params


def head_of(form: Form) -> list[str]:
    """Pragmas, extensions, macros, and the size of a workgroup."""
    facts, lines = form.facts, []
    if torch.float64 in facts.dtypes:
        lines += ["#pragma aule feature float64", "#define C_double"]
    if facts.device.software:
        lines.append("#define AULE_SOFTWARE")
    if form.shuffles:
        lines += [
            "#pragma aule feature subgroup_shuffle",
            "#extension GL_KHR_shader_subgroup_basic : require",
            "#extension GL_KHR_shader_subgroup_shuffle : require",
            "#define AULE_SHUFFLES",
        ]
    if any(s.atomic and s.store.dtype == torch.float32 for s in facts.statements) and facts.device.float32_atomic_add:
        lines += ["#pragma aule feature float32_atomic_add", "#extension GL_EXT_shader_atomic_float : require"]
        lines.append("#define AULE_ATOMIC_FLOAT")
    lines.append(f"#define VEC_ELEMS {max(form.work.vec, 4)}")
    if not FLOAT8_SATURATES:
        lines.append("#define AULE_FLOAT8_SATURATES false")
    lines.append(f"layout(local_size_x = {form.work.local}) in;")
    return lines
