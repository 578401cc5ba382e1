"""`#pragma aule inline`: what becomes a macro, and that everything else is refused with its file and line."""

import pytest

from helpers import shader_module


@pytest.fixture
def inlined():
    inlined = shader_module("inlining").inlined
    inlined.error = shader_module("spirv").ShaderError
    return inlined


def source(*lines):
    return ["#line 1 0", "#pragma aule inline", *lines, "void main() {", "  f(2);", "}"]


def test_functions_become_macros_and_variables_locals(inlined):
    out = inlined(source("float total = 0.0;  // a sum", "void f(float x) {", "  total += x;", "}"), ["k.comp"])
    assert out[2:] == ["", "#define f(_x) { const float x_f = (_x); total += x_f; }", "", "",
                       "void main() { float total = 0.0;  ", "  f(2);", "}"]  # fmt: skip


def test_files_that_do_not_say_so_stay(inlined):
    lines = ["#line 1 1", "void g(inout float x) {", "  if (x > 0.0) return;", "}", *source("void f(int x) {", "}")]
    assert inlined(lines, ["k.comp", "common.glsl"])[:4] == lines[:4]


@pytest.mark.parametrize(
    "other",
    ["float y = 2.0;", "float z, y[2];", "const float y = 2.0;", "const float y[2] = float[](1.0, 2.0);",
     "shared float y[64];", "#define y 2.0", "# define y(x) x"],
)  # fmt: skip
def test_a_name_on_both_sides_of_a_condition_is_refused(inlined, other):
    """Variables leave their #if: main() would have both, or its own would hide the other."""
    for number, pair in enumerate([("float y = 1.0;", other), (other, "float y = 1.0;")]):
        lines = source("#ifdef A", pair[0], "#else", pair[1], "#endif", "void f(float x) {", "}")
        with pytest.raises(inlined.error, match=r"shaders/k.comp:5: .*`y` .*shaders/k.comp:3 ") as error:
            inlined(lines, ["shaders/k.comp"])
        assert "#if" in str(error.value), number
    # One side alone, another name, and a file that is not inlined.
    lines = source("#ifdef A", "float y = 1.0;", "#else", "const float y1 = 2.0;", "#endif", "void f(float x) {", "}")
    inlined(["#line 1 1", "#define y 1.0", "#undef y", *lines], ["k.comp", "common.glsl"])


@pytest.mark.parametrize(
    "line, lines, why",
    [
        (2, ["void f(float x,", "       float y) {", "}"], "one line"),
        (2, ["void f(float x)", "{", "}"], "one line"),
        (2, ["void f(inout float x) {", "}"], "a value"),
        (2, ["void f(float x[4]) {", "}"], "a value"),
        (2, ["float y = sqrt(2.0);", "void f(float x) {", "}"], "a variable"),
        (2, ["float y[2],", "    z;", "void f(float x) {", "}"], "a variable"),
        (3, ["void f(float x) {", "  if (x > 0.0) return;", "}"], "leave main"),
        (3, ["void f(float x) {", "#ifdef A", "#endif", "}"], "no directive"),
        (4, ["void f(float x) {", "  ;", "  /* half */", "}"], "comments"),
    ],
)
def test_what_it_does_not_understand_is_refused_by_file_and_line(inlined, line, lines, why):
    with pytest.raises(inlined.error, match=why) as error:
        inlined(source(*lines), ["shaders/k.comp"])
    assert str(error.value).startswith(f"shaders/k.comp:{line}:")
