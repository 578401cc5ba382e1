"""Changes to another package that can be taken back exactly, and the questions that are asked before one is made."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from torch_aule import accelerators

__all__ = [
    "NotAsExpected",
    "Patches",
    "attribute",
    "aule_is_default",
    "built_in_accelerator",
    "parameters_of",
    "tuple_constant",
    "wrap",
]


class NotAsExpected(Exception):
    """The other package does not look as this hook expects, or the hook has no work here; nothing was changed."""


_ABSENT = object()


def _bindings(value: object):
    """(namespace, name) of every module global that is `value`: what ``from module import name`` has left behind."""
    for module in list(sys.modules.values()):
        # vars() does not run a lazy module's __getattr__. Ours hold originals and wrappers for the way back.
        if not isinstance(module, ModuleType) or module.__name__.startswith("torch_aule."):
            continue
        namespace = vars(module)
        for name, bound in list(namespace.items()):
            if bound is value:
                yield namespace, name


class Patches:
    """The changes of one hook, in order."""

    def __init__(self):
        self._undo: list[Callable[[], str | None]] = []

    def set(self, owner: type | ModuleType, name: str, value: object) -> None:
        """Set an attribute of a class or module."""
        before = vars(owner).get(name, _ABSENT)

        def undo():
            if vars(owner).get(name, _ABSENT) is not value:
                return f"{owner.__name__}.{name} was replaced again by someone else and is left as it is"
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        setattr(owner, name, value)
        self._undo.append(undo)

    def set_item(self, mapping: dict, key: object, value: object) -> None:
        """Set the value of a key that is there."""
        before = mapping[key]

        def undo():
            if mapping.get(key) is not value:
                return f"the entry {key} was replaced again by someone else and is left as it is"
            mapping[key] = before

        mapping[key] = value
        self._undo.append(undo)

    def add_item(self, mapping: dict, key: object, value: object) -> None:
        """Set the value of a key that is not there."""

        def undo():
            if mapping.get(key) is value:
                del mapping[key]

        mapping[key] = value
        self._undo.append(undo)

    def rebind(self, original: object, replacement: object, keep: tuple[str, ...] = ()) -> None:
        """Replace a function or class wherever a module's global is it, also under another name.

        Taking it back covers modules that imported the replacement later. Modules named in `keep` keep the original.
        """

        def undo():
            for namespace, name in _bindings(replacement):
                namespace[name] = original

        kept = [vars(sys.modules[name]) for name in keep]
        for namespace, name in _bindings(original):
            if not any(namespace is other for other in kept):
                namespace[name] = replacement
        self._undo.append(undo)

    def set_constant(self, function: FunctionType, old: object, new: object) -> None:
        """Replace a constant in a function's code; the function stays the same object."""
        before = function.__code__
        changed = before.replace(co_consts=tuple(new if constant is old else constant for constant in before.co_consts))

        def undo():
            if function.__code__ is not changed:
                return f"the code of {function.__qualname__} was replaced again by someone else and is left as it is"
            function.__code__ = before

        function.__code__ = changed
        self._undo.append(undo)

    def on_undo(self, step: Callable[[], None]) -> None:
        """Have a change taken back that was made in the other package's own way, by registering something, say."""
        self._undo.append(step)

    def undo(self) -> list[str]:
        """Take everything back, last change first. Returns a sentence for each change that could not be."""
        left = []
        while self._undo:
            if sentence := self._undo.pop()():
                left.append(sentence)
        return left

    def forget(self) -> None:
        """The patched module was executed anew: there is nothing to take back."""
        self._undo.clear()


def attribute(owner: type | ModuleType, name: str, kind: type | tuple[type, ...] | Callable[[Any], bool] = callable):
    """The attribute `name` that `owner` itself defines, if it is of the expected kind; otherwise NotAsExpected."""
    value = vars(owner).get(name, _ABSENT)
    if value is _ABSENT:
        raise NotAsExpected(f"{owner.__name__} has no {name}")
    fits = isinstance(value, kind) if isinstance(kind, (type, tuple)) else kind(value)
    if not fits:
        raise NotAsExpected(f"{owner.__name__}.{name} is a {type(value).__name__}")
    return value


def parameters_of(function: Any, *expected: str) -> inspect.Signature:
    """The signature of `function`; NotAsExpected unless it has parameters of these names."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise NotAsExpected(f"{function!r} does not tell its signature: {error}") from error
    found = signature.parameters
    missing = [name for name in expected if name not in found]
    if missing:
        raise NotAsExpected(f"{function.__qualname__} takes no {', '.join(missing)}, but {', '.join(found)}")
    return signature


def wrap(original: Callable) -> Callable[[Callable], Callable]:
    """Like functools.wraps, and what lru_cache adds to a function is carried over too."""

    def decorate(wrapper: Callable) -> Callable:
        functools.update_wrapper(wrapper, original)
        for name in ("cache_clear", "cache_info", "cache_parameters"):
            if hasattr(original, name):
                setattr(wrapper, name, getattr(original, name))
        return wrapper

    return decorate


def tuple_constant(code: CodeType, *members: str) -> tuple:
    """The only tuple of strings among the constants of `code` that contains `members`; otherwise NotAsExpected."""
    found = [
        constant
        for constant in code.co_consts
        if isinstance(constant, tuple) and all(isinstance(m, str) for m in constant) and set(members) <= set(constant)
    ]
    if len(found) != 1:
        raise NotAsExpected(f"{code.co_filename}:{code.co_firstlineno} has {len(found)} lists of device types, not one")
    return found[0]


_lock = threading.Lock()
_built_in: list[str | None] = []


def built_in_accelerator() -> str | None:
    """CUDA, XPU or MPS, if torch was built for one that is there. Asked once."""
    with _lock:
        if not _built_in:
            _built_in.append(accelerators.built_in_accelerator())
    return _built_in[0]


def aule_is_default() -> bool:
    """Whether a program that names no device would expect this one: it is there, and no built-in accelerator is."""
    return built_in_accelerator() is None and torch.aule.is_available()
