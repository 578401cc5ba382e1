"""tools/diff_torch.py: what it compares is what the sources use, and it sees what moved."""

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import diff_torch  # noqa: E402

NEWER = {"at::GraphImplInterface": "2.12"}  # the first torch that has the class


@pytest.fixture(scope="module")
def installed():
    return diff_torch.Torch(str(Path(torch.__file__).parent))


def test_each_class_that_the_sources_derive_from_is_listed():
    derived = diff_torch.derived_from_torch()
    assert len(derived) > 10 and derived["at::PrivateUse1HooksInterface"] == "csrc/runtime/hooks.cpp"
    assert [f"{file}: {name}" for name, file in derived.items() if name not in diff_torch.CLASSES] == []


@pytest.mark.parametrize("name", diff_torch.CLASSES)
def test_the_class_is_found_with_what_it_declares(installed, name):
    found = installed.class_body(name, diff_torch.CLASSES[name])
    if name in NEWER and torch.__version__ < NEWER[name]:
        pytest.skip(f"torch has it from {NEWER[name]} on")
    assert found is not None
    without = {"c10::OutOfMemoryError", "torch::autograd::Function"}  # of virtual functions
    if name in diff_torch.DATA:
        assert [text for text in diff_torch.declarations(found[1]) if "(" not in text]
    else:
        assert bool(diff_torch.virtuals(found[1])) == (name not in without)


@pytest.mark.skipif(torch.__version__ < max(NEWER.values()), reason="this torch has not all classes")
def test_what_we_override_is_known(installed):
    bodies = [installed.class_body(name, header)[1] for name, header in diff_torch.CLASSES.items()]
    virtual = {diff_torch.function_name(key) for body in bodies for key in diff_torch.virtuals(body)}
    assert len(diff_torch.overridden()) > 50 and diff_torch.overridden() - virtual == set()


def test_an_installed_torch_against_itself(installed):
    assert installed.version == torch.__version__
    assert diff_torch.cpp_rows(installed, installed) == []
    exact, names = diff_torch.registered()
    assert {"mm.out", "sum.IntList_out"} <= exact and {"add", "exp", "mm"} <= names
    assert diff_torch.operator_rows(installed, installed, exact, names) == []
    uses = diff_torch.python_uses(ROOT / "torch_aule/torch_patches", installed)
    assert uses["torch.nn.parallel.comm.scatter"] == ("replaces", "torch_patches/data_parallel.py")
    assert uses["torch._tensor_str._Formatter.__init__"][0] == "replaces"
    assert diff_torch.python_rows(installed, installed, uses) == ([], [])


def test_names_of_inductor_that_are_replaced_or_derived_from_are_found(tmp_path):
    """In every form in which the sources do so."""
    missing = diff_torch.Torch(str(made_up(tmp_path / "none", "", "", "", "")))  # has none of them: no base is read
    uses = diff_torch.python_uses(ROOT / "torch_aule/compile", missing)
    how = {name: how for name, (how, _) in uses.items()}
    inductor = "torch._inductor"
    assert how[f"{inductor}.scheduler.Scheduler.create_backend"] == "replaces"  # a row of a table
    assert how[f"{inductor}.compile_fx.cudagraphify"] == "replaces"  # a row of a table
    assert how["torch.nn.attention.flex_attention._validate_device"] == "replaces"  # another one
    assert how[f"{inductor}.utils.GPU_TYPES"] == "takes"  # getattr(owner, "name", None)
    assert how[f"{inductor}.codegen.simd.SIMDScheduling"] == "derives from"
    assert diff_torch.python_rows(missing, missing, uses) == ([], sorted(uses))


HEADER = """
#pragma once
namespace c10 {{
struct C10_API GeneratorImpl : public c10::intrusive_ptr_target {{
  // virtual void in_a_comment();
  GeneratorImpl(Device device_in, DispatchKeySet key_set) : device_{{device_in}} {{}}
  virtual void set_current_seed(uint64_t {seed}) = 0;
  {kept}
  virtual uint64_t current_seed() const {{
    if (true) {{ return 1; }}
    return 0;
  }}
  Device device_{{kCPU}};
{tail}
}};
}}
"""
YAML = """
- func: mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
  dispatch:
    CPU: mm_out
- func: nonzero(Tensor self) -> Tensor
  dispatch:
    CPU: nonzero_cpu
{rest}
"""
OURS = "import torch\n" + """
from torch._scheduler import helper, lost
from torch import _scheduler as room
class Mine(torch.public.Scheduler):
    def create(self, node): return self.inherited(node) + self.state + self.kind
room.table = []
setattr(room, 'absent', 1)
"""
MODULE = '''
from torch._base import Base

if True:
    def helper(a, {argument}):
        """{text}"""
        return a

class Scheduler(Base):
    """A class."""
    kind = {kind}
    def create(self, node): return node
{rest}
'''


def made_up(folder, header, yaml, module, base):
    """A folder of site-packages with a torch of these."""
    for name, text in {
        "torch/version.py": "__version__ = '9.1'",
        "torch/include/c10/core/GeneratorImpl.h": header,
        "torch/_scheduler.py": module,
        "torch/_base.py": base,
        "torch/public.py": "from torch._scheduler import *",
        "torchgen/packaged/ATen/native/native_functions.yaml": yaml,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def two(tmp_path):
    """Two made-up torches between which one thing of each kind moved."""
    old = made_up(
        tmp_path / "old",
        HEADER.format(seed="seed", kept="virtual uint64_t seed() = 0;\n  virtual uint64_t get_offset() const;",
                      tail="  virtual void set_offset(int offset);\n  virtual void unused();"),
        YAML.format(rest="- func: equal(Tensor self, Tensor other) -> bool\n"
                    "- func: max.names_dim(Tensor self) -> Tensor\n- func: max(Tensor self) -> Tensor"),
        MODULE.format(argument="b=1", text="what", kind=1, rest="def lost(): pass\ntable = [1]"),
        "class Base:\n    def inherited(self, x): return x\n    def __init__(self): self.state = 0",
    )  # fmt: skip
    new = made_up(
        tmp_path / "new",
        HEADER.format(seed="other_name", tail="  virtual void set_offset(long offset);",
                      kept="virtual uint64_t get_offset() const;\n  virtual void added(int x = 3) = 0;"),
        YAML.format(rest="- func: max(Tensor self, int dim=0) -> Tensor\n- func: fresh(Tensor self) -> Tensor\n"
                    "  dispatch:\n    CPU: fresh_cpu\n- func: parts(Tensor self) -> Tensor\n  dispatch:\n"
                    "    CompositeExplicitAutograd: parts\n- func: python_only(Tensor self) -> Tensor"),
        MODULE.format(argument="b=2", text="told in other words", kind=2, rest="table = [1]"),
        "class Base:\n    def inherited(self, x): return -x\n    def __init__(self): self.state = 0",
    )  # fmt: skip
    return old, new


def test_virtual_functions_that_moved(two):
    old, new = (diff_torch.Torch(str(folder)) for folder in two)
    rows = [(row.what, row.name) for row in diff_torch.cpp_rows(old, new)]
    of = "c10::GeneratorImpl"
    assert rows == [("gone", f"{of}::seed"), ("signature", f"{of}::set_offset"), ("virtual gone", f"{of}::unused"),
                    ("new, pure", f"{of}::added")]  # fmt: skip
    assert diff_torch.cpp_rows(new, new) == []
    (new.folder / "include/c10/core/GeneratorImpl.h").rename(new.folder / "include/c10/core/Moved.h")
    assert ("moved", of) in [(row.what, row.name) for row in diff_torch.cpp_rows(old, diff_torch.Torch(str(two[1])))]
    (new.folder / "include/c10/core/Moved.h").unlink()
    assert [row.what for row in diff_torch.cpp_rows(old, diff_torch.Torch(str(two[1])))] == ["gone"]


def test_the_order_of_virtual_functions(two):
    header = HEADER.format(seed="s", kept="{}", tail="")
    bodies = [diff_torch.virtuals(diff_torch.body_of(header.replace("{}", text), "GeneratorImpl"))
              for text in ("virtual void a(); virtual void b();", "virtual void b(); virtual void a();")]  # fmt: skip
    assert [row.what for row in diff_torch.virtual_rows("c10::GeneratorImpl", "", *bodies, set())] == ["order"]


def test_names_of_python_that_moved(two, tmp_path):
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "a.py").write_text(OURS)
    old, new = (diff_torch.Torch(str(folder)) for folder in two)
    uses = diff_torch.python_uses(ours, old)
    assert {name: how for name, (how, _) in uses.items()} == {
        "torch._scheduler.helper": "takes", "torch._scheduler.lost": "takes", "torch._scheduler": "takes",
        "torch.public.Scheduler": "derives from", "torch.public.Scheduler.create": "overrides",
        "torch.public.Scheduler.inherited": "takes", "torch.public.Scheduler.state": "takes",
        "torch.public.Scheduler.kind": "takes", "torch._scheduler.table": "replaces",
        "torch._scheduler.absent": "replaces",
    }  # fmt: skip
    rows, unseen = diff_torch.python_rows(old, new, uses)
    assert [(row.what, row.name) for row in rows] == [
        ("signature", "torch._scheduler.helper"), ("gone", "torch._scheduler.lost"),
        ("source", "torch.public.Scheduler"), ("source", "torch.public.Scheduler.inherited"),
        ("source", "torch.public.Scheduler.kind"),
    ]  # fmt: skip
    assert unseen == ["torch._scheduler.absent"] and all(row.where == "ours/a.py" for row in rows)


def test_operators_that_moved_and_the_exit_status(two, capsys, monkeypatch):
    monkeypatch.setattr(diff_torch, "python_uses", lambda package, old: {})  # of which the made-up ones have none
    old, new = map(str, two)
    assert diff_torch.main([old, new, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["text"]) for row in found["operators"] if row["what"] == "overloads gone"] == [
        ("max", "names_dim")
    ]
    assert {(row["what"], row["name"]) for row in found["operators"]} == {
        ("gone", "equal"), ("overloads gone", "max"), ("schema", "max"), ("new, falls back", "fresh"),
        ("new, by its parts", "parts"),
    }  # fmt: skip
    assert diff_torch.main([old, new]) == 1 and "gone  " in capsys.readouterr().out
    assert diff_torch.main([old, old]) == 0 and capsys.readouterr().out.count("nothing moved") == 3


def test_a_folder_without_torch(tmp_path):
    with pytest.raises(SystemExit, match="no folder of an installed torch"):
        diff_torch.Torch(str(tmp_path))


def test_an_interpreter_finds_its_torch(installed):
    assert diff_torch.Torch(sys.executable).folder == installed.folder
