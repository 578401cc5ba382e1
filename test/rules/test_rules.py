"""The rules by which the project keeps its rooms. Each has a number that may only fall: who lowers it lowers it here.

CONTRIBUTING.md says them, under "Rooms". A rule whose number is 0 is an ordinary rule.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "torch_aule"
sys.path.insert(0, str(ROOT / "tools"))
from check_commit_message import faults  # noqa: E402

MOST_FILES = 30  # of a folder
LARGE_BY_NATURE = {"test/faults", "docs/ladders", "benchmarks/results"}  # lists of things of one kind
LARGE = {  # folders that are to be divided, and how many files each has
}  # fmt: skip
CEILINGS = {
    "files and packages of one name": 0,
    "private modules that others import": 0,
    "circles of rooms": 0,
    "floors of rooms": 7,
    "folders of shaders that are no family": 2,
    "lists of codes in GLSL": 1,
    "classes named Lane": 0,
    "so many": 0,
    "comments that begin with a question's word": 0,
    "docstrings that begin with a question's word": 0,
    "private names in pages": 0,
    "links of the README into docs": 10,
    "files with a timer": 7,
    "pinned memory of CUDA's where CUDA is there": 0,
    "documented variables": 19,
    "planners without a table": 0,
}


def tracked(*patterns: str) -> list[str]:
    """Paths of the checkout that git knows or would add, from the root."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout: an unpacked archive has no list of its files")
    return sorted({name for name in listed.stdout.splitlines() if (ROOT / name).is_file()})


def files_in_folders() -> Counter:
    """How many files each folder has of its own."""
    return Counter(str(Path(name).parent) for name in tracked())


def lines_with(pattern: str, *patterns: str, but: str | None = None) -> list[str]:
    """The lines that match, as FILE:NUMBER: LINE, of the files that git's patterns name."""
    found = []
    for name in tracked(*patterns):
        if Path(name).suffix in (".png", ".svg", ".jsonl"):
            continue
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1):
            if re.search(pattern, line) and not (but and re.search(but, line)):
                found.append(f"{name}:{number}: {line.strip()}")
    return found


def room_of(name: str) -> str:
    """The room of a module `torch_aule.a.b`: `a` without its underscore; `torch_aule` itself is the door."""
    parts = name.split(".")
    return parts[1].lstrip("_") if len(parts) > 1 and parts[1] != "__init__" else PACKAGE


def modules() -> dict[str, str]:
    """Dotted name -> path of each module of the package."""
    found = {}
    for path in tracked(f"{PACKAGE}/*.py", f"{PACKAGE}/**/*.py"):
        found[path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = path
    return found


def imported(name: str, path: str, known: dict[str, str]) -> set[str]:
    """Modules of the package that one imports: at the top, in functions, and by a string."""
    tree, found = ast.parse((ROOT / path).read_text()), set()
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join(filter(None, [*above[: len(above) - node.level + 1], base]))
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            found.add(node.value)
    return {module for module in found if module in known and module != name}


def imports_of_modules() -> dict[str, set[str]]:
    known = modules()
    return {name: imported(name, path, known) for name, path in known.items()}


def roads(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Room -> rooms that it imports."""
    found: dict[str, set[str]] = {}
    for name, others in imports.items():
        room = found.setdefault(room_of(name), set())
        room |= {room_of(other) for other in others} - {room_of(name)}
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of rooms of which each reaches each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            for other in graph.get(waiting.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        reached[start] = seen
    found, done = [], set()
    for room in sorted(graph):
        circle = {other for other in reached[room] if room in reached.get(other, ())}
        if len(circle) > 1 and room not in done:
            found.append(circle)
            done |= circle
    return found


def floors(graph: dict[str, set[str]]) -> int:
    """The longest way down through the rooms, each circle as one."""
    of = {room: frozenset(circle) for circle in circles(graph) for room in circle}
    merged: dict[frozenset, set[frozenset]] = {}
    for room, others in graph.items():
        own = of.get(room, frozenset([room]))
        merged.setdefault(own, set()).update(of.get(other, frozenset([other])) for other in others)
    depth: dict[frozenset, int] = {}

    def below(room: frozenset) -> int:
        if room not in depth:
            depth[room] = 1 + max((below(other) for other in merged.get(room, ()) if other != room), default=0)
        return depth[room]

    return max(map(below, merged))


def folders_that_are_large():
    return {
        folder: count
        for folder, count in files_in_folders().items()
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
    for name, others in imports_of_modules().items():
        for other in others:
            parts = other.split(".")
            at = next((i for i, part in enumerate(parts) if i and part.startswith("_")), None)
            owner = ".".join(parts[:at])
            if at is not None and name != owner and not name.startswith(owner + "."):
                found.append(f"{name}: {other}")
    return sorted(found)


def python_roads():
    """R3. Without the door, torch_aule/__init__.py, which everyone may come through and which leads everywhere."""
    return {room: to - {PACKAGE} for room, to in roads(imports_of_modules()).items() if room != PACKAGE}


def table_of_rooms(page: str) -> dict[str, set[str]]:
    """Room -> rooms in the last column, of the rows of a table whose first column has names between backquotes."""
    found = {}
    for line in (ROOT / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) > 1:
            others = set(re.findall(r"`(\w+)`", cells[-1]))
            found.update(dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), others))
    return found


def test_roads_are_those_of_the_table():
    """R3: torch_aule/README.md says who may import whom, and names no road that is not taken."""
    rows = table_of_rooms("torch_aule/README.md").items()
    table = {room.lstrip("_"): {name.lstrip("_") for name in to} for room, to in rows}
    taken = python_roads()
    assert set(table) == set(taken)
    assert {room: to - table[room] for room, to in taken.items() if to - table[room]} == {}, "roads not allowed"
    assert {room: to - taken[room] for room, to in table.items() if to - taken[room]} == {}, "roads not taken"


def test_rooms_of_tests():
    """test/README.md names each folder of test/, and no test imports another room's files."""
    folders = {path.name for path in (ROOT / "test").iterdir() if path.is_dir() and any(path.glob("*[!c]"))}
    assert set(table_of_rooms("test/README.md")) == folders - {"__pycache__"}
    home = {Path(name).stem: Path(name).parts[1] for name in tracked("test/*/*.py")}
    wrong = []
    for name in tracked("test/*/*.py"):
        room = Path(name).parts[1]
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{name}: {n}" for n in names if home.get(n, room) not in (room, "support", "plans")]
    assert wrong == []


def shaders_of_no_family():
    """R4. A folder of shaders is a family of csrc/ops, or common to all."""
    families = {path.stem for path in (ROOT / "csrc" / "ops").iterdir()}
    return sorted({path.name for path in (ROOT / "shaders").iterdir() if path.is_dir()} - families - {"common"})


def planners_without_a_table():
    """R5. Functions of csrc/ops' headers that make a plan of no tensor, and that no binding for tables reaches."""
    folder, returned = ROOT / "csrc" / "ops", r"^(?:inline |constexpr )*(?:std::optional<)?\w*Plan>? "
    headers = [re.sub(r"//.*", "", path.read_text()) for path in folder.glob("**/*.h")]
    planner = re.compile(rf"{returned}(\w+)\((?!const (?:at::|RecurrentLayer))", re.M)  # of no tensors
    planners = {name for text in headers for name in planner.findall(text)}
    sources = [re.sub(r"//.*", "", path.read_text()) for path in folder.glob("**/*.cpp")]
    # A file that defines a planner is one room of decisions: what it calls is in the planner's table.
    defined = [set(re.findall(rf"{returned}(\w+)\(", text, re.M)) & planners for text in sources]
    called = [{name for name in planners if re.search(rf"(?<!Plan )(?<!Plan> )\b{name}\(", text)} for text in sources]
    bindings = " ".join(path.read_text() for path in (ROOT / "csrc" / "python").glob("**/*.cpp"))
    reached = {name for name in planners if re.search(rf"\b{name}\(", bindings)}
    while more := set().union(*(calls for own, calls in zip(defined, called) if own & reached)) - reached:
        reached |= more
    return sorted(planners - reached)


def documented_variables():
    page = (ROOT / "docs" / "use" / "environment.md").read_text()
    return sorted(set(re.findall(r"^\| `((?:TORCH_)?AULE_\w+)`", page, re.MULTILINE)))


MEASURES = {
    "files and packages of one name": doors_of_one_name,
    "private modules that others import": private_imports,
    "circles of rooms": lambda: circles(python_roads()),
    "floors of rooms": lambda: range(floors(python_roads())),
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
    "docstrings that begin with a question's word": lambda: lines_with(
        r'^\s*"""(What|Where|Who|Which|How) ', "torch_aule"
    ),
    # R8: a page has one reader.
    "private names in pages": lambda: lines_with(r"torch_aule\._", "docs", "README.md"),
    "links of the README into docs": lambda: re.findall(r"\]\(docs", (ROOT / "README.md").read_text()),
    "files with a timer": lambda: sorted(
        {line.split(":")[0] for line in lines_with("perf_counter", "torch_aule", "benchmarks")}
    ),
    "pinned memory of CUDA's where CUDA is there": lambda: lines_with(r"\bpin_memory=True\b", "torch_aule/*.py"),
    "documented variables": documented_variables,
    "planners without a table": planners_without_a_table,
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
