#!/usr/bin/env python3
"""Builds one wheel that serves several minor versions of torch.

python3 tools/build_wheel.py --torch 2.11,2.13,2.15     for the Python that runs this; `dist/` gets the wheel
python3 tools/build_wheel.py --merge A.whl B.whl        only puts wheels of one torch each together

For each torch this makes an environment in build/wheels, which is kept, and a wheel of that torch alone. Merged, they
have an extension for each torch (`_C_211`, `_C_213`), among which `torch_aule/_register.py` chooses at import, and one
copy of all else: Python, and kernels.bin with the SPIR-V. Extensions are stripped. A torch that has no wheel for this
Python is left out with a line that says so. pip's own variables and files say where packages come from; the small
builds of torch for processors, where they are to be had, serve as well as any: the interface is the same.
"""

from __future__ import annotations

import argparse
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from needs import needs_of  # noqa: E402

WORK = ROOT / "build" / "wheels"
EXTENSIONS = (".so", ".pyd")


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def supported_minors() -> list[str]:
    """Minor versions of torch from the oldest to the newest that torch_aule/_version.py names."""
    versions = runpy.run_path(str(ROOT / "torch_aule" / "_version.py"))
    (major, oldest), (_, end) = versions["TORCH_OLDEST"], versions["TORCH_NEWER_THAN_TESTED"]
    return [f"{major}.{minor}" for minor in range(oldest, end)]


def environment(minor: str) -> Path | None:
    """The interpreter of an environment with that torch; None where pip finds none for this Python."""
    folder = WORK / f"env-{sys.implementation.cache_tag}-torch-{minor}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--no-compile"]
    has_torch = subprocess.run([str(python), "-c", "import torch"], capture_output=True).returncode == 0
    if not has_torch:
        say(f"installing torch {minor}")
        done = subprocess.run([*pip, f"torch=={minor}.*"], capture_output=True, text=True)
        if done.returncode != 0:
            if "No matching distribution" not in done.stderr:
                sys.exit(done.stderr)
            shutil.rmtree(folder)
            return None
    subprocess.run([*pip, *needs_of("build")], check=True)
    return python


def build_one(minor: str, python: Path) -> Path:
    """A wheel for this torch alone."""
    out = WORK / f"torch-{minor}"
    for stale in (out, ROOT / "build" / f"torch-{minor}" / f"lib.{platform_of(python)}"):
        shutil.rmtree(stale, ignore_errors=True)
    say(f"building for torch {minor} (minutes)")
    started = time.monotonic()
    command = [str(python), "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "-w", str(out), str(ROOT)]
    log = WORK / f"torch-{minor}.log"
    with open(log, "w") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT).returncode
    if status != 0:
        errors = [line for line in log.read_text().splitlines() if "error" in line.lower()]
        sys.exit("\n".join([*errors[:20], f"the build for torch {minor} failed; see {log}"]))
    (wheel,) = out.glob("*.whl")
    say(f"torch {minor}: {megabytes(wheel.stat().st_size)}, {time.monotonic() - started:.0f} s")
    return wheel


def platform_of(python: Path) -> str:
    """As setuptools names its folder in build/."""
    code = "import sys, sysconfig; print(sysconfig.get_platform() + '-' + sys.implementation.cache_tag)"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def strip(library: Path) -> None:
    """Drops the names that only a debugger asks for; Windows has them in a file of their own."""
    program = shutil.which("strip")
    if program and library.suffix == ".so":
        options = ["-x"] if sys.platform == "darwin" else ["--strip-unneeded"]
        subprocess.run([program, *options, str(library)], check=True)


def torch_requirement(minors: list[str]) -> str:
    """The range of torch that has an extension: `torch>=2.11,<2.16,!=2.12.*`."""
    numbers = sorted(tuple(map(int, minor.split("."))) for minor in minors)
    (major, first), (_, last) = numbers[0], numbers[-1]
    gaps = [f"!={major}.{minor}.*" for minor in range(first, last) if (major, minor) not in numbers]
    return ",".join([f"torch>={major}.{first}", f"<{major}.{last + 1}", *gaps])


def content_of(path: Path) -> bytes:
    """What wheels of several torches must share: of WHEEL all but the version of the tool that wrote it."""
    if path.name != "WHEEL":
        return path.read_bytes()
    return b"\n".join(line for line in path.read_bytes().splitlines() if not line.startswith(b"Generator:"))


def merge(wheels: list[Path], out: Path, added: list[tuple[Path, str]], python: str = sys.executable) -> Path:
    """One wheel of several that differ in their extension alone.

    Parameters
    ----------
    wheels : list of Path
        Wheels of one torch each, of one version, one Python and one platform.
    out : Path
        The folder for the wheel.
    added : list of (Path, str)
        Files to put in, and their paths there.
    python : str
        An interpreter that has the package wheel.

    Returns
    -------
    Path
        The wheel.

    Raises
    ------
    SystemExit
        Where two wheels have different contents under one path.
    """
    tree = WORK / "merged"
    shutil.rmtree(tree, ignore_errors=True)
    minors, name = [], ""
    for wheel in wheels:
        single = WORK / "single"
        shutil.rmtree(single, ignore_errors=True)
        subprocess.run(
            [python, "-m", "wheel", "unpack", "-d", str(single), str(wheel)], check=True, capture_output=True
        )
        (folder,) = single.iterdir()
        (info,) = folder.glob("*.dist-info")
        full = info.name.removesuffix(".dist-info")
        match = re.fullmatch(r"(.+)\+torch(\d+\.\d+)", full)
        if match is None:
            sys.exit(f"{wheel.name} is no wheel of one torch: its version has no +torch")
        minors.append(match[2])
        name = match[1]
        target = tree / f"{name}.dist-info"
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_dir() or inside.name in ("RECORD", "METADATA"):
                continue
            to = target.joinpath(*inside.parts[1:]) if inside.parts[0] == info.name else tree / inside
            if to.exists():
                if content_of(to) != content_of(path):
                    sys.exit(f"{inside} of {wheel.name} differs from that of the wheels before it")
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
        metadata = (info / "METADATA").read_text()
    metadata = re.sub(r"^(Version: .*)\+torch.*$", r"\1", metadata, flags=re.MULTILINE)
    metadata, count = re.subn(
        r"^Requires-Dist: torch==.*$", f"Requires-Dist: {torch_requirement(minors)}", metadata, flags=re.MULTILINE
    )
    assert count == 1, metadata
    (tree / f"{name}.dist-info" / "METADATA").write_text(metadata)
    for source, place in added:
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, tree / place)
    extensions = [path for path in tree.rglob("_C_*") if path.suffix in EXTENSIONS]
    for extension in extensions:
        strip(extension)
    out.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(
        [python, "-m", "wheel", "pack", "-d", str(out), str(tree)], check=True, capture_output=True, text=True
    )
    wheel = out / re.search(r"[^\s/\\]+\.whl", packed.stdout)[0]
    installed = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    sizes = ", ".join(megabytes(path.stat().st_size) for path in sorted(extensions))
    say(f"{wheel}: {megabytes(wheel.stat().st_size)}, installed {megabytes(installed)}; extensions {sizes}")
    return wheel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch", help="minor versions between commas (all that are supported)")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="WHEEL", help="only merge these wheels")
    parser.add_argument("--discard", action="store_true", help="remove each environment after its build: disk space")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for the wheel (dist)")
    parser.add_argument(
        "--add", action="append", default=[], metavar="FILE=PLACE", help="a file to put in, and its path in the wheel"
    )
    options = parser.parse_args()
    added = [(Path(file), place) for file, _, place in (text.partition("=") for text in options.add)]
    if options.merge:
        merge(options.merge, options.out, added)
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    wheels, python = [], None
    for minor in options.torch.split(",") if options.torch else supported_minors():
        if minor not in supported_minors():
            parser.error(f"torch {minor} is not among those that are supported: {', '.join(supported_minors())}")
        found = environment(minor)
        if found is None:
            say(f"torch {minor} has no wheel for Python {sysconfig.get_python_version()}: left out")
            continue
        wheels.append(build_one(minor, found))
        if options.discard and python is not None:  # the last one packs the wheel
            shutil.rmtree(python.parents[1])
        python = found
    if not wheels:
        sys.exit("no torch was found to build for")
    merge(wheels, options.out, added, str(python))
    return 0


if __name__ == "__main__":
    sys.exit(main())
