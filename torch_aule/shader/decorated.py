"""The GLSL around a function's docstring: what `torch_aule.jit` compiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch

from torch_aule.glsl.spirv import ShaderError

ELEMENTS = {
    "float16": "float16_t", "float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t",
    "int32": "int", "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint", "bool": "uint8_t",
}  # fmt: skip
NUMBERS = {"float": "float", "int": "int64_t"} | {t: t for t in ("double", "int32_t", "int64_t", "uint32_t", "uint")}
TAKEN = ("i", "threads")  # of the body


def _word(function: str, name: str, annotation: object) -> str:
    """An annotation as the name of a dtype or of a number."""
    if isinstance(annotation, type) and annotation is not inspect.Parameter.empty:
        annotation = annotation.__name__
    if not isinstance(annotation, (str, torch.dtype)):
        raise ShaderError(f"{function}: {name} has no annotation like torch.float32, float or int")
    return str(annotation).strip("'\"").removeprefix("torch.")


def source_of(function: Callable, header: str) -> str:
    """The shader of a function: its parameters as arguments, and its docstring as the body of main."""
    name = function.__name__
    body = inspect.getdoc(function)
    if not body:
        raise ShaderError(f"{name}: no docstring, which is the body of the kernel (python -OO removes it)")
    blocks, members, macros = [], [], []
    for parameter in inspect.signature(function).parameters.values():
        own = parameter.name
        word = _word(name, own, parameter.annotation)
        if own in TAKEN or parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise ShaderError(f"{name}: {own} cannot be a parameter of a kernel")
        if word in NUMBERS:
            members.append(f"{NUMBERS[word]} {own};")
            continue
        if word not in ELEMENTS:
            known = ", ".join([*NUMBERS, *ELEMENTS])
            raise ShaderError(f"{name}: {own} is annotated with '{word}', which is none of {known}")
        align = getattr(torch, word).itemsize
        blocks.append(
            f"layout(buffer_reference, scalar, buffer_reference_align = {align}) buffer {own}_buffer "
            f"{{ {ELEMENTS[word]} at[]; }};"
        )
        members.append(f"{own}_buffer {own};")
        macros.append(f"#define {own} {own}.at")  # no macro is expanded within itself
    return "\n".join(
        [
            *blocks,
            f"params {{ {' '.join(members)} uint threads; }};",
            "#include <aule/common/indexing.glsl>",
            *macros,
            header,
            "void main() {",
            "const uint i = uint(linear_invocation());",
            "#line 1 0",
            body,
            "}",
        ]
    )
