"""The C++ front of the kernels: params structs, `kernel::<name>(axis...)` lookups, the table with the SPIR-V."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from pathlib import Path

from torch_aule.glsl.shader_source import DTYPES, FEATURES, Shader, shown
from torch_aule.glsl.spirv import ShaderError

# Axis values that C++ cannot take as enumerators.
CPP_KEYWORDS = {
    "and", "auto", "bool", "break", "case", "char", "class", "const", "continue", "default", "delete", "do", "double",
    "else", "enum", "explicit", "export", "false", "float", "for", "if", "inline", "int", "long", "namespace", "new",
    "not", "or", "private", "public", "register", "return", "short", "signed", "static", "struct", "switch", "this",
    "true", "union", "unsigned", "using", "void", "while", "xor",
}  # fmt: skip


def write_if_changed(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == data:
        return
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def local_size(shader: Shader) -> int | None:
    """Invocations of a workgroup, where the source has one number for all variants and one dimension; else None."""
    found = {tuple(re.findall(r"layout\(local_size_x = (\d+)\) in;", variant.text)) for variant in shader.variants}
    (sizes, *others) = found
    return int(sizes[0]) if len(sizes) == 1 and not others else None


def emit_params(shader: Shader) -> list[str]:
    struct = f"{shader.camel}Params"
    lines = [f"struct {struct} {{"]
    if (local := local_size(shader)) is not None:
        lines.append(f"  static constexpr uint32_t kLocal = {local};  // invocations of a workgroup")
    at = padding = 0

    def pad(to: int) -> None:
        nonlocal padding, at
        if to > at:
            lines.append(f"  uint8_t padding{padding}_[{to - at}];")
            padding += 1
            at = to

    for member in shader.params:
        if member.offset < at:
            raise ShaderError(f"{shown(shader.source.path)}: Params::{member.name} overlaps the member before it")
        pad(member.offset)
        lines.append(f"  {member.cpp_type} {member.name}{f'[{member.count}]' if member.count else ''};")
        at += member.bytes
    pad(shader.params_bytes)
    lines.append("};")
    lines.append(f"static_assert(sizeof({struct}) == {shader.params_bytes});")
    for member in shader.params:
        lines.append(f"static_assert(offsetof({struct}, {member.name}) == {member.offset});")
    return lines


def emit_spec(shader: Shader, like: Shader | None) -> list[str]:
    """One member per specialization constant, in the order of their numbers; a name ending in DTYPE takes a DType.

    Shaders of a family with the same constants share a type: `like` is the first of them.
    """
    struct = f"{shader.camel}Spec"
    if not shader.constants:
        return [f"using {struct} = NoSpec;"]
    if like is not None:
        return [f"using {struct} = {like.camel}Spec;"]
    lines = [f"struct {struct} {{"]
    for number in range(shader.constants[-1].number + 1):
        constant = next((c for c in shader.constants if c.number == number), None)
        if constant is None:
            lines.append(f"  SpecUint unused{number}_{{0u}};")
            continue
        name, value = enumerator(constant.name.lower()), constant.default
        signed = value - (1 << 32) if value >= 1 << 31 else value
        if constant.type == "int" and constant.name.endswith("DTYPE"):
            kind, default = "SpecDType", f"SpecDType::of_code({signed})"
        else:
            kind, default = {
                "int": ("SpecInt", f"{signed}"),
                "uint": ("SpecUint", f"{value}u"),
                "bool": ("SpecBool", "true" if value else "false"),
                "float": ("float", f"std::bit_cast<float>({value}u)"),
            }[constant.type]
        lines.append(f"  {kind} {name}{{{default}}};")
    return [*lines, "};"]


def enumerator(value: str) -> str:
    return value + "_" if value in CPP_KEYWORDS else value


def emit_lookup(shader: Shader) -> list[str]:
    """`kernel::name(axes...)`: each axis value becomes its position, the positions an id."""
    lines = []
    for axis in shader.axes:
        if shader.kind(axis) not in ("int", "DType"):
            values = ", ".join(enumerator(value) for value in shader.axes[axis])
            lines.append(f"enum class {shader.kind(axis)} : uint8_t {{ {values} }};")
    ref = f"KernelRef<{shader.camel}Params, {shader.camel}Spec>"
    lines.append("namespace kernel {")
    lines.append(f"namespace id {{ extern const uint32_t {shader.name}; }}")
    parameters = ", ".join(f"{shader.kind(axis)} {axis}_" for axis in shader.axes)
    lines.append(f"inline {ref} {shader.name}({parameters}) {{")
    if not shader.axes:
        lines += [f"  return {{KernelId{{id::{shader.name}}}}};", "}", "}  // namespace kernel"]
        return lines
    lines.append("  unsigned at = 0;")
    for axis, values in shader.axes.items():
        kind = shader.kind(axis)
        if kind not in ("int", "DType"):
            lines.append(f"  at = at * {len(values)} + static_cast<unsigned>({axis}_);")
            continue
        lines.append(f"  switch ({axis}_) {{")
        taken = set()
        for position, value in enumerate(values):
            label = value if kind == "int" else f"DType::{DTYPES[value]}"
            if label in taken:
                raise ShaderError(f"{shown(shader.source.path)}: axis {axis}: two values mean {label}")
            taken.add(label)
            lines.append(f"    case {label}: at = at * {len(values)} + {position}; break;")
        lines.append(
            f'    default: throw std::invalid_argument("kernel {shader.name} has no variant for this {axis}");'
        )
        lines.append("  }")
    combinations = list(itertools.product(*shader.axes.values()))
    if len(combinations) == len(shader.variants):
        lines.append(f"  return {{KernelId{{id::{shader.name} + at}}}};")
    else:
        present = {tuple(variant.values.values()): index for index, variant in enumerate(shader.variants)}
        table = ", ".join(str(present.get(combination, -1)) for combination in combinations)
        lines.append(f"  static constexpr int kOffset[] = {{{table}}};")
        lines.append(
            f'  if (kOffset[at] < 0) throw std::invalid_argument("kernel {shader.name} skips this combination");'
        )
        lines.append(f"  return {{KernelId{{id::{shader.name} + kOffset[at]}}}};")
    return [*lines, "}", "}  // namespace kernel"]


def emit_family(family: str, shaders: list[Shader]) -> str:
    lines = [
        f"// Generated by torch_aule/glsl from shaders/{family}/*.comp.",
        "#pragma once",
        "#include <bit>",
        "#include <cstddef>",
        "#include <cstdint>",
        "#include <stdexcept>",
        "",
        '#include "kernels/launch.h"',
        "",
        "namespace aule {",
    ]
    for position, shader in enumerate(shaders):
        like = next((other for other in shaders[:position] if other.constants == shader.constants), None)
        lines += ["", *emit_params(shader), *emit_spec(shader, like), *emit_lookup(shader)]
    return "\n".join([*lines, "", "}  // namespace aule", ""])


#: What kernels.bin begins with (csrc/kernels/builtin.h).
MAGIC = b"AULEKRN1"


def kernels_file(spirv: bytes, content_hash: int) -> bytes:
    """The content of kernels.bin: a header of 16 bytes that states whose SPIR-V it is, and the SPIR-V."""
    return MAGIC + content_hash.to_bytes(8, "little") + spirv


def emit_table(shaders: list[Shader], out: Path) -> None:
    blob = bytearray()
    places: dict[str, int] = {}
    rows, bases = [], []
    digest = hashlib.sha256()
    for shader in shaders:
        bases.append(f"extern const uint32_t {shader.name};\nconst uint32_t {shader.name} = {len(rows)};")
        for variant in shader.variants:
            if variant.key not in places:
                places[variant.key] = len(blob)
                blob += variant.spirv
            features = " | ".join(FEATURES[name] for name in variant.features()) or "0"
            digest.update(f"{variant.label} {features} {shader.params_bytes}".encode() + variant.spirv)
            rows.append(
                f'    {{"{variant.label}", {places[variant.key]}, {len(variant.spirv)}, {features}, '
                f"{shader.params_bytes}, {'true' if shader.params_ring else 'false'}}},"
            )
    content_hash = int(digest.hexdigest()[:16], 16)
    write_if_changed(out / "kernels.bin", kernels_file(bytes(blob), content_hash))
    # An array must have a row; the count tells.
    body = "\n".join(rows) or "    {nullptr, 0, 0, 0, 0, false},"
    write_if_changed(
        out / "kernels.gen.cpp",
        f"""// Generated by torch_aule/glsl.
#include "core/caps.h"
#include "core/kernel_source.h"

namespace aule {{
namespace kernel::id {{
{chr(10).join(bases)}
}}  // namespace kernel::id

const BuiltinKernel kBuiltinKernels[] = {{
{body}
}};
const uint32_t kBuiltinKernelCount = {len(rows)};
const uint64_t kBuiltinKernelsHash = 0x{content_hash:x}ull;

}}  // namespace aule
""",
    )
