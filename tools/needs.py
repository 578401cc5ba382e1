#!/usr/bin/env python3
"""Prints what pyproject.toml names for the build and in its extras: one reader for whoever installs them.

python3 tools/needs.py build test      a line for each requirement, without torch, whose version its user chooses
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def needs_of(*names: str) -> list[str]:
    """The requirements of the build (``"build"``) and of these extras, without torch."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    groups = {"build": project["build-system"]["requires"]} | project["project"]["optional-dependencies"]
    return [need for name in names for need in groups[name] if not need.startswith("torch")]


if __name__ == "__main__":
    print(*needs_of(*sys.argv[1:]), sep="\n")
