"""From TTIR to a whole GLSL file. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from torch_aule.triton import control, elementwise
from torch_aule.triton.checks import bounds_members, site_members
from torch_aule.triton.facts import known, pointer_arguments
from torch_aule.triton.ir import Function, Op, Value
from torch_aule.triton.layout import Layout
from torch_aule.triton.matrices import Matrix
from torch_aule.triton.places import place
from torch_aule.triton.prefetch import prefetch
from torch_aule.triton.products import product_layout
from torch_aule.triton.reader import read
from torch_aule.triton.writer import Device, Writer

__all__ = ["Kernel", "write_kernel"]

_LETTERS = {"i64": "l", "f32": "f", "f64": "d"}


@dataclass(frozen=True)
class Kernel:
    """A kernel's text and how it is called.

    Attributes
    ----------
    name : str
    source : str
        GLSL for `torch_aule.shader.generated.compile_generated`.
    signature : str
        A letter for each of its arguments, in the order of the TTIR's, then of the grid's sizes.
    shared_bytes : int
        Of a workgroup.
    """

    name: str
    source: str
    signature: str
    shared_bytes: int


def _exchanged(function: Function, pointers: dict) -> frozenset[Value]:
    """Arguments whose memory a kernel both reads and writes: what is written may be another invocation's next read."""
    read, written = set(), set()
    for op in function.walk():
        if op.name in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"):
            found = pointers.get(op.operands[0], frozenset())
            if op.name != "tt.store":
                read |= found
            if op.name != "tt.load":
                written |= found
    return frozenset(read & written)


def write_kernel(ttir: str, device: Device, threads: int, *, ahead: bool = True, check_bounds: bool = False) -> Kernel:
    """Write a kernel.

    Parameters
    ----------
    ttir : str
        A module as Triton prints it.
    device : Device
    threads : int
        Invocations of a workgroup, a power of two.
    ahead : bool, default True
        Loops load for their products one turn ahead.
    check_bounds : bool, default False
        Whether the kernel leaves out and reports what is outside of its tensors' storages. It then takes, behind the
        grid's sizes, two numbers for each tensor: bytes of its storage before its first element, and from there on.

    Returns
    -------
    Kernel

    Raises
    ------
    Unsupported
        With the place in the user's file, if the kernel has what is not served.
    """
    function = read(ttir)
    if ahead:
        prefetch(function, pointer_arguments(function))
    facts, pointers = known(function), pointer_arguments(function)
    matrices: dict[Layout, Matrix] = {}
    several = sum(op.name == "tt.dot" for op in function.walk()) > 1  # of attention: rows are reduced between them

    def layout_of(op: Op) -> Layout:
        layout, matrix = product_layout(op, threads, device, several)
        if matrix is not None:
            matrices[layout] = matrix
        return layout

    w = Writer(function, facts, place(function, facts, threads, layout_of), pointers, device, threads)
    w.matrices = matrices
    w.exchanged = _exchanged(function, pointers)
    w.check_bounds = check_bounds
    members, letters = [], []
    for i, argument in enumerate(function.arguments):
        kind = argument.type.element
        text = f"p.a{i}"
        members.append(f"  {_member(kind)} a{i};")
        letters.append(_LETTERS.get(kind, "i"))
        if kind == "i1":
            text = f"({text} != 0)"
        elif kind in ("i8", "i16", "f16", "bf16"):
            text = f"{elementwise.GLSL[kind]}({text})"
            letters[-1] = "f" if argument.type.is_float else "i"
        w.bind_scalar(argument, text)
    control.body(w, function.entry)
    for i, argument in enumerate(function.arguments):
        if argument.type.element == "ptr":
            letters[i] = {(True, True): "m", (False, True): "w"}.get((argument in w.reads, argument in w.writes), "r")
    members += ["  uint grid_x;", "  uint grid_y;", "  uint grid_z;"]
    letters += ["u", "u", "u"]
    if check_bounds:
        bounds = bounds_members(function.arguments)
        members += bounds
        letters += ["l"] * len(bounds)
    if w.asserts:
        members += site_members(w)
        letters += ["u"] * len(w.sites)
        members += ["  uint64_t errors;", "  uint error_tag;"]
        letters += ["e", "t"]
    shared = w.words * 4 + sum(elementwise.SIZES[name.split("_", 1)[1]] * count for name, count in w.arrays.items())
    source = "\n".join([*_head(w, members), *w.functions, *_main(w)]) + "\n"
    return Kernel(function.name, source, "".join(letters), shared)


def _member(kind: str) -> str:
    return {"ptr": "uint64_t", "i64": "int64_t", "f32": "float", "f64": "double", "f16": "float", "bf16": "float"}.get(
        kind, "int"
    )


def _head(w: Writer, members: list[str]) -> list[str]:
    doubles = any(value.type.element == "f64" for op in w.function.walk() for value in (*op.results, *op.operands))
    if w.device.subgroup > 1:
        w.extensions |= {"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle"}
    lines = [f"#extension {name} : require" for name in sorted(w.extensions)]
    lines += ["#define C_double\n#define TRITON_DOUBLE" if doubles else "", "struct Params {", *members, "};"]
    lines.append(f"layout(local_size_x = {w.threads}) in;")  # indexing.glsl reads it
    lines += ['#include "common/triton.glsl"', '#include "common/params.glsl"']
    if w.asserts:
        lines.append('#include "common/errors.glsl"')
    lines += w.references.values()
    if w.words:
        lines.append(f"shared uint words[{w.words}];")
    lines += [f"shared {name.split('_', 1)[1]} {name}[{count}];" for name, count in w.arrays.items()]
    return [line for line in lines if line]


def _main(w: Writer) -> list[str]:
    subgroups = "int(gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID)"
    tid = subgroups if w.device.subgroup > 1 else "int(gl_LocalInvocationID.x)"
    return [
        "void main() {",
        "const uint group = linear_group();",
        "const uvec3 program = uvec3(group % p.grid_x, group / p.grid_x % p.grid_y, group / p.grid_x / p.grid_y);",
        "if (program.z >= p.grid_z) return;",
        f"const int tid = {tid};",
        *w.head,
        *w.lines,
        "}",
    ]
