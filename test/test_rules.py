"""The rules by which the project keeps its rooms. Each has a number that may only fall: who lowers it lowers it here.

docs/architecture.md says why. A rule whose number is 0 is an ordinary rule.
"""

import re
import sys

import house
import pytest
from house import ROOT, lines_with

sys.path.insert(0, str(ROOT / "tools"))
from check_commit_message import faults  # noqa: E402

MOST_FILES = 30  # of a folder
LARGE_BY_NATURE = {"test/faults", "docs/ladders", "benchmarks/results"}  # lists of things of one kind
LARGE = {  # folders that are to be divided, and how many files each has
    "test": 249, "test/programs": 94, "torch_aule": 52, "shaders/pointwise": 52, "csrc/aten": 52, "csrc/ops/matmul": 41,
    "csrc/ops/conv": 39, "shaders/attention": 36, "torch_aule/_inductor": 33,
}  # fmt: skip
CEILINGS = {
    "files and packages of one name": 5,
    "private modules that others import": 2,
    "circles of rooms": 3,
    "floors of rooms": 8,
    "folders of shaders that are no family": 2,
    "lists of codes in GLSL": 5,
    "classes named Lane": 3,
    "so many": 24,
    "comments that begin with a question's word": 146,
    "private names in pages": 0,
    "links of the README into docs": 29,
    "files with a timer": 21,
    "documented variables": 18,
}


def folders_that_are_large():
    return {
        folder: count
        for folder, count in house.files_in_folders().items()
        if count > MOST_FILES and folder not in LARGE_BY_NATURE
    }


def test_folders_are_small():
    """R1."""
    assert folders_that_are_large() == LARGE, "a folder grew, or LARGE can be lowered"


def doors_of_one_name():
    """R2. torch_aule/x.py beside torch_aule/x/ or torch_aule/_x/."""
    names = [path.name.removesuffix(".py").lstrip("_") for path in (ROOT / "torch_aule").iterdir()
             if path.suffix == ".py" or (path / "__init__.py").exists()]  # fmt: skip
    return sorted({name for name in names if names.count(name) > 1})


def private_imports():
    """R2. A module below `_x` is for the package that has `_x`."""
    found = []
    for name, others in house.imports_of_modules().items():
        for other in others:
            parts = other.split(".")
            at = next((i for i, part in enumerate(parts) if i and part.startswith("_")), None)
            owner = ".".join(parts[:at])
            if at is not None and name != owner and not name.startswith(owner + "."):
                found.append(f"{name}: {other}")
    return sorted(found)


def python_roads():
    """R3. Without the door, torch_aule/__init__.py, which everyone may come through and which leads everywhere."""
    roads = house.roads(house.imports_of_modules())
    return {room: to - {house.PACKAGE} for room, to in roads.items() if room != house.PACKAGE}


def shaders_of_no_family():
    """R4. A folder of shaders is a family of csrc/ops, or common to all."""
    families = {path.stem for path in (ROOT / "csrc" / "ops").iterdir()}
    return sorted({path.name for path in (ROOT / "shaders").iterdir() if path.is_dir()} - families - {"common"})


def documented_variables():
    page = (ROOT / "docs" / "environment.md").read_text()
    return sorted(set(re.findall(r"^\| `((?:TORCH_)?AULE_\w+)`", page, re.MULTILINE)))


MEASURES = {
    "files and packages of one name": doors_of_one_name,
    "private modules that others import": private_imports,
    "circles of rooms": lambda: house.circles(python_roads()),
    "floors of rooms": lambda: range(house.floors(python_roads())),
    "folders of shaders that are no family": shaders_of_no_family,
    # R6: a list of codes is a .def that GLSL and C++ include.
    "lists of codes in GLSL": lambda: lines_with(r"const int [A-Z_]+ = 0, [A-Z_]+ = 1", "shaders"),
    # R7: a word of the glossary has one meaning.
    "classes named Lane": lambda: lines_with(r"\b(class|struct) Lane\b", "csrc"),
    "so many": lambda: lines_with("so many", "csrc", "shaders", "torch_aule"),
    # R9: a comment names the thing first.
    "comments that begin with a question's word": lambda: lines_with(
        r"^\s*(//|#) ?(What|Where|Who|Which|How) (?!the C)", "csrc", "shaders", "torch_aule", but="What was tried"
    ),
    # R8: a page has one reader.
    "private names in pages": lambda: lines_with(r"torch_aule\._", "docs", "README.md"),
    "links of the README into docs": lambda: re.findall(r"\]\(docs", (ROOT / "README.md").read_text()),
    "files with a timer": lambda: sorted(
        {line.split(":")[0] for line in lines_with("perf_counter", "torch_aule", "benchmarks")}
    ),
    "documented variables": documented_variables,
}


@pytest.mark.parametrize("rule", CEILINGS)
def test_number_may_only_fall(rule):
    found = list(MEASURES[rule]())
    shown = "\n".join(map(str, found))
    assert len(found) <= CEILINGS[rule], f"{len(found)}, were {CEILINGS[rule]}:\n{shown}"
    assert len(found) == CEILINGS[rule], f"lower the ceiling of {rule!r} from {CEILINGS[rule]} to {len(found)}"


@pytest.mark.parametrize(("message", "changes", "words"), [
    ("test: a subject\n\nAnd why.\n", ["M\ta"], ""),
    ("test: " + 67 * "a" + "\n\nWhy.\n", ["M\ta"], "73 characters"),
    ("test: a subject\n# a comment\n", ["M\ta"], "no body"),
    ("move a\n", ["R100\ta\tb", "M\tc"], ""),
    ("move a\n", ["R100\ta\tb", "A\tc"], "no body"),
    ("a\nb\n", ["M\ta"], "not empty"),
    ("# only a comment\n", ["M\ta"], "no subject"),
    ("Merge branch a\n", ["M\ta"], ""),
])  # fmt: skip
def test_messages_of_commits(message, changes, words):
    """R10."""
    found = faults(message, changes)
    assert bool(found) == bool(words) and words in "; ".join(found), found
