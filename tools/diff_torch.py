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
import copy
import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Row:
    """One difference."""

    what: str  # "gone", "new", "signature", ...
    name: str
    where: str  # of ours, or of torch's
    text: str = ""


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
# Python: what torch_aule depends on


def statements(node: ast.AST | None) -> Iterator[ast.stmt]:
    """Those of a module or class, in the branches of if, try and with too."""
    for field in ("body", "orelse", "finalbody", "handlers") if node is not None else ():
        for item in getattr(node, field, ()):
            if isinstance(item, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
                yield from statements(item)
            else:
                yield item


def bound_by(node: ast.AST) -> list[str]:
    """The names that a statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return []


@functools.cache
def set_on_self(node: ast.ClassDef) -> set[str]:
    """Attributes that the methods of a class set."""
    return {
        item.attr for item in ast.walk(node)
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and dotted_name(item.value) == "self"
    }  # fmt: skip


def absolute(module: str, node: ast.ImportFrom, package: bool) -> str:
    """The module of `from ... import`."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + package]
    return ".".join([*parts, node.module] if node.module else parts)


def dotted_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):  # Generic[T]
        return dotted_name(node.value)
    if isinstance(node, ast.Attribute) and (owner := dotted_name(node.value)):
        return f"{owner}.{node.attr}"
    return None


def is_private(path: str) -> bool:
    """True for a name that PyTorch does not promise to keep."""
    return any(part.startswith("_") and not part.startswith("__") for part in path.split("."))


class Uses(ast.NodeVisitor):
    """What one file of ours takes from torch: dotted name -> how ("replaces", "derives from", "takes")."""

    OURS = ("torch.aule", "torch.ops", "torch_aule")

    def __init__(self, tree: ast.Module):
        self.names = {"torch": "torch"}
        self.found: dict[str, str] = {}
        self.classes: list[tuple[list[str], ast.ClassDef]] = []
        binding = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom, ast.Assign))]
        for node in binding * 2:  # a name may stand for one that is bound further down
            self._learn(node)
        self.visit(tree)

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    self.names[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            for target, value in pairs:
                if isinstance(target, ast.Name) and (path := self._module_of(value) or self._path(value)):
                    self.names.setdefault(target.id, path)

    @staticmethod
    def _module_of(node: ast.AST) -> str | None:
        """importlib.import_module("torch....")."""
        if isinstance(node, ast.Call) and dotted_name(node.func) == "importlib.import_module" and node.args:
            value = node.args[0]
            if isinstance(value, ast.Constant) and str(value.value).split(".")[0] == "torch":
                return value.value
        return None

    def _path(self, node: ast.AST) -> str | None:
        """The dotted name of torch that an expression stands for."""
        dotted = dotted_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        first, _, rest = (dotted or "").partition(".")
        known = self.names.get(first)
        return known and (f"{known}.{rest}" if rest else known)

    def _keep(self, path: str | None, how: str) -> None:
        if path is None or path.startswith(self.OURS) or (how == "takes" and not is_private(path)):
            return
        order = ("replaces", "derives from", "takes")
        self.found[path] = min(how, self.found.get(path, how), key=order.index)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._keep(self.names.get(alias.asname or alias.name), "takes") if not node.level else None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        self._keep(path, "replaces" if isinstance(node.ctx, ast.Store) else "takes")
        if path is None:
            self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [path for base in node.bases if (path := self._path(base)) and path.startswith("torch.")]
        for path in bases:
            self._keep(path, "derives from")
        if bases:
            self.classes.append((bases, node))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """setattr(owner, "name", value), getattr(owner, "name", None), patches.set(owner, "name", value)."""
        name = dotted_name(node.func) or ""
        if name.split(".")[-1] in ("setattr", "getattr", "set", "hasattr", "attribute") and len(node.args) > 1:
            owner, attribute = self._path(node.args[0]), node.args[1]
            if owner and isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
                how = "replaces" if name.split(".")[-1] in ("setattr", "set") else "takes"
                self._keep(f"{owner}.{attribute.value}", how)
        self._keep(self._module_of(node), "takes")
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        """(module, "name", what wraps it): a row of a table of what is replaced."""
        if len(node.elts) == 3 and isinstance(node.elts[1], ast.Constant) and isinstance(node.elts[1].value, str):
            if isinstance(node.elts[2], ast.Name) and (owner := self._path(node.elts[0])):
                self._keep(f"{owner}.{node.elts[1].value}", "replaces")
        self.generic_visit(node)


def python_uses(package: Path, old: Torch) -> dict[str, tuple[str, str]]:
    """Dotted name of torch -> (how, file): names, and of classes that we derive from what we override and call."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(package.rglob("*.py")):
        uses = Uses(ast.parse(path.read_text()))
        file = str(path.relative_to(package.parent))
        for name, how in uses.found.items():
            if name not in found or how == "replaces":
                found[name] = how, file
        for bases, node in uses.classes:
            own = {name for item in statements(node) for name in bound_by(item)}
            called = {
                item.attr for item in ast.walk(node)
                if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "self"
            }  # fmt: skip
            for base in bases:
                for name in sorted(own | called):
                    if not name.startswith("__") and old.find(f"{base}.{name}") is not None and old.find(base):
                        found.setdefault(f"{base}.{name}", ("overrides" if name in own else "takes", file))
    return found


def drop_docstrings(node: ast.AST) -> None:
    """Of the functions and classes in a module or class: another text is no change."""
    for item in statements(node):
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = item.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str:
                item.body = item.body[1:] or [ast.Pass()]
            if isinstance(item, ast.ClassDef):
                drop_docstrings(item)


def members(node: ast.ClassDef) -> dict[str, str]:
    """Name -> source of what a class has of its own."""
    return {name: ast.dump(item) for item in statements(node) for name in bound_by(item)}


def change(was: ast.AST, now: ast.AST) -> str | None:
    """What changed in a source; of a class, which members are new or gone. None: nothing."""
    if not (isinstance(was, ast.ClassDef) and isinstance(now, ast.ClassDef)):
        return None if ast.dump(was) == ast.dump(now) else ""
    before, after = members(was), members(now)
    words = [f"{what}: {', '.join(names)}" for what, names in (
        ("new", [name for name in after if name not in before]),
        ("gone", [name for name in before if name not in after]),
    ) if names]  # fmt: skip
    bases = [[ast.unparse(base) for base in node.bases] for node in (was, now)]
    if bases[0] != bases[1]:
        words.append(f"bases: {', '.join(bases[1])}")
    return "; ".join(words) if words or before != after else None


def signature(node: ast.AST) -> str | None:
    """Of a function, or of a class's constructor."""
    if isinstance(node, ast.ClassDef):
        node = next((item for item in statements(node) if bound_by(item) == ["__init__"]), None)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    plain = copy.deepcopy(node.args)
    for argument in (*plain.posonlyargs, *plain.args, *plain.kwonlyargs, plain.vararg, plain.kwarg):
        if argument is not None:
            argument.annotation = None
    return f"({ast.unparse(plain)})"


def python_rows(old: Torch, new: Torch, uses: dict[str, tuple[str, str]]) -> tuple[list[Row], list[str]]:
    """Differences, and the names that no source of OLD tells of."""
    rows, unseen = [], []
    for name, (how, file) in sorted(uses.items()):
        before, after = old.find(name), new.find(name)
        if before is None:
            unseen.append(name)
            continue
        if after is None:
            rows.append(Row("gone", name, file, how))
            continue
        if isinstance(before[1], (ast.Module, ast.Import, ast.ImportFrom)):
            continue
        was, now = signature(before[1]), signature(after[1])
        if was != now:
            rows.append(Row("signature", name, file, f"{how}: {was}  ->  {now}"))
        elif (text := change(before[1], after[1])) is not None:
            rows.append(Row("source", name, file, f"{how}; {text}" if text else how))
        elif before[0] != after[0]:
            rows.append(Row("moved", name, file, f"{how}: {before[0]}  ->  {after[0]}"))
    return rows, unseen


# ---------------------------------------------------------------------------------------------------------------------
# Operators


def registered() -> tuple[set[str], set[str]]:
    """Names of operators that csrc/aten registers: with overloads, and those of the pointwise tables without."""
    sys.path.insert(0, str(ROOT / "tools"))
    import operators_page

    exact = set()
    for path in sorted((ROOT / "csrc/aten").glob("*.cpp")):
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
