"""A shader as the build reads it: includes inlined, `#pragma aule` lines understood, one text for each variant."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch_aule.glsl.inlining import inlined
from torch_aule.glsl.pruning import COMMENT, WORD, Outline, outline, unused
from torch_aule.glsl.spirv import Constant, Member, ShaderError

ROOT = Path(__file__).resolve().parents[2]
SHADERS = ROOT / "shaders"
# An installed package carries what kernels compiled at run time include (setup.py).
INSTALLED = Path(__file__).resolve().parent / "include"
INCLUDE_DIRS = [INSTALLED] if INSTALLED.is_dir() else [SHADERS, ROOT / "csrc" / "core"]

EXTENSIONS = [
    "GL_EXT_buffer_reference",
    "GL_EXT_buffer_reference2",
    "GL_EXT_scalar_block_layout",
    "GL_EXT_shader_explicit_arithmetic_types_int64",
    "GL_EXT_shader_16bit_storage",
    "GL_EXT_shader_8bit_storage",
    "GL_EXT_control_flow_attributes",
]

# `#pragma aule feature` names -> the bits of csrc/core/capabilities.def.
FEATURES = {
    name: f"feature::{name}"
    for name in (
        "float16", "bfloat16", "float64", "float32_atomic_add", "subgroup_arithmetic", "subgroup_shuffle",
        "subgroup_ballot", "cooperative_matrix", "cooperative_matrix2", "int8", "int16", "int_dot_product",
    )
}  # fmt: skip

# Axis values that stand for a storage dtype -> DType enumerators of csrc/core/dtype.h.
DTYPES = {
    "float": "f32", "f32": "f32", "double": "f64", "f64": "f64",
    "float16_t": "f16", "half": "f16", "f16": "f16", "bfloat16_t": "bf16", "bf16": "bf16",
    "int8_t": "i8", "i8": "i8", "uint8_t": "u8", "u8": "u8", "int16_t": "i16", "i16": "i16",
    "int": "i32", "int32_t": "i32", "i32": "i32", "int64_t": "i64", "i64": "i64", "bool": "b8", "b8": "b8",
    "raw1": "raw1", "raw2": "raw2", "raw4": "raw4", "raw8": "raw8", "raw16": "raw16",
    "vec2": "c64", "dvec2": "c128",
}  # fmt: skip


# <aule/common/dtype.glsl> is "common/dtype.glsl", for those who write shaders elsewhere.
INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|<aule/([^>]+)>)')


def shown(path: Path) -> str:
    """The path as a person types it."""
    try:
        return os.path.relpath(path)
    except ValueError:  # another drive on Windows
        return str(path)


class Source:
    """One shader with its includes inlined; `text` stands for what the file says, if there is none.

    `#line` directives number the files (`#line 7 2` is line 7 of files[2]), so that the compiler's messages and
    `__LINE__` (the id of an op row) speak of the original files.
    """

    def __init__(self, path: Path, text: str | None = None):
        self.path = path
        self.text = path.read_text(encoding="utf-8") if text is None else text
        self.has_folder = text is None
        self.files: list[Path] = []
        self.lines: list[str] = []
        self._slices: list[tuple[Path, int, int, int]] = []  # of included files: path, first and end line, place here
        self._inline(path, [])

    def _inline(self, path: Path, stack: list[Path]) -> None:
        if path in stack:
            raise ShaderError(f"{shown(stack[-1])}: includes itself through {shown(path)}")
        if path not in self.files:
            self.files.append(path)
        number = self.files.index(path)
        self.lines.append(f"#line 1 {number}")
        lines, includes = _read(path) if stack else _parsed(self.text)
        done = 0
        for line_number, name in includes:
            self._append(path, lines, done, line_number - 1, stack)
            done = line_number
            target = self._find(name, path)
            if target is None:
                raise ShaderError(f'{shown(path)}:{line_number}: cannot find include "{name}"')
            self._inline(target, [*stack, path])
            self.lines.append(f"#line {line_number + 1} {number}")
        self._append(path, lines, done, len(lines), stack)

    def _append(self, path: Path, lines: list[str], first: int, end: int, stack: list[Path]) -> None:
        if stack:
            self._slices.append((path, first, end, len(self.lines)))
        self.lines += lines[first:end]

    def pruned(self, words: Iterable[str]) -> list[str]:
        """The lines without the functions of included files that nothing calls; `words` may call some, too."""
        outlines = {path: _outline(path) for path, *_ in self._slices}
        own = WORD.findall(COMMENT.sub("", self.text))
        gone = unused(outlines.values(), {*own, *words})
        lines = list(self.lines)
        for path, first, end, place in self._slices:
            for function in outlines[path].functions:
                if function in gone and first <= function.first and function.last < end:
                    start, count = place + function.first - first, function.last + 1 - function.first
                    lines[start : start + count] = [""] * count
        return lines

    def _find(self, name: str, includer: Path) -> Path | None:
        own_folder = [includer.parent] if self.has_folder or includer != self.path else []
        for folder in [*INCLUDE_DIRS, *own_folder]:
            if (folder / name).is_file():
                return (folder / name).resolve()
        return None


def _parsed(text: str) -> tuple[list[str], list[tuple[int, str]]]:
    """The lines, and the numbers of those that include a file, with its name."""
    lines = text.splitlines()
    found = [(number, INCLUDE.match(line)) for number, line in enumerate(lines, 1) if "include" in line]
    return lines, [(number, match[1] or match[2]) for number, match in found if match]


@dataclass
class _File:
    """An included file: kernels that are compiled at run time share what was read of it."""

    version: tuple[int, int]  # time and size
    digest: str
    parsed: tuple[list[str], list[tuple[int, str]]]
    outline: Outline | None = None


_files: dict[Path, _File] = {}


def _file(path: Path) -> _File:
    stat = path.stat()
    version = (stat.st_mtime_ns, stat.st_size)
    known = _files.get(path)
    if known is None or known.version != version:
        text = path.read_text(encoding="utf-8")
        known = _files[path] = _File(version, hashlib.sha256(text.encode()).hexdigest(), _parsed(text))
    return known


def included_name(path: Path) -> str | None:
    """The name by which a source can include a file of the package, or None."""
    for folder in INCLUDE_DIRS:
        if path.is_relative_to(folder.resolve()):
            return path.relative_to(folder.resolve()).as_posix()
    return None


def included_version(name: str) -> str | None:
    """The hash of what such an include brings; None: nothing."""
    for folder in INCLUDE_DIRS:
        try:
            return _file((folder / name).resolve()).digest
        except OSError:
            continue
    return None


def _read(path: Path) -> tuple[list[str], list[tuple[int, str]]]:
    return _file(path).parsed


def _outline(path: Path) -> Outline:
    file = _file(path)
    if file.outline is None:
        file.outline = outline(file.parsed[0])
    return file.outline


@dataclass(frozen=True)
class TensorLine:
    """`#pragma aule tensor NAME ACCESS DTYPE [strided]`: a member of Params that is the address of a tensor."""

    name: str
    access: str  # read, write or read_write
    dtype: str  # of torch; or any; or a constant, which then gets the tensor's dtype
    strided: bool


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
    tensors: list[TensorLine] = field(default_factory=list)
    variants: list[Variant] = field(default_factory=list)
    params: list[Member] = field(default_factory=list)
    params_bytes: int = 0
    constants: list[Constant] = field(default_factory=list)  # of all variants, by number

    @property
    def camel(self) -> str:
        return "".join(part[:1].upper() + part[1:] for part in self.name.split("_"))

    def kind(self, axis: str) -> str:
        """The type by which C++ passes this axis: "DType", "int" or the name of a generated enum."""
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


def parse_shader(path: Path, text: str | None = None) -> Shader:
    shader = Shader(Source(path, text), path.stem, path.parent.name)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", shader.name):
        raise ShaderError(f"{shown(path)}: a kernel's name is snake_case")
    for number, line in enumerate(shader.source.text.splitlines(), 1):
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
        elif rest[:1] == ["tensor"] and len(rest) in (4, 5) and rest[4:] in ([], ["strided"]):
            if rest[2] not in ("read", "write", "read_write"):
                raise ShaderError(f"{where}: tensor {rest[1]}: '{rest[2]}' is neither read, write nor read_write")
            if any(tensor.name == rest[1] for tensor in shader.tensors):
                raise ShaderError(f"{where}: tensor {rest[1]} is declared twice")
            shader.tensors.append(TensorLine(rest[1], rest[2], rest[3], len(rest) == 5))
        elif rest == ["params", "ring"]:
            shader.params_ring = True
        elif rest == ["params", "wide"]:
            shader.params_wide = True
        elif rest == ["inline"]:
            shader.inline = True
        else:
            raise ShaderError(f"{where}: cannot read this aule pragma")
    return shader


def expand(shader: Shader, compiler: str, defines: dict[str, str] | None = None, own_head: Sequence[str] = ()) -> None:
    """Fills shader.variants; `defines` are macros that all of them have beside their axes, then comes `own_head`."""
    # Our pragmas become empty lines, which keeps the line numbers.
    lines = shader.source.lines
    if shader.inline:
        lines = inlined(lines, [shown(file) for file in shader.source.files])
    lines = ["" if "aule" in line and line.split()[:2] == ["#pragma", "aule"] else line for line in lines]
    body = "\n".join(lines)
    for combination in itertools.product(*shader.axes.values()):
        values = dict(zip(shader.axes, combination))
        if any(skip.matches(values) for skip in shader.skips):
            continue
        head = ["#version 460", *(f"#extension {name} : require" for name in EXTENSIONS)]
        if shader.params_ring:
            head.append("#define AULE_PARAMS_RING 1")
        for name, value in {**values, **(defines or {})}.items():
            head.append(f"#define {name} {value}")
            if re.fullmatch(r"[A-Za-z_]\w*", value):
                head.append(f"#define {name}_{value} 1")
        text = "\n".join([*head, *own_head]) + "\n" + body + "\n"
        key = hashlib.sha256(f"{compiler}\n{text}".encode()).hexdigest()[:32]
        shader.variants.append(Variant(shader, values, text, key))
    if not shader.variants:
        raise ShaderError(f"{shown(shader.source.path)}: every variant is skipped")
    if len(shader.variants) > 4096:
        raise ShaderError(f"{shown(shader.source.path)}: {len(shader.variants)} variants; use specialization constants")
