"""test/public_names.txt: the names that are promised. Whoever removes one breaks somebody's program."""

import importlib
import re
from pathlib import Path

import torch

import torch_aule
from torch_aule.compat import moved

ROOT = Path(__file__).resolve().parents[2]
NAMES = (ROOT / "test" / "public_names.txt").read_text().split()


def found(name: str):
    """What a dotted name means: attributes of the longest module that can be imported."""
    if name.startswith("torch.aule"):
        value, rest = torch.aule, name.split(".")[2:]
    else:
        parts = name.split(".")
        value, rest = torch_aule, parts[1:]
        for length in range(len(parts), 1, -1):
            try:
                value, rest = importlib.import_module(".".join(parts[:length])), parts[length:]
                break
            except ModuleNotFoundError:
                continue
    for part in rest:
        value = getattr(value, part)
    return value


def promised() -> set[str]:
    """Public names of the package, of the device module, and all that pages name."""
    names = {f"torch_aule.{name}" for name in torch_aule.__all__}
    names |= {f"torch.aule.{name}" for name in torch.aule.__all__}
    names |= {f"torch_aule.{name}" for name in moved.MOVED}
    dotted = re.compile(r"(?<![\w/])torch(?:_|\.)aule(?:\.[A-Za-z]\w*)+")
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")):
        names |= {match.rstrip("_.") for match in dotted.findall(page.read_text())}
    return {name for name in names if not re.search(r"\.(py|md|h)$", name)}


def test_promised_names_are_there(device):
    missing = []
    for name in NAMES:
        try:
            found(name)
        except (AttributeError, ImportError) as error:
            missing.append(f"{name}: {error}")
    assert missing == []


def test_the_list_is_whole():
    assert NAMES == sorted(NAMES) and sorted(promised() - set(NAMES)) == []


def test_names_before_a_move_are_the_same_module():
    """Both names are one module, which keeps its own name; and `python -m` finds the program under the old one."""
    for old, new in moved.MOVED.items():
        here, there = (importlib.import_module(f"torch_aule.{name}") for name in (old, new))
        assert here is there and there.__spec__.name == f"torch_aule.{new}", old
        assert moved._Finder.get_code(f"torch_aule.{old}").co_filename == there.__file__
