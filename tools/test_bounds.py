"""How near random tests come to their bounds, before one of them fails on a day when its inputs are unlucky.

    python3 tools/test_bounds.py test/pool                  what used more than 0.4 of its bound
    python3 tools/test_bounds.py --seeds 30 --share 0.7 test/pool/test_pool.py -k average -n 2

Runs pytest with the remaining arguments, each test with so many fresh seeds until one fails, and lists the comparisons
whose largest error came near the bound: `torch.testing.assert_close` of floating-point numbers, by elements, and
assertions of the form `number < bound` or `number <= bound`. Exact comparisons have no bound.

A share near 1 is sound where the bound is derived (a result that is rounded once may be half a step off), and a failure
to come where it was guessed. A new random test is run with 30 seeds before it is committed. Tests that count the
device's memory fail here: assertions that are watched keep tensors alive.

The module is pytest's plugin, too: `-p test_bounds`, under the interpreter of .venv.
"""

from __future__ import annotations

import argparse
import ast
import json
import operator
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "TORCH_AULE_TEST_BOUNDS"  # the folder into which each worker of pytest writes what it found
SEEDS = "TORCH_AULE_TEST_SEEDS"
MOST_ELEMENTS = 1 << 22  # of a comparison that is looked at: the memory for it is not the test's
TENSOR = re.compile(r"tensor\(([-+.e\d]+)(?:, [^()]*)?\)")
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def value_of(node: ast.expr) -> float:
    """Of arithmetic on numbers. Raises KeyError if it has anything else."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp):
        return OPERATIONS[type(node.op)](value_of(node.operand))
    if isinstance(node, ast.BinOp):
        return OPERATIONS[type(node.op)](value_of(node.left), value_of(node.right))
    raise KeyError(node)


def share_of(explanation: str) -> float | None:
    """The error beside its bound, of what pytest says of an assertion that held; None if it compares no such numbers."""
    try:
        tree = ast.parse(TENSOR.sub(r"\1", explanation.partition("\n")[0]), mode="eval").body
        if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or not isinstance(tree.ops[0], (ast.Lt, ast.LtE)):
            return None
        error, bound = value_of(tree.left), value_of(tree.comparators[0])
    except (SyntaxError, ValueError, KeyError, ArithmeticError):
        return None
    if isinstance(error, int) or bound <= 0:
        return None  # whole numbers are counts
    return abs(error) / bound


def share_of_close(actual, expected, rtol: float | None, atol: float | None) -> float | None:
    """The largest error of an element beside what `torch.testing.assert_close` allows it; None if that is exact."""
    import torch

    if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor) or not (rtol or atol):
        return None
    if not (expected.is_floating_point() or expected.is_complex()) or expected.layout != torch.strided:
        return None
    if expected.numel() > MOST_ELEMENTS:
        return None
    double = torch.complex128 if expected.is_complex() else torch.float64
    wide, other = (t.detach().cpu().to(double) for t in (actual, expected))
    shares = (wide - other).abs() / ((atol or 0.0) + (rtol or 0.0) * other.abs())
    shares = shares[shares.isfinite()]
    return shares.max().item() if shares.numel() else None


class Record:
    """Of each comparison of each test the largest share, written to a file when pytest ends."""

    def __init__(self, folder: str):
        self.path = Path(folder) / f"{os.getpid()}.json"
        self.shares: dict[str, float] = {}
        self.test = ""

    def add(self, share: float | None, where: str) -> None:
        if share is not None and share == share:
            key = f"{self.test}\t{where}"
            self.shares[key] = max(share, self.shares.get(key, 0.0))

    def write(self) -> None:
        self.path.write_text(json.dumps(self.shares))


def listed(folder: str | Path, least: float) -> list[str]:
    """Lines "share test comparison" of what workers wrote, the largest share first."""
    shares: dict[str, float] = {}
    for path in Path(folder).glob("*.json"):
        for key, share in json.loads(path.read_text()).items():
            shares[key] = max(share, shares.get(key, 0.0))
    rows = sorted(((share, key) for key, share in shares.items() if share >= least), reverse=True)
    return [f"{share:5.2f}  {key.replace(chr(9), '  ')}" for share, key in rows]


def install() -> None:
    """The plugin's part: watches this process's comparisons, and repeats its tests."""
    import pytest
    import torch
    from _pytest.runner import runtestprotocol

    record, seeds = Record(os.environ[FOLDER]), int(os.environ.get(SEEDS, "1"))
    # Rewritten modules that other runs left know nothing of assertions that hold.
    sys.pycache_prefix = str(Path(os.environ[FOLDER]) / "pycache")
    pytest.register_assert_rewrite(*(path.stem for path in (ROOT / "test" / "support").glob("*.py")))
    exact = torch.testing.assert_close

    def assert_close(actual, expected, *, rtol=None, atol=None, **more):
        exact(actual, expected, rtol=rtol, atol=atol, **more)
        record.add(share_of_close(actual, expected, rtol, atol), f"assert_close, rtol {rtol}, atol {atol}")

    def protocol(item, nextitem):
        record.test = item.nodeid
        for _ in range(seeds):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            item._initrequest()  # else a second run finds the fixtures of the first
            reports = runtestprotocol(item, nextitem=nextitem, log=True)
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            if any(report.outcome != "passed" for report in reports):
                break
        return True

    def assertion_pass(item, lineno, orig, expl):
        record.add(share_of(expl), f"line {lineno}: {orig}")

    torch.testing.assert_close = assert_close
    module = sys.modules[__name__]
    module.pytest_runtest_protocol = pytest.hookimpl(tryfirst=True)(protocol)
    module.pytest_assertion_pass = assertion_pass
    module.pytest_sessionfinish = lambda: record.write()


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    p.add_argument("--seeds", type=int, default=1, help="runs of each test (default %(default)s)")
    p.add_argument("--share", type=float, default=0.4, help="of its bound; less is not listed (default %(default)s)")
    options, rest = p.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, FOLDER: folder, SEEDS: str(options.seeds), "TORCH_AULE_STRICT": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")])
        environment.pop("TORCH_AULE_TEST_SEED", None)
        command = [str(ROOT / ".venv" / "bin" / "python"), "-m", "pytest", "-q", "-p", "test_bounds"]
        command += ["-o", "enable_assertion_pass_hook=true", *rest]
        status = subprocess.run(command, env=environment, check=False).returncode
        for line in listed(folder, options.share):
            print(line)
    return status


if __name__ == "__main__":
    sys.exit(main())
if FOLDER in os.environ:
    install()
