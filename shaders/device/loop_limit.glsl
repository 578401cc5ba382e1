#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
// answer = {iterations of a loop of n, the same inverted, the loop's state, iterations of a second loop of 100}. The
// state keeps a compiler from computing the loop. One invocation, see csrc/vulkan/loop_probe.cpp.
layout(local_size_x = 1) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Answer { uint count, inverted, state, again; };
layout(push_constant, scalar) uniform Push { uint64_t answer; uint n, seed, again; } p;
void main() {
  uint count = 0, state = p.seed;
  for (uint i = 0; i < p.n; ++i) {
    state = (state >> 1) ^ ((state & 1u) != 0u ? 0xedb88320u : 0u);  // a CRC's step: no closed form
    ++count;
  }
  uint again = 0;
  for (uint i = 0; i < p.again; ++i) {
    state = (state >> 1) ^ ((state & 1u) != 0u ? 0xedb88320u : 0u);
    ++again;
  }
  Answer a = Answer(p.answer);
  a.count = count;
  a.inverted = ~count;
  a.state = state;
  a.again = again;
}
