"""Numbers of the project's own order, for test_rules.py: who imports whom in Python, folders, words."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "torch_aule"


def tracked(*patterns: str) -> list[str]:
    """Paths of the checkout that git knows or would add, from the root."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({name for name in listed if (ROOT / name).is_file()})


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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known and "." in node.value:
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
