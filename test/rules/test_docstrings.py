"""Every public function, class and method says what it takes, gives and raises, in NumPy style."""

import importlib
import inspect
import re

import pytest

MODULES = ("torch_aule", *(f"torch_aule.{name}" for name in (
    "accelerators", "assistant", "attention", "attention.cache", "attention.pages", "attention.positions",
    "attention.rotary", "attention.variants", "audio", "backend", "backend.amp", "backend.cache_folder",
    "backend.devices", "backend.fallback", "backend.graphs", "backend.memory", "backend.overrides", "backend.random",
    "backend.streams", "backend.telemetry", "backend.transfers", "benchmark.sweep", "benchmark.table",
    "benchmark.visualize", "collect_env", "compat.build_shaders", "compat.comfyui", "compat.experimental",
    "compat.install", "compat.moe", "compat.objects", "compat.reference_kernels", "compat.testing", "distributed",
    "doctor", "errors", "functional", "info", "integrations", "linear", "llm", "profiler", "profiling", "quantized",
    "quantized.gguf", "sampling", "scheduler", "shader", "triton", "tune", "validate",
)))  # fmt: skip
# Rooms of the package's own, and parts whose public names another module has.
OWN = {
    "attention.cpu", "attention.flash", "backend.memory_history", "backend.tensor_types", "benchmark", "compat",
    "compat.moved", "compat.skeleton", "compile", "examples", "glsl", "importing", "indices", "measure", "ops",
    "torch_patches",
}  # fmt: skip
ORDER = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "Notes", "References", "Examples")


def sections(doc: str) -> dict[str, str]:
    """Title -> text of the underlined sections, in their order; "" is what comes before them."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}$", inspect.cleandoc(doc), flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def named(section: str) -> set[str]:
    """Names of the entries: lines that are not indented, as in ``k, v : torch.Tensor``."""
    lines = [line.partition(" :")[0] for line in section.splitlines() if line[:1].strip()]
    return {name.strip().lstrip("*") for line in lines for name in line.split(",")}


def parameters(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def faults(doc: str | None, takes: list[str], returns: bool) -> list[str]:
    """What a docstring lacks. One sentence is enough for what takes nothing."""
    if not doc or not doc.strip():
        return ["no docstring"]
    found = sections(doc)
    out = []
    summary = found[""].split("\n\n")[0].strip()
    if not summary.endswith((".", ".``", "?")):
        out.append(f"the summary is no sentence: {summary[:60]!r}")
    known = [title for title in found if title]
    if known != sorted(known, key=lambda title: ORDER.index(title) if title in ORDER else -1):
        out.append(f"sections out of order: {', '.join(known)}")
    missing = [name for name in takes if name not in named(found.get("Parameters", ""))]
    if missing:
        out.append(f"parameters not described: {', '.join(missing)}")
    if takes or "Parameters" in found:
        unknown = named(found.get("Parameters", "")) - set(takes)
        if unknown:
            out.append(f"described, but not taken: {', '.join(sorted(unknown))}")
    if takes and returns and not {"Returns", "Yields"} & set(found):
        out.append("no Returns")
    if not returns and "Returns" in found:
        out.append("Returns, but it returns nothing")
    return out


def is_described_by_a_base(cls: type, name: str, method) -> bool:
    """Whether it overrides a method of ours with the same parameters, which describes them."""
    bases = (base.__dict__.get(name) for base in cls.__mro__[1:] if base.__module__.startswith("torch_aule"))
    return any(inspect.isfunction(base) and parameters(base) == parameters(method) for base in bases)


def of_function(function) -> list[str]:
    function = inspect.unwrap(function)
    returns = inspect.signature(function).return_annotation not in (None, "None")
    return faults(function.__doc__, parameters(function), returns)


def of_class(cls: type) -> dict[str, list[str]]:
    """A class describes what its constructor takes; named tuples describe their fields."""
    own = cls.__dict__.get("__doc__")
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        found = faults(own, [], False)
        missing = [name for name in cls._fields if name not in named(sections(own or "").get("Attributes", ""))]
        return {"": found + ([f"fields not described: {', '.join(missing)}"] if missing else [])}
    makes = cls.__dict__.get("__init__") or getattr(cls.__dict__.get("__new__"), "__func__", None)
    out = {"": faults(own, parameters(makes) if inspect.isfunction(makes) else [], False)}
    for name, member in cls.__dict__.items():
        if name.startswith("_"):
            continue
        member = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if isinstance(member, property):
            out["." + name] = faults(member.__doc__, [], False)
        elif inspect.isfunction(member) and is_described_by_a_base(cls, name, member):
            out["." + name] = faults(member.__doc__, [], True)
        elif inspect.isfunction(member):
            out["." + name] = of_function(member)
    return out


def offenders(name: str) -> list[str]:
    module = importlib.import_module(name)
    out = [] if module.__doc__ else [f"{name}: no docstring"]
    listed = getattr(module, "__all__", None)
    for public in listed or [n for n in vars(module) if not n.startswith("_")]:
        value = getattr(module, public)
        # What comes from elsewhere is described there; the modules of this package are all looked at.
        home = getattr(value, "__module__", None) or ""
        if home.split(".")[0] != "torch_aule" or (listed is None and home != module.__name__):
            continue
        if inspect.isclass(value):
            found = of_class(value)
        elif inspect.isroutine(value):
            found = {"": of_function(value)}
        else:
            continue
        out += [f"{name}.{public}{member}: {fault}" for member, those in found.items() for fault in those]
    return out


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_described(name):
    extra = {"torch_aule.tune": "rich", "torch_aule.llm": "transformers"}.get(name)
    if extra:
        pytest.importorskip(extra)  # comes with the extra of the module's name
    found = offenders(name)
    assert not found, "\n".join(found)


def test_no_public_module_is_left_out():
    """Each module of the package, and of its rooms with public modules, is on one of the two lists."""
    import pkgutil

    import torch_aule

    found = set()
    for room in (torch_aule, torch_aule.attention, torch_aule.backend, importlib.import_module("torch_aule.compat")):
        names = (m.name for m in pkgutil.iter_modules(room.__path__))
        found |= {f"{room.__name__}.{name}" for name in names if not name.startswith("_")}
    assert found - set(MODULES) == {f"torch_aule.{name}" for name in OWN}


@pytest.mark.parametrize(
    "doc, takes, returns, fault",
    [
        (None, [], False, "no docstring"),
        ("Add", [], False, "no sentence"),
        ("Add.", ["a"], False, "parameters not described: a"),
        ("Add.\n\nParameters\n----------\na, b : int\n    Both.\n", ["a", "b"], True, "no Returns"),
        ("Add.\n\nParameters\n----------\na : int\nc : int\n", ["a"], False, "not taken: c"),
        ("Add.\n\nReturns\n-------\nint\n\nParameters\n----------\na : int\n", ["a"], True, "out of order"),
        ("Add.\n\nReturns\n-------\nint\n", [], False, "returns nothing"),
    ],
)
def test_faults_are_found(doc, takes, returns, fault):
    assert any(fault in text for text in faults(doc, takes, returns))


def test_a_whole_docstring_has_no_fault():
    doc = """Add.

        Parameters
        ----------
        a, b : int
            Both.
        *more : int
            The others.

        Returns
        -------
        int
            The sum.
        """
    assert not faults(doc, ["a", "b", "more"], True)
    assert not faults("The sum of all.", [], True)
