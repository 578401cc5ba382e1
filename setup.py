"""Generates headers and SPIR-V into build/gen, then compiles the extension torch_aule._C; nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from torch.utils import cpp_extension
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).resolve().parent
GEN = ROOT / "build" / "gen"
WINDOWS = os.name == "nt"

# Checkouts share ccache entries: paths are cached relative to the checkout.
os.environ.setdefault("CCACHE_BASEDIR", str(ROOT))
os.environ.setdefault("CCACHE_NOHASHDIR", "1")
# kernels.gen.cpp embeds a file whose hash it states, so ccache may cache it.
os.environ.setdefault("CCACHE_SLOPPINESS", "incbin")


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
    for script in ("tools/generate_vulkan.py", "shaders/compile.py"):
        if subprocess.run([sys.executable, str(ROOT / script), "--out", str(GEN)], cwd=ROOT).returncode != 0:
            sys.exit(f"{script} failed")


def relative(path):
    return path.relative_to(ROOT).as_posix()


class BuildAule(BuildExtension):
    def build_extensions(self):
        generate()
        if getattr(self, "editable_mode", False):
            # An editable install would compile into a temporary folder, and so everything anew each time.
            self.build_temp = relative(GEN.parent / f"temp.{self.plat_name}-{sys.implementation.cache_tag}")
        (extension,) = self.extensions
        extension.sources = sorted(map(relative, [*ROOT.glob("csrc/**/*.cpp"), *GEN.glob("*.gen.cpp")]))
        # Headers are found by the compiler's dependency files; these make distutils call ninja at all, which then
        # rebuilds only what is out of date.
        self.force = True
        super().build_extensions()


def compile_args():
    if WINDOWS:
        return ["/std:c++20", "/O2", "/W3", "/Zc:__cplusplus", "/permissive-", "/bigobj", "/utf-8", "/DNOMINMAX"]
    args = ["-std=c++20", "-O2", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
    # Repeated as system directories, in which warnings are Torch's business; gcc and clang then ignore the -I.
    for path in include_paths():
        args += ["-isystem", path]
    return args


setup(
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
    cmdclass={"build_ext": BuildAule},
)
