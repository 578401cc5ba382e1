"""Starts the command line of ``command.py``.

    python -m torch_aule.benchmark ...                        times this package
    python THIS/torch_aule/benchmark --package-root DIR ...   these files time the torch_aule that lies in DIR

The second form measures two builds by the same cases: DIR's package is imported, older or newer, and its benchmark is
replaced by the files beside this one.
"""

from __future__ import annotations

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def package_root(arguments: list[str]) -> str | None:
    """Takes ``--package-root DIR`` out of the arguments. It counts before torch_aule is imported."""
    for index, text in enumerate(arguments):
        if text == "--package-root" and index + 1 < len(arguments):
            del arguments[index]
            return os.path.abspath(arguments.pop(index))
        if text.startswith("--package-root="):
            return os.path.abspath(arguments.pop(index).partition("=")[2])
    return None


def adopt(root: str) -> None:
    """Makes ``torch_aule`` the package in `root`, and ``torch_aule.benchmark`` the files beside this one."""
    if not os.path.isfile(os.path.join(root, "torch_aule", "__init__.py")):
        raise SystemExit(f"--package-root: {root} has no folder torch_aule")
    sys.path[:] = [root, *(path for path in sys.path if os.path.abspath(path) != HERE)]
    # Processes that are started from here take the same package.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    import torch_aule

    name = "torch_aule.benchmark"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(HERE, "__init__.py"), submodule_search_locations=[HERE]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = torch_aule.benchmark = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    root = package_root(sys.argv)
    if not __package__:
        adopt(root or os.path.dirname(os.path.dirname(HERE)))
    elif root:  # torch_aule is imported already: begin again without it
        os.execv(sys.executable, [sys.executable, HERE, "--package-root", root, *sys.argv[1:]])
    from torch_aule.benchmark.command import main

    sys.exit(main())
