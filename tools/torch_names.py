"""Names of Python that torch_aule takes from torch, and what became of them: a part of tools/diff_torch.py."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diff_torch import Torch


@dataclass(frozen=True)
class Row:
    """One difference."""

    what: str  # "gone", "new", "signature", ...
    name: str
    where: str  # of ours, or of torch's
    text: str = ""


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
        """setattr(owner, "name", value), getattr(owner, "name", None), patches.set(owner, "name", value), Patch()."""
        name = dotted_name(node.func) or ""
        if name == "Patch" and all(isinstance(arg, ast.Constant) for arg in node.args[:2]):
            self._keep(".".join(arg.value for arg in node.args[:2]), "replaces")
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
