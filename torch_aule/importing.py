"""Calls back when a module has been imported, without importing it."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["ImportWatch", "run_after_import"]


def _being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _WatchedSpec(ModuleSpec):
    """A spec that notices the end of its module's import: importlib then sets `_initializing` to False.

    The attribute is importlib's own, in use since Python 3.4. If it goes away, hooks stay pending and say so.
    """

    @property
    def _initializing(self):
        return self.__dict__.get("_initializing", False)

    @_initializing.setter
    def _initializing(self, value):
        self.__dict__["_initializing"] = value
        if value:
            return
        done = self.__dict__.pop("_aule_done")
        self.__class__ = ModuleSpec
        module = sys.modules.get(self.name)
        if module is not None:  # absent: its import failed
            done(module)


def _watch(spec: ModuleSpec, done: Callable[[ModuleType], None]) -> None:
    if type(spec) is ModuleSpec:
        spec.__dict__["_aule_done"] = done
        spec.__class__ = _WatchedSpec


class ImportWatch:
    """A finder at the head of ``sys.meta_path`` that finds nothing itself.

    It costs every import one look into a dictionary.

    Parameters
    ----------
    names : iterable of str
        Full names of modules.
    done : callable
        Called with a module of such a name each time that it has been executed.
    """

    def __init__(self, names, done: Callable[[ModuleType], None]):
        self._names = frozenset(names)
        self._done = done
        self._searching = threading.local()

    def start(self) -> None:
        """Watch from now on; a second call does nothing."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def imported(self, name: str) -> ModuleType | None:
        """The module `name`, if it has been executed. One that is being executed is reported later."""
        module = sys.modules.get(name)
        if module is None:
            return None
        if _being_imported(module):  # it imports torch, and torch has loaded this package
            if module.__spec__ is not None:
                _watch(module.__spec__, self._done)
            return None
        return module

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self._names or getattr(self._searching, "name", None) == fullname:
            return None
        self._searching.name = fullname
        try:
            for finder in list(sys.meta_path):
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    _watch(spec, self._done)
                    return spec
        finally:
            self._searching.name = None
        return None


def run_after_import(steps: Mapping[str, Callable[[ModuleType], None]], loss: str) -> None:
    """Watch for imports and run a step after each; what has been imported already is served at once.

    A step that fails warns, for somebody else's import must not fail for it.

    Parameters
    ----------
    steps : mapping of str to callable
        By the full name of the module that each takes.
    loss : str
        What a user lacks if a step fails, for the warning.
    """

    def imported(module: ModuleType) -> None:
        try:
            steps[module.__name__](module)
        except Exception as error:
            warnings.warn(f"torch_aule: {loss}: {error!r}", stacklevel=2)

    watch = ImportWatch(steps, imported)
    for name in steps:
        module = watch.imported(name)
        if module is not None:
            imported(module)
    watch.start()
