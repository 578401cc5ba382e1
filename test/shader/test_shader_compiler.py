"""What compile.py reads from SPIR-V and what it refuses there."""

import re
import struct
from pathlib import Path

import pytest

from helpers import shader_module


@pytest.fixture
def shader_compiler():
    compiler = shader_module("compiler")
    compiler.compile_text = shader_module("compile").compile_text
    return compiler


def test_shaders_with_64_bit_min_max_clamp_are_refused(shader_compiler):
    def module(width, function):  # OpTypeInt %1; %3 = OpExtInst %1 %2 function
        instructions = (4 << 16 | 21, 1, width, 1, 5 << 16 | 12, 1, 3, 2, function)
        return struct.pack("=14I", 0x07230203, 0, 0, 9, 0, *instructions)

    shader_compiler.check_builtins(module(32, 45), "k")
    shader_compiler.check_builtins(module(64, 5), "k")
    for function in (38, 39, 41, 42, 44, 45):
        with pytest.raises(shader_compiler.ShaderError, match="comparisons"):
            shader_compiler.check_builtins(module(64, function), "k")


def test_shaders_with_constants_that_are_none_are_refused(shader_compiler):
    def check(expression):
        text = f"""#version 460
            layout(local_size_x = 1) in;
            layout(constant_id = 0) const int A = 1;
            const bool B = {expression};
            shared int x;
            void main() {{ if (!B) x = 1; }}"""
        spirv, log = shader_compiler.compile_text(text)
        assert not log
        shader_compiler.check_builtins(spirv, "k")

    check("A > 0 && A < 3")
    check("A % 2 == 0 && A > 0")
    for expression in ("A > 0 && A % 2 == 0", "A > 0 && (A == 3 || A == 5)"):
        with pytest.raises(shader_compiler.ShaderError, match="constant of &&"):
            check(expression)


def compiled(shader_compiler, *lines):
    head = [
        "#version 460",
        "#extension GL_EXT_buffer_reference : require",
        "#extension GL_EXT_scalar_block_layout : require",
    ]
    spirv, log = shader_compiler.compile_text("\n".join([*head, *lines]))
    assert not log
    return spirv


def test_constants_by_name(shader_compiler):
    spirv = compiled(
        shader_compiler,
        "layout(constant_id = 3) const float SCALE = 1.5;",
        "layout(constant_id = 1) const bool WIDE = true;",
        "layout(constant_id = 0) const int BIAS_DTYPE = -1;",
        "layout(constant_id = 7) const uint LOCAL = 8;",
        "layout(local_size_x_id = 7) in;",
        "const uint THREADS = LOCAL;  // another name of the same constant",
        "shared float x;",
        "void main() { if (WIDE) x = SCALE * float(BIAS_DTYPE) * float(THREADS); }",
    )
    found = [(c.number, c.name, c.type, c.default) for c in shader_compiler.reflect_constants(spirv, "k")]
    assert found == [
        (0, "BIAS_DTYPE", "int", 0xFFFFFFFF),
        (1, "WIDE", "bool", 1),
        (3, "SCALE", "float", 0x3FC00000),
        (7, "LOCAL", "uint", 8),
    ]


def test_a_local_size_without_a_name_is_refused(shader_compiler):
    spirv = compiled(shader_compiler, "layout(local_size_x_id = 2) in;", "void main() {}")
    with pytest.raises(shader_compiler.ShaderError, match="constant_id 2 has no name"):
        shader_compiler.reflect_constants(spirv, "k")


@pytest.mark.parametrize("align, refused", [(4, True), (8, False)])
def test_scalars_wider_than_the_alignment_of_their_address_are_refused(shader_compiler, align, refused):
    spirv = compiled(
        shader_compiler,
        "layout(local_size_x = 1) in;",
        "struct State { float a; double b; };",
        f"layout(buffer_reference, scalar, buffer_reference_align = {align}) buffer StateRef {{ State s; }};",
        "layout(push_constant) uniform Block { StateRef to; };",
        "void main() { to.s = State(1.0, 2.0); }",
    )
    if not refused:
        shader_compiler.check_alignment(spirv, "k")
        return
    with pytest.raises(shader_compiler.ShaderError, match="8-byte scalars through a buffer_reference_align of 4"):
        shader_compiler.check_alignment(spirv, "k")


HALVES = """
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// out_[i] = 2 x[i] in 16 bits
layout(local_size_x = 64) in;
struct Params { uint64_t x, out_; };
#include "common/params.glsl"
#include "common/dtype.glsl"
shared float16_t tile[64];
void main() {
  const uint i = gl_LocalInvocationID.x;
  tile[i] = F16Ref(p.x + i * 2).v;
  F16Ref(p.out_ + i * 2).v = tile[i] + tile[i];
}
"""


def test_capabilities_that_no_feature_names_are_refused(shader_compiler):
    source = shader_module("shader_source")
    compiler = shader_compiler.find_compiler()

    def check(text):
        shader = source.parse_shader(source.SHADERS / "copy" / "halves.comp", text)
        source.expand(shader, compiler.identity)
        (variant,) = shader.variants
        variant.spirv = compiler.compile(variant.text)
        shader_compiler.check_features(shader)

    check("#pragma aule feature float16" + HALVES)
    with pytest.raises(shader_compiler.ShaderError, match=r"halves: its SPIR-V needs `#pragma aule feature float16`"):
        check(HALVES)


def test_unknown_capabilities_are_refused(shader_compiler):
    def features(*capabilities):
        lines = [word for capability in capabilities for word in (2 << 16 | 17, capability)]
        memory_model = (3 << 16 | 14, 5348, 1)
        return shader_compiler.reflect_features(
            struct.pack(f"={8 + len(lines)}I", 0x07230203, 0, 0, 9, 0, *lines, *memory_model), "k"
        )

    assert features(1, 11, 9, 5118) == {"float16", "bfloat16"}
    with pytest.raises(shader_compiler.ShaderError, match="SPIR-V capability 5297"):
        features(1, 5297)


def test_the_compiler_knows_features_of_the_capabilities_table(shader_compiler):
    known = set(shader_module("shader_source").FEATURES)
    assert set(shader_module("spirv").CAPABILITY_FEATURES.values()) <= known
    rows = (Path(__file__).parents[2] / "csrc" / "core" / "capabilities.def").read_text()
    assert known <= set(re.findall(r"^AULE_(?:FEATURE|EXTENSION|RULE)\((\w+),", rows, re.MULTILINE))
