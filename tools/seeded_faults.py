#!/usr/bin/env python3
"""Proves that the tests catch what they should: faults are put into the sources, one at a time, and tests must fail.

python tools/seeded_faults.py [NAME ...]   all patches of test/faults, or these: about ten minutes and a build of each
python tools/seeded_faults.py --check      only that each patch applies and that the tests it names are there

A patch says before its first `diff --git` what is wrong, and which tests have to notice:

    Caught-by: test/<room>/test_x.py -k test_y

The sources are changed in place, since a built tree is needed, and are put back whatever happens. Exit 1: a fault was
not caught, did not apply or did not build, or a named test fails without it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAULTS = ROOT / "test/faults"
TEST_TIMEOUT_S = 300
# As tools/run_tests.py has it: strict, no kernel that an earlier run compiled, and the sample of `make test`.
ENVIRONMENT = {
    "TORCH_AULE_TEST_SAMPLED": "1",
    "TORCH_AULE_STRICT": "1",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
}


@dataclass(frozen=True)
class Fault:
    path: Path
    sentence: str
    catchers: tuple[str, ...]  # arguments of pytest, each of which must fail

    @property
    def name(self) -> str:
        return self.path.stem


def read_fault(path: Path) -> Fault:
    head = path.read_text().split("diff --git", 1)[0].strip().splitlines()
    catchers = tuple(line.removeprefix("Caught-by:").strip() for line in head if line.startswith("Caught-by:"))
    sentence = " ".join(line.strip() for line in head if not line.startswith("Caught-by:"))
    return Fault(path, sentence, catchers)


def all_faults() -> list[Fault]:
    return [read_fault(path) for path in sorted(FAULTS.glob("*.patch"))]


def git_apply(fault: Fault, *options: str) -> str:
    """What git says against it; empty if it applies."""
    # As from the root of a repository of its own, an unpacked archive inside another repository too.
    command = ["git", "apply", *options, str(fault.path)]
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(ROOT.parent)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip() or f"git apply: exit {done.returncode}"


def test_names(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def wrong_with(fault: Fault) -> list[str]:
    """Why a patch is stale, without a build."""
    wrong = []
    if not fault.sentence:
        wrong.append("its header does not say what is wrong")
    if not fault.catchers:
        wrong.append("its header names no test")
    for catcher in fault.catchers:
        file, *options = shlex.split(catcher)
        if not re.fullmatch(r"test/\w+/test_\w+\.py", file) or not (ROOT / file).is_file():
            wrong.append(f"no file of tests: {file}")
            continue
        named = re.findall(r"\btest_\w+", " ".join(options))
        if not named or options[:1] != ["-k"]:
            wrong.append(f"`{catcher}` does not name a test by -k")
        wrong += [f"no {name} in {file}" for name in named if name not in test_names(ROOT / file)]
    if problem := git_apply(fault, "--check"):
        wrong.append(problem)
    return wrong


def check(faults: list[Fault]) -> int:
    problems = [f"{fault.name}: {text}" for fault in faults for text in wrong_with(fault)]
    print("\n".join(problems) or f"{len(faults)} faults: each applies, and its tests are there")
    return 1 if problems else 0


def local_changes() -> str:
    command = ["git", "status", "--porcelain", "--untracked-files=no"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else f"git status: {done.stderr}"


def build() -> str:
    """What the compilers say if they fail: their errors, or else the end."""
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stdout.splitlines() if re.search(r": (fatal )?error\b", line, re.IGNORECASE)]
    return "\n".join(errors[:10]) or done.stdout[-3000:]


def run_tests(catcher: str, *options: str) -> tuple[int, str, str]:
    """pytest's exit status, the first test that failed, and the end of the output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *shlex.split(catcher)]
    pytest = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **ENVIRONMENT}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        output, _ = pytest.communicate(timeout=TEST_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, "", "timed out"
    finally:
        if pytest.poll() is None:
            os.killpg(pytest.pid, signal.SIGKILL)  # with the programs that tests started
            pytest.communicate()
    failed = re.search(r"^FAILED test/(\S+?::\w+)", output, re.MULTILINE)
    return pytest.returncode, failed[1] if failed else "", output[-3000:]


def passes_without(faults: list[Fault]) -> bool:
    """Whether the named tests pass: one that always fails would catch everything."""
    good = True
    for catcher in sorted({catcher for fault in faults for catcher in fault.catchers}):
        status, failed, output = run_tests(catcher)
        if status != 0:
            print(f"{failed or catcher} fails without a fault:\n{output}", flush=True)
            good = False
    return good


def try_fault(fault: Fault) -> bool:
    """Prints the verdict; True if each of the named tests noticed."""
    begin = time.monotonic()
    if problem := git_apply(fault):
        print(f"{fault.name}: DOES NOT APPLY\n{problem}", flush=True)
        return False
    try:
        if problem := build():
            print(f"{fault.name}: DOES NOT BUILD\n{problem}", flush=True)
            return False
        built = time.monotonic()
        verdicts, caught = [], True
        for catcher in fault.catchers:
            status, failed, output = run_tests(catcher, "-x")
            noticed = status == 1 and failed != ""
            caught = caught and noticed
            verdicts.append(f"caught by {failed}" if noticed else f"NOT CAUGHT by {catcher}\n{output}")
        seconds = f"build {built - begin:.0f} s, tests {time.monotonic() - built:.0f} s"
        print(f"{fault.name}: {', '.join(verdicts)} ({seconds})", flush=True)
        return caught
    finally:
        if problem := git_apply(fault, "-R"):
            raise SystemExit(f"{fault.name} is still in the sources: {problem}")


def run(faults: list[Fault]) -> int:
    if changes := local_changes():
        print(f"the tree has local changes, which a reversed patch could spoil:\n{changes}")
        return 1
    if problem := build():
        print(f"the tree does not build:\n{problem}")
        return 1
    try:
        missed = [] if (good := passes_without(faults)) else faults
        if good:
            missed = [fault for fault in faults if not try_fault(fault)]
    finally:
        problem = build()  # of the sources as they were
        print(problem or "the tree is built as it was", flush=True)
    print(f"{len(faults) - len(missed)} of {len(faults)} faults caught")
    return 1 if missed or problem else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="patches of test/faults, without .patch")
    parser.add_argument("--check", action="store_true", help="only that patches apply and their tests exist")
    arguments = parser.parse_args()
    faults = all_faults()
    names = {name.removesuffix(".patch") for name in arguments.names}
    if unknown := names - {fault.name for fault in faults}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    chosen = [fault for fault in faults if not names or fault.name in names]
    # A job that is ended reverses its patch, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return check(chosen) if arguments.check else run(chosen)


if __name__ == "__main__":
    sys.exit(main())
