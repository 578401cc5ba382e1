#!/usr/bin/env python3
"""Installs a wheel in a fresh environment with one torch, and runs what a newcomer would, and tests.

python3 tools/try_wheel.py dist/torch_aule-0.1.0-*.whl --torch 2.11 [--smoke] [PYTEST ARGUMENTS]
python3 tools/try_wheel.py dist/torch_aule-0.1.0-*.whl --torch oldest       of those that the wheel serves

Nothing of the checkout's own torch_aule is seen: programs and tests run in a folder of their own. The steps and their
seconds are printed: pip's, README's first program, the doctor, the smoke tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from needs import needs_of  # noqa: E402


def readme_program() -> str:
    """The first Python program of README.md."""
    return re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]


def served_by(wheel: Path) -> list[str]:
    """The minor versions of torch for which a wheel has an extension, oldest first."""
    names = zipfile.ZipFile(wheel).namelist()
    found = {match[1] for name in names if (match := re.search(r"/_C_(\d+)\.[^/]*(?:so|pyd)$", name))}
    return [f"{digits[0]}.{digits[1:]}" for digits in sorted(found, key=lambda d: (int(d[0]), int(d[1:])))]


class Steps:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Nothing of the caller's own paths; lavapipe does where there is no GPU.
        self.environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}

    def run(self, name: str, *command: str, **environment: str) -> None:
        started = time.monotonic()
        done = subprocess.run(command, cwd=self.folder, env=self.environment | environment)
        if done.returncode != 0:
            sys.exit(f"== {name}: failed with status {done.returncode}")
        print(f"== {name}: {time.monotonic() - started:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--torch", required=True, help="its minor version; or oldest, or newest, of the wheel's")
    parser.add_argument("--smoke", action="store_true", help="the smoke tests too")
    options, rest = parser.parse_known_args()
    wheel = options.wheel.resolve(strict=True)
    served = served_by(wheel)
    minor = {"oldest": served[0], "newest": served[-1]}.get(options.torch, options.torch)
    with tempfile.TemporaryDirectory(prefix="try-wheel-") as name:
        folder = Path(name)
        steps = Steps(folder)
        python = str(folder / "env" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
        steps.run("a fresh environment", sys.executable, "-m", "venv", "env")
        pip = (python, "-m", "pip", "install", "-q", "--no-compile")
        steps.run(f"pip install torch {minor}", *pip, f"torch=={minor}.*", "numpy")
        steps.run("pip install of the wheel", *pip, str(wheel))
        (folder / "program.py").write_text(readme_program())
        steps.run("README's program", python, "program.py")
        steps.run("the doctor", python, "-m", "torch_aule.doctor")
        if options.smoke or rest:
            for item in ("test", "tools", "benchmarks", "docs", "shaders", "csrc", ".github"):
                shutil.copytree(ROOT / item, folder / "checkout" / item, ignore=shutil.ignore_patterns("__pycache__"))
            for item in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile", "setup.py"):
                shutil.copy2(ROOT / item, folder / "checkout" / item)
            steps.run("pip install of the tests' needs", *pip, *needs_of("test"))
            steps.folder = folder / "checkout"
            marks = ["-m", "smoke"] if options.smoke else []
            strict = {"TORCH_AULE_STRICT": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
            steps.run("tests", python, "-m", "pytest", "-q", "-n", "2", *marks, *rest, **strict)
    return 0


if __name__ == "__main__":
    sys.exit(main())
