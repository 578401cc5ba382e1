"""torch_aule.integrations: hooks look first, say what they did, and are taken back, on packages made for the test."""

import importlib
import sys
import types

import pytest

from torch_aule import integrations
from torch_aule.importing import ImportWatch
from torch_aule.integrations import patch
from torch_aule.integrations._registry import Hook, Registry
from torch_aule.integrations.patch import NotAsExpected, Patches


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package on disk with a function, a user that imports it by name, and the clean-up."""
    (tmp_path / "thing_to_hook").mkdir()
    (tmp_path / "thing_to_hook/__init__.py").write_text("")
    (tmp_path / "thing_to_hook/part.py").write_text("def answer(x):\n    return x\nclass Kind:\n    size = 1\n")
    (tmp_path / "thing_to_hook/user.py").write_text("from thing_to_hook.part import answer as renamed\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "thing_to_hook"
    for name in [n for n in sys.modules if n.startswith("thing_to_hook")]:
        del sys.modules[name]


def make(install, **options):
    hook = Hook("thing_to_hook", "hook", "thing_to_hook.part", "answers twice as much", install, **options)
    return hook, Registry([hook])


def double(module, patches):
    own = patch.attribute(module, "answer")
    patches.rebind(own, lambda x: 2 * own(x))


def state(registry):
    (row,) = registry.status()
    return row.state, row.reason


@pytest.fixture
def started():
    registries = []
    yield lambda registry: (registry.start(), registries.append(registry))
    for registry in registries:
        registry.disable(())


def test_a_hook_comes_with_the_import_and_goes(package, started):
    hook, registry = make(double)
    started(registry)
    assert state(registry) == ("pending", "thing_to_hook.part has not been imported")
    from thing_to_hook.part import answer
    from thing_to_hook.user import renamed

    user = sys.modules["thing_to_hook.user"]
    assert state(registry) == ("applied", "answers twice as much") and answer(3) == 6 and renamed(3) == 6
    registry.disable(())
    assert user.renamed(3) == 3 and sys.modules["thing_to_hook.part"].answer(3) == 3
    assert state(registry) == ("skipped", "off by torch_aule.integrations.disable()")
    registry.enable(())
    assert user.renamed(3) == 6, "a name that was imported while the hook was off"
    registry.enable(())
    assert user.renamed(3) == 6, "applied twice"


def test_a_module_that_is_being_imported(package, started):
    """torch loads this package in the midst of the import of whatever imports torch first."""
    hook, registry = make(double)
    package.parent.joinpath("thing_to_hook_starter.py").write_text("start = None\n")
    starter = importlib.import_module("thing_to_hook_starter")
    starter.start = lambda: started(registry)
    text = (package / "part.py").read_text()
    (package / "part.py").write_text(f"import thing_to_hook_starter\nthing_to_hook_starter.start()\n{text}")
    part = importlib.import_module("thing_to_hook.part")
    assert state(registry)[0] == "applied" and part.answer(3) == 6


def test_a_failed_import_and_a_second_one(package, started):
    hook, registry = make(double)
    started(registry)
    text = (package / "part.py").read_text()
    (package / "part.py").write_text(text + "raise OSError('no')\n")
    with pytest.raises(OSError):
        importlib.import_module("thing_to_hook.part")
    assert state(registry)[0] == "pending"
    (package / "part.py").write_text(text + "# whole again\n")
    importlib.invalidate_caches()
    assert importlib.import_module("thing_to_hook.part").answer(3) == 6
    del sys.modules["thing_to_hook.part"]
    assert importlib.import_module("thing_to_hook.part").answer(3) == 6, "executed anew: patched once, not twice"


@pytest.mark.parametrize("error", [NotAsExpected("Kind has no colour"), ZeroDivisionError("oh")])
def test_a_hook_that_finds_something_else(package, started, error):
    def install(module, patches):
        if not isinstance(error, NotAsExpected):  # a fault of ours, half way
            patches.set(module.Kind, "size", 2)
            double(module, patches)
        raise error

    hook, registry = make(install)
    started(registry)
    part = importlib.import_module("thing_to_hook.part")
    assert part.answer(3) == 3 and part.Kind.size == 1
    assert state(registry) == (
        ("skipped", "Kind has no colour") if isinstance(error, NotAsExpected) else ("failed", "ZeroDivisionError: oh")
    )


def test_beside_a_built_in_accelerator(package, started, monkeypatch):
    monkeypatch.setattr(patch, "_built_in", ["cuda"])
    assert not patch.aule_is_default()
    hook, registry = make(double, chooses_device=True)
    started(registry)
    assert importlib.import_module("thing_to_hook.part").answer(3) == 3
    assert state(registry) == ("skipped", "cuda is there and stays the device that is chosen by default")


def test_what_someone_else_replaced_is_left():
    owner = types.ModuleType("owner")
    owner.name = 1
    patches = Patches()
    patches.set(owner, "name", 2)
    owner.name = 3
    assert patches.undo() == ["owner.name was replaced again by someone else and is left as it is"]
    assert owner.name == 3 and patches.undo() == []


def test_constants_of_code():
    def function(device):
        if device not in ("cuda", "xpu", "mps"):
            raise ValueError(device)
        return device

    code = function.__code__
    names = patch.tuple_constant(code, "cuda", "mps")
    patches = Patches()
    patches.set_constant(function, names, (*names, "aule"))
    assert function("aule") == "aule" and function("mps") == "mps"
    assert patches.undo() == [] and function.__code__ is code
    with pytest.raises(ValueError):
        function("aule")
    with pytest.raises(NotAsExpected, match="0 lists"):
        patch.tuple_constant(code, "tpu")


def test_looking():
    owner = types.ModuleType("owner")
    owner.number = 1
    with pytest.raises(NotAsExpected, match="owner has no colour"):
        patch.attribute(owner, "colour")
    with pytest.raises(NotAsExpected, match=r"owner\.number is a int"):
        patch.attribute(owner, "number")
    with pytest.raises(NotAsExpected, match="takes no device, but x"):
        patch.parameters_of(lambda x: x, "x", "device")


def test_the_environment_chooses(monkeypatch, package):
    monkeypatch.setenv("TORCH_AULE_INTEGRATIONS", "thing_to_hook.hook,colour")
    other = Hook("other_thing", "hook", "other_thing", "nothing", double)
    hook, _ = make(double)
    registry = Registry([hook, other])
    with pytest.warns(UserWarning, match="no integration is named 'colour'"):
        registry.start()
    try:
        reasons = {row.package: (row.state, row.reason) for row in registry.status()}
        assert reasons["other_thing"] == ("skipped", "off by TORCH_AULE_INTEGRATIONS=thing_to_hook.hook,colour")
        assert reasons["thing_to_hook"][0] == "pending"
    finally:
        registry.disable(())


def test_names_that_nobody_has():
    with pytest.raises(ValueError, match="'acelerate'.*expected one of accelerate, bitsandbytes"):
        integrations.disable("acelerate")
    with pytest.raises(ValueError, match="expected one of"):
        integrations.enable("accelerate.colour")


def test_the_watch_finds_nothing_itself():
    watch = ImportWatch({"thing_that_is_not"}, lambda module: None)
    watch.start()
    watch.start()
    try:
        assert sys.meta_path.count(watch) == 1
        assert watch.find_spec("thing_that_is_not") is None and watch.find_spec("json") is None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("thing_that_is_not")
    finally:
        watch.stop()
        watch.stop()
    assert watch not in sys.meta_path
