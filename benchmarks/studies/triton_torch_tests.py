"""PyTorch's own tests of user-defined kernels of Triton, on the device.

``python benchmarks/studies/triton_torch_tests.py FILE [WORD ...]`` runs those of FILE whose name has a word (default:
all). FILE is PyTorch's ``test/inductor/test_triton_kernels.py`` of the installed torch's version, which wheels lack. It
prints what became of each: right, skipped (the test says why), refused (what the backend does not serve), wrong (an
assertion), failed (anything else) or late. Tests run in a process of their own that is started anew after a late one.
Some read the generated module: those that expect CUDA's way to allocate or to define a kernel there are wrong here.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
import unittest

from triton_packages import Worker

import torch_aule  # noqa: F401

WORDS = ("right", "skipped", "refused", "wrong", "failed", "late")


def _loaded(path: str):
    """The file as a module that takes this device for the GPU."""
    from torch.testing._internal import inductor_utils

    inductor_utils.GPU_TYPE = "aule"
    for name in ("HAS_GPU", "HAS_GPU_AND_TRITON", "RUN_GPU"):
        setattr(inductor_utils, name, True)
    spec = importlib.util.spec_from_file_location("triton_kernel_tests", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "fast_dividef"):  # which the file imports for the devices that it names
        from triton.language.extra.libdevice import fast_dividef

        module.fast_dividef = module.my_fast_dividef = fast_dividef  # type: ignore[attr-defined]
    return module


def _each(suite) -> list[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [test for inner in suite for test in _each(inner)]


def judge(test: unittest.TestCase) -> tuple[str, str]:
    """What becomes of a test: a word, and its cause."""
    result = unittest.TestResult()
    test.run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    found = result.failures or result.errors
    if not found:
        return "right", ""
    text = found[0][1]
    if os.environ.get("TRACE"):
        print(text, flush=True)
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    cause = next((line for line in reversed(lines) if "Error" in line or "Unsupported" in line), lines[-1])
    if "torch_aule.triton.ir.Unsupported" in text:
        return "refused", cause
    return ("wrong" if result.failures else "failed"), cause


def _work(names, results, path: str) -> None:
    module = _loaded(path)
    tests = {test.id().removeprefix(f"{module.__name__}."): test for test in _each(_suite(module))}
    results.put(list(tests))
    for name in iter(names.get, None):
        begin = time.time()
        results.put((name, *judge(tests[name]), time.time() - begin))


def _suite(module) -> unittest.TestSuite:
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="PyTorch's test/inductor/test_triton_kernels.py")
    parser.add_argument("words", nargs="*", help="of names of tests")
    options = parser.parse_args()
    worker = Worker(_work, os.path.abspath(options.file))
    rows = []
    for name in worker.known:
        if options.words and not any(word in name for word in options.words):
            continue
        rows.append(worker.run(name))
        print(f"{rows[-1][1]:8} {name:75} {rows[-1][3]:5.1f} s  {rows[-1][2][:200]}", flush=True)
        if rows[-1][1] == "late" or not worker.process.is_alive():
            worker.stop()
            worker = Worker(_work, os.path.abspath(options.file))
    worker.stop()
    counts = {word: sum(row[1] == word for row in rows) for word in WORDS}
    print(f"{len(rows) - counts['skipped']} tried, " + ", ".join(f"{counts[word]} {word}" for word in WORDS))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
