"""What compile.py reads from SPIR-V and what it refuses there."""

import struct

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
