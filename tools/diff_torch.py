#!/usr/bin/env python3
"""Tells what moved between two versions of torch of what this backend depends on. docs/develop/new_torch.md uses it.

    python tools/diff_torch.py OLD NEW           a table for each section, of differences alone
    python tools/diff_torch.py OLD NEW --json    the same as one object, with what could not be looked up

OLD and NEW are folders of an installed torch, of the environment that it is in, or interpreters that find it. Nothing
of them is imported: headers, sources and native_functions.yaml are read, so that any Python can compare any two.

The sections: virtual functions of the C++ classes that csrc/ derives from, and members of the structs that it fills;
names of Python that torch_aule/ replaces, derives from, or takes from private modules; operators of ATen that csrc/aten
registers, and new ones that a device needs a kernel for. The exit status is 1 if something of these is gone.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from torch_names import (
    Row,
    absolute,
    bound_by,
    dotted_name,
    drop_docstrings,
    python_rows,
    python_uses,
    set_on_self,
    statements,
)

ROOT = Path(__file__).resolve().parents[1]
# Every class of torch's C++ that csrc/ derives from, the bases of these, and structs that it fills. Where a header has
# moved, the class is looked for in all of them.
CLASSES = {
    "at::AcceleratorHooksInterface": "ATen/detail/AcceleratorHooksInterface.h",
    "at::GraphImplInterface": "ATen/core/GraphImplInterface.h",
    "at::HostAllocator": "ATen/core/CachingHostAllocator.h",
    "at::HostStats": "ATen/core/CachingHostAllocator.h",
    "at::PrivateUse1HooksInterface": "ATen/detail/PrivateUse1HooksInterface.h",
    "at::impl::MetaBase": "ATen/TensorMeta.h",
    "c10::Allocator": "c10/core/Allocator.h",
    "c10::DeviceAllocator": "c10/core/CachingDeviceAllocator.h",
    "c10::GeneratorImpl": "c10/core/GeneratorImpl.h",
    "c10::OutOfMemoryError": "c10/util/Exception.h",
    "c10::impl::DeviceGuardImplInterface": "c10/core/impl/DeviceGuardImplInterface.h",
    "c10::CachingDeviceAllocator::BlockInfo": "c10/core/CachingDeviceAllocator.h",
    "c10::CachingDeviceAllocator::DeviceStats": "c10/core/CachingDeviceAllocator.h",
    "c10::CachingDeviceAllocator::SegmentInfo": "c10/core/CachingDeviceAllocator.h",
    "c10::CachingDeviceAllocator::TraceEntry": "c10/core/CachingDeviceAllocator.h",
    "c10d::Backend": "torch/csrc/distributed/c10d/Backend.hpp",
    "c10d::Backend::Options": "torch/csrc/distributed/c10d/Backend.hpp",
    "c10d::Work": "torch/csrc/distributed/c10d/Work.hpp",
    "libkineto::IActivityProfiler": "kineto/IActivityProfiler.h",
    "libkineto::IActivityProfilerSession": "kineto/IActivityProfiler.h",
    "torch::PyTorchError": "torch/csrc/Exceptions.h",
    "torch::autograd::Function": "torch/csrc/autograd/custom_function.h",
    "torch::profiler::impl::ProfilerStubs": "torch/csrc/profiler/stubs/base.h",
}
DATA = {name for name in CLASSES if name.split("::")[-1].endswith(("Info", "Stats", "Entry", "Options"))}


# ---------------------------------------------------------------------------------------------------------------------
# An installed torch


class Torch:
    """The files of one installed torch."""

    def __init__(self, given: str):
        self.folder = self._found(Path(given))
        match = re.search(r"__version__ = '([^']+)'", self._text("version.py") or "")
        self.version = match[1] if match else "unknown"

    @staticmethod
    def _found(given: Path) -> Path:
        if given.is_file():
            code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
            done = subprocess.run([given, "-c", code], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"diff_torch: {given} finds no torch")
            return Path(done.stdout.strip())
        for folder in (given, given / "torch", *given.glob("lib/python*/site-packages/torch")):
            if (folder / "version.py").is_file():
                return folder
        sys.exit(f"diff_torch: {given} is no folder of an installed torch, and no interpreter")

    def _text(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text(errors="replace") if path.is_file() else None

    # C++

    @functools.cached_property
    def _headers(self) -> list[Path]:
        include = self.folder / "include"
        folders = ("c10/core/**", "c10/util", "ATen", "ATen/core", "ATen/detail", "ATen/accelerator", "torch/csrc/**")
        return [path for folder in folders for path in sorted(include.glob(f"{folder}/*.h*"))]

    def class_body(self, name: str, header: str) -> tuple[str, str] | None:
        """(header, what is between the braces) of a class."""
        include, short = self.folder / "include", name.split("::")[-1]
        for path in (include / header, *self._headers):
            if not path.is_file() or short not in (text := path.read_text(errors="replace")):
                continue
            text = without_comments(text)
            outer = name.split("::")[-2]
            body = body_of(text, short)
            if outer[:1].isupper() and (whole := body_of(text, outer)):  # a class within a class
                body = body_of(whole, short)
            if body is not None:
                return str(path.relative_to(include)), body
        return None

    # Python

    @functools.cache  # noqa: B019  two of them live as long as the program
    def module(self, name: str) -> ast.Module | None:
        """The parsed source of a module, by its name."""
        base = self.folder.joinpath(*name.split(".")[1:])
        for path in (base.with_suffix(".py"), base / "__init__.py", base / "__init__.pyi", base.with_suffix(".pyi")):
            if path.is_file() and path.name != ".py":
                tree = ast.parse(path.read_text(errors="replace"))
                drop_docstrings(tree)
                return tree
        return None

    @functools.cache  # noqa: B019
    def names_of(self, module: str) -> dict[str, tuple[ast.AST, int]]:
        """Name -> what binds it at the top of a module, in branches too; the first that is no import wins."""
        found: dict[str, tuple[ast.AST, int]] = {}
        for node in statements(self.module(module)):
            imported = isinstance(node, (ast.Import, ast.ImportFrom))
            for name in bound_by(node):
                if name not in found or (isinstance(found[name][0], (ast.Import, ast.ImportFrom)) and not imported):
                    found[name] = (node, 0)
        return found

    def find(self, path: str, depth: int = 0) -> tuple[str, ast.AST] | None:
        """(module, node) that a dotted name stands for, through imports and base classes; a module is its own node."""
        if depth > 12:
            return None
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if (tree := self.module(module)) is not None:
                rest = parts[length:]
                if not rest:
                    return module, tree
                found = self._in_module(module, rest[0], depth)
                for name in rest[1:]:
                    found = found and self._member(*found, name, depth)
                return found
        return None

    def _in_module(self, module: str, name: str, depth: int) -> tuple[str, ast.AST] | None:
        found = self.names_of(module).get(name)
        if found is None:
            for node in statements(self.module(module)):
                if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                    source = absolute(module, node, self.is_package(module))
                    if (inner := self.find(f"{source}.{name}", depth + 1)) is not None:
                        return inner
            return None
        node = found[0]
        if isinstance(node, ast.ImportFrom):
            alias = next(a for a in node.names if (a.asname or a.name) == name)
            source = absolute(module, node, self.is_package(module))
            return (self.find(f"{source}.{alias.name}", depth + 1) if source.startswith("torch") else None) or (
                (module, node) if not source.startswith("torch") else None
            )
        if isinstance(node, ast.Import):
            alias = next(a for a in node.names if (a.asname or a.name.split(".")[0]) == name)
            return self.find(alias.name if alias.asname else name, depth + 1) or (module, node)
        return module, node

    def _member(self, module: str, node: ast.AST, name: str, depth: int) -> tuple[str, ast.AST] | None:
        if isinstance(node, ast.Module):
            return self._in_module(module, name, depth)
        if not isinstance(node, ast.ClassDef):
            # A value: an instance, whose attributes no source tells.
            return (module, node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        for item in statements(node):
            if name in bound_by(item):
                return module, item
        if name in set_on_self(node):
            return module, ast.Constant(name)
        for base in node.bases:
            if (dotted := dotted_name(base)) and (found := self._by_name(module, dotted, depth)):
                if (inner := self._member(*found, name, depth + 1)) is not None:
                    return inner
        return None

    def _by_name(self, module: str, dotted: str, depth: int) -> tuple[str, ast.AST] | None:
        first, *rest = dotted.split(".")
        found = self._in_module(module, first, depth + 1) if depth < 12 else None
        for name in rest:
            found = found and self._member(*found, name, depth + 1)
        return found

    def is_package(self, module: str) -> bool:
        return self.folder.joinpath(*module.split(".")[1:]).is_dir()

    # Operators

    def operators(self) -> dict[str, tuple[str, str]]:
        """Name with overload -> (schema, the rest of its entry)."""
        text = self._text("../torchgen/packaged/ATen/native/native_functions.yaml") or ""
        entries = re.split(r"^- func: ", text, flags=re.M)[1:]
        found = {}
        for entry in entries:
            schema, _, rest = entry.partition("\n")
            found[schema.split("(")[0]] = schema.strip(), re.sub(r"#.*", "", rest)
        return found


# ---------------------------------------------------------------------------------------------------------------------
# C++: what a class declares


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", re.sub(r"^[ \t]*#.*(?:\\\n.*)*", "", text, flags=re.M), flags=re.S)


def closing(text: str, at: int) -> int:
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "{(") - (text[i] in "})")
        if depth == 0:
            return i + 1
    return len(text)


def body_of(text: str, name: str) -> str | None:
    """Between the braces of the definition of a class."""
    head = re.search(rf"\b(?:class|struct)\s+(?:\w+\s+|\w+\([^)]*\)\s+)*{name}\b(?:\s+final)?\s*(?::[^;{{]*)?\{{", text)
    return text[head.end() : closing(text, head.end() - 1) - 1] if head else None


def declarations(body: str) -> list[str]:
    """What a class declares, in order, without the bodies of its functions."""
    found, begin, at = [], 0, 0
    body = re.sub(r"\b(?:public|protected|private)\s*:", " ", body)
    while at < len(body):
        if body[at] == "(":
            at = closing(body, at)
        elif body[at] in ";{":
            text = body[begin:at]
            if body[at] == "{":
                at = closing(body, at)
                if "(" not in text and re.match(r"\s*(?:\w+\s+)*(?:class|struct|enum|union)\b", text) is None:
                    continue  # braces around a member's value
            else:
                at += 1
            found.append(" ".join(text.split()))
            begin = at
        else:
            at += 1
    return [text for text in found if text]


def without_parameter_names(signature: str) -> str:
    """A function without what does not concern who overrides it: names of arguments, defaults, attributes."""
    signature = re.sub(r"\[\[[^]]*\]\]|\b(?:virtual|inline|explicit)\b|\bC10_UNUSED\b", " ", signature)
    begin = signature.find("(")
    if begin < 0:
        return " ".join(signature.split())
    end = closing(signature, begin)
    parts, depth, at = [], 0, begin + 1
    for i in range(begin + 1, end):
        depth += (signature[i] in "<({") - (signature[i] in ">)}")
        if (signature[i] == "," and depth == 0) or i == end - 1:
            parts.append(signature[at:i])
            at = i + 1
    plain = []
    for part in parts:
        tokens = re.findall(r"[\w:]+|\S", part.partition("=")[0])
        types = [t for t in tokens if re.match(r"\w", t) and t not in ("const", "struct")]
        if len(types) > 1 and re.fullmatch(r"\w+", tokens[-1]) and tokens[-1] not in ("int", "long", "char", "short"):
            tokens.pop()
        plain.append(" ".join(tokens))
    tail = signature[end:].replace("override", " ").replace("= default", " ")
    return " ".join(f"{signature[:begin]}({', '.join(plain)}) {tail}".split()).replace("std::", "")


def virtuals(body: str) -> dict[str, tuple[str, str]]:
    """Name with the types of its arguments -> (signature, as it is written), in order."""
    found = {}
    for text in declarations(body):
        if re.search(r"\bvirtual\b|\boverride\b", text) and "operator" not in text:
            plain = without_parameter_names(text)
            found[plain.replace("= 0", "").strip()] = plain, text
    return found


def function_name(signature: str) -> str:
    return re.findall(r"~?\w+", signature.partition("(")[0])[-1]


@functools.cache
def overridden() -> set[str]:
    """Names of functions that csrc/ overrides."""
    text = "".join(path.read_text() for path in cpp_sources())
    return {match[1] for match in re.finditer(r"(?<!~)\b(\w+)\([^;{}]*\)[^;{}()]*\boverride\b", text)}


def cpp_sources() -> list[Path]:
    return [path for path in sorted((ROOT / "csrc").rglob("*")) if path.suffix in (".h", ".cpp")]


def derived_from_torch() -> dict[str, str]:
    """Class of torch that a class of csrc/ derives from -> the file of that class."""
    found = {}
    head = re.compile(r"\b(?:class|struct)\s+(\w+)(?:\s+final)?\s*:\s*([^;{}]+)\{")
    for path in cpp_sources():
        for _, bases in head.findall(without_comments(path.read_text())):
            for base in re.findall(r"(?<![\w:])(?:::)?((?:at|c10|c10d|libkineto|torch)(?:::\w+)+)", bases):
                found[base] = str(path.relative_to(ROOT))
    return found


def cpp_rows(old: Torch, new: Torch) -> list[Row]:
    rows, ours = [], overridden()
    for name, header in CLASSES.items():
        before, after = old.class_body(name, header), new.class_body(name, header)
        if before is None:
            continue
        if after is None:
            rows.append(Row("gone", name, before[0], "the class"))
            continue
        if before[0] != after[0]:
            rows.append(Row("moved", name, after[0], f"was in {before[0]}"))
        if name in DATA:
            was, now = ([d for d in declarations(body) if "(" not in d] for _, body in (before, after))
            rows += [Row("member gone", name, after[0], d) for d in was if d not in now]
            rows += [Row("member new", name, after[0], d) for d in now if d not in was]
        rows += virtual_rows(name, after[0], virtuals(before[1]), virtuals(after[1]), ours)
    return rows


def virtual_rows(name: str, header: str, was: dict, now: dict, ours: set[str]) -> list[Row]:
    rows = []
    gone, added = [key for key in was if key not in now], [key for key in now if key not in was]
    for key in gone:
        function = function_name(key)
        text = was[key][0] + ("" if function in ours else "   (not overridden here)")
        changed = [other for other in added if function_name(other) == function]
        if changed:
            added.remove(changed[0])
            rows.append(Row("signature", f"{name}::{function}", header, f"{was[key][0]}  ->  {now[changed[0]][0]}"))
        else:
            rows.append(Row("gone" if function in ours else "virtual gone", f"{name}::{function}", header, text))
    for key in added:
        pure = "= 0" in now[key][0]
        what = "new, pure" if pure else "new"
        after = next((other for other in reversed(list(now)[: list(now).index(key)]) if other in was), None)
        rows.append(Row(what, f"{name}::{function_name(key)}", header, f"{now[key][0]}"
                        + (f"   (after {function_name(after)})" if after else "   (first)")))  # fmt: skip
    for key in was:
        if key in now and ("= 0" in was[key][0]) != ("= 0" in now[key][0]):
            rows.append(Row("pure" if "= 0" in now[key][0] else "no longer pure", f"{name}::{function_name(key)}",
                            header, now[key][0]))  # fmt: skip
    kept = [key for key in was if key in now]
    if kept != [key for key in now if key in was]:
        rows.append(Row("order", name, header, "its virtual functions stand in another order"))
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# Operators


def registered() -> tuple[set[str], set[str]]:
    """Names of operators that csrc/aten registers: with overloads, and those of the pointwise tables without."""
    sys.path.insert(0, str(ROOT / "tools"))
    import operators_page

    exact = set()
    for path in sorted((ROOT / "csrc/aten").glob("**/*.cpp")):
        text = re.sub(r"//.*", "", path.read_text())
        exact |= set(re.findall(r'(?:ROW|GUARDED|impl)\(\s*"(?:aten::)?([A-Za-z_]\w*(?:\.\w+)?)"', text))
    names = {name for found in operators_page.families().values() for name in found}
    return exact, names | {name.split(".")[0] for name in exact}


def operator_rows(old: Torch, new: Torch, exact: set[str], names: set[str]) -> list[Row]:
    rows, was, now = [], old.operators(), new.operators()
    others: dict[str, list[str]] = {}  # overloads that we do not register ourselves
    for name, (schema, _) in sorted(was.items()):
        operator, _, overload = name.partition(".")
        ours = operator in names
        if ours and name not in now:
            if name in exact or operator not in {other.split(".")[0] for other in now}:
                rows.append(Row("gone", name, "csrc/aten", schema))
            else:
                others.setdefault(operator, []).append(overload or "(without)")
        elif ours and now[name][0] != schema:
            rows.append(Row("schema", name, "csrc/aten", f"{schema}  ->  {now[name][0]}"))
    rows += [Row("overloads gone", name, "csrc/aten", ", ".join(gone)) for name, gone in others.items()]
    for name, (schema, rest) in sorted(now.items()):
        if name in was or name in exact:
            continue
        if "CompositeExplicitAutograd" in rest:
            rows.append(Row("new, by its parts", name, "native_functions.yaml", schema))
        elif "dispatch:" in rest and "CompositeImplicitAutograd" not in rest:
            rows.append(Row("new, falls back", name, "native_functions.yaml", schema))
        elif name.split(".")[0] in names:
            rows.append(Row("new overload", name, "native_functions.yaml", schema))
    return rows


# ---------------------------------------------------------------------------------------------------------------------


def compare(old: Torch, new: Torch, package: Path = ROOT / "torch_aule") -> dict[str, list]:
    """Section -> its differences; "unseen" has the names that could not be looked up."""
    rows, unseen = python_rows(old, new, python_uses(package, old))
    return {"C++": cpp_rows(old, new), "Python": rows, "operators": operator_rows(old, new, *registered()),
            "unseen": unseen}  # fmt: skip


def table(rows: list[Row]) -> list[str]:
    if not rows:
        return ["  nothing moved"]
    widths = [max(len(getattr(row, field)) for row in rows) for field in ("what", "name")]
    return [f"  {row.what:{widths[0]}}  {row.name:{widths[1]}}  {row.where}: {row.text}".rstrip(": ") for row in rows]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="a folder of torch, its environment, or an interpreter")
    parser.add_argument("new", help="the same of the other")
    parser.add_argument("--json", action="store_true", help="one object instead of tables")
    options = parser.parse_args(arguments)
    old, new = Torch(options.old), Torch(options.new)
    found = compare(old, new)
    unseen = found.pop("unseen")
    gone = [row for rows in found.values() for row in rows if row.what == "gone"]
    if options.json:
        sections = {name: [asdict(row) for row in rows] for name, rows in found.items()}
        print(json.dumps({"old": old.version, "new": new.version, **sections, "unseen": unseen}, indent=1))
    else:
        print(f"torch {old.version} -> {new.version}")
        for name, rows in found.items():
            counts = {what: sum(row.what == what for row in rows) for what in dict.fromkeys(row.what for row in rows)}
            print(f"\n{name}: {', '.join(f'{n} {what}' for what, n in counts.items()) or 'nothing'}")
            print("\n".join(table(sorted(rows, key=lambda row: row.what != "gone"))))
        print(f"\n{len(gone)} gone; {len(unseen)} names are of values or bindings that no source tells of (--json)")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
