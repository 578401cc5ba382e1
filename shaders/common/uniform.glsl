// Loads that are one instruction on lavapipe. Include after params.glsl. Params has `uint digits[8]`, digits[i] = i.
//
// lavapipe (Mesa 22.3, seen in its machine code) makes a loop over the 8 lanes of a load by address, which takes 40 ns.
// Two conditions make it one scalar load: no loop or branch is around it (unrolled loops and selects are fine), and the
// address is made of push constants, constants and arithmetic. Eight such loads at neighbouring addresses, selected by
// gl_SubgroupInvocationID, become one vector load.
//
// Vulkan requires an index into an array of push constants to be dynamically uniform, so an element of such an array
// counts as a push constant. as_uniform(x) is x, read out of `digits` three bits at a time (about 8 ns a digit). Stores
// stay loops: 15 ns a lane for 32 or 64 bits.
#ifndef AULE_UNIFORM_GLSL
#define AULE_UNIFORM_GLSL
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer WordRef { uint64_t v; };

// x < 8^digits, the same in all invocations of the workgroup.
uint as_uniform(uint x, int digits) {
  uint y = p.digits[x & 7u];
  [[unroll]] for (int i = 1; i < digits; ++i) y |= p.digits[(x >> uint(3 * i)) & 7u] << uint(3 * i);
  return y;
}

// Lane l (of 8) gets v[l].
float by_lane(float v[8]) {
  float x = v[0];
  [[unroll]] for (int l = 1; l < 8; ++l) x = gl_SubgroupInvocationID == l ? v[l] : x;
  return x;
}
uint64_t by_lane(uint64_t v[8]) {
  uint64_t x = v[0];
  [[unroll]] for (int l = 1; l < 8; ++l) x = gl_SubgroupInvocationID == l ? v[l] : x;
  return x;
}
// Lane l gets the word at address + l * step. Address and step obey the conditions above.
uint64_t load_lanes_64(uint64_t address, uint64_t step) {
  uint64_t v[8];
  [[unroll]] for (int l = 0; l < 8; ++l) v[l] = WordRef(address + step * l).v;
  return by_lane(v);
}
float load_lanes(uint64_t address, uint64_t step) {
  float v[8];
  [[unroll]] for (int l = 0; l < 8; ++l) v[l] = F32Ref(address + step * l).v;
  return by_lane(v);
}
#endif
