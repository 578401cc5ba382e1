"""The list of hooks, what became of each, and the switches."""

from __future__ import annotations

import importlib.metadata
import os
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import NamedTuple

from torch_aule.importing import ImportWatch
from torch_aule.integrations.patch import NotAsExpected, Patches, built_in_accelerator

__all__ = ["Hook", "Registry", "Row"]

VARIABLE = "TORCH_AULE_INTEGRATIONS"


class Row(NamedTuple):
    """One line of :func:`torch_aule.integrations.status`.

    Attributes
    ----------
    package : str
        Name of the other package.
    version : str or None
        Its version, None if it is not installed.
    hook : str
        Name of the hook, unique within the package.
    state : str
        ``"applied"``, ``"skipped"``, ``"failed"`` or ``"pending"`` (the package has not been imported).
    reason : str
        What an applied hook does; why another one was not applied.
    """

    package: str
    version: str | None
    hook: str
    state: str
    reason: str


@dataclass
class Hook:
    """A change to one module of another package.

    Parameters
    ----------
    package, name : str
        Name of the package, and of the hook within it.
    module : str
        Full name of the module whose import brings the hook about.
    effect : str
        What it does, for the status.
    install : callable
        Takes the module and a :class:`Patches`. Looks first, and raises NotAsExpected before the first change.
    chooses_device : bool
        Whether it makes a program that names no device use this one. Such hooks stay off beside a built-in accelerator.
    """

    package: str
    name: str
    module: str
    effect: str
    install: Callable[[ModuleType, Patches], None]
    chooses_device: bool = False
    state: str = field(default="pending", init=False)
    reason: str = field(default="", init=False)
    patches: Patches = field(default_factory=Patches, init=False)

    @property
    def key(self) -> str:
        """The hook's full name."""
        return f"{self.package}.{self.name}"

    def apply(self, module: ModuleType) -> None:
        """Apply the hook to `module`. Never raises: another package's import must not fail because of it."""
        try:
            if self.chooses_device and (other := built_in_accelerator()):
                raise NotAsExpected(f"{other} is there and stays the device that is chosen by default")
            self.install(module, self.patches)
            self.state, self.reason = "applied", self.effect
        except NotAsExpected as error:
            self.state, self.reason = "skipped", str(error)
        except Exception as error:
            left = self.patches.undo()
            self.state, self.reason = "failed", "; ".join([f"{type(error).__name__}: {error}", *left])

    def remove(self, reason: str) -> None:
        """Take the hook back; `reason` says why."""
        left = self.patches.undo()
        self.state, self.reason = ("failed", "; ".join(left)) if left else ("skipped", reason)


class Registry:
    """All hooks. One lock, never held while another package's code runs other than a hook's `install`."""

    def __init__(self, hooks: list[Hook]):
        self.hooks = hooks
        self._off: set[str] = set()  # keys of hooks that are turned off
        self._lock = threading.RLock()
        self._watch = ImportWatch({hook.module for hook in hooks}, self._executed)

    def _executed(self, module: ModuleType) -> None:
        """A module has just been executed: whatever was patched in an earlier one of that name is gone."""
        with self._lock:
            for hook in self.hooks:
                if hook.module == module.__name__ and hook.key not in self._off:
                    hook.patches.forget()
                    hook.apply(module)

    def _start(self, hooks: list[Hook]) -> None:
        self._watch.start()
        for hook in hooks:
            hook.state, hook.reason = "pending", f"{hook.module} has not been imported"
            if (module := self._watch.imported(hook.module)) is not None:
                hook.apply(module)

    def _stop(self, hooks: list[Hook], reason: str) -> None:
        for hook in hooks:
            self._off.add(hook.key)
            hook.remove(reason)
        if len(self._off) == len(self.hooks):
            self._watch.stop()

    def unknown(self, names) -> list[str]:
        """Those of `names` that are neither a package nor a ``package.hook``."""
        known = {name for hook in self.hooks for name in (hook.package, hook.key)}
        return [name for name in names if name not in known]

    def select(self, names) -> list[Hook]:
        """Hooks of the given packages or ``package.hook`` names; all of them for no names."""
        if unknown := self.unknown(names):
            packages = ", ".join(sorted({hook.package for hook in self.hooks}))
            raise ValueError(
                f"no integration is named {', '.join(map(repr, unknown))}: expected one of {packages}, "
                "or package.hook as in the rows of torch_aule.integrations.status()"
            )
        return [hook for hook in self.hooks if not names or hook.package in names or hook.key in names]

    def start(self) -> None:
        """Begin, but for the hooks that the environment turns off."""
        wish = os.environ.get(VARIABLE, "").strip()
        with self._lock:
            if wish in ("", "1"):
                wanted = self.hooks
            else:
                names = [] if wish == "0" else [name.strip() for name in wish.split(",") if name.strip()]
                if unknown := self.unknown(names):
                    warnings.warn(f"{VARIABLE}: no integration is named {', '.join(map(repr, unknown))}", stacklevel=2)
                    names = [name for name in names if name not in unknown]
                wanted = self.select(names) if names else []
            keys = {hook.key for hook in wanted}
            self._stop([hook for hook in self.hooks if hook.key not in keys], f"off by {VARIABLE}={wish}")
            if wanted:
                self._start(wanted)

    def disable(self, names) -> None:
        """Take hooks back and keep them off."""
        with self._lock:
            self._stop(self.select(names), "off by torch_aule.integrations.disable()")

    def enable(self, names) -> None:
        """Allow hooks again that the environment or `disable` turned off."""
        with self._lock:
            hooks = [hook for hook in self.select(names) if hook.key in self._off]
            self._off -= {hook.key for hook in hooks}
            self._start(hooks)

    def status(self) -> list[Row]:
        """A row for each hook."""
        versions: dict[str, str | None] = {}
        for hook in self.hooks:
            if hook.package not in versions:
                try:
                    versions[hook.package] = importlib.metadata.version(hook.package)
                except importlib.metadata.PackageNotFoundError:
                    versions[hook.package] = None
        with self._lock:
            return [Row(h.package, versions[h.package], h.name, h.state, h.reason) for h in self.hooks]
