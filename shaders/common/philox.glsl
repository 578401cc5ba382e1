// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11): a counter-based generator.
// The counter is {offset, subsequence}: a random op gives every output element (or group of 4) its own subsequence.
// Include it after common/params.glsl, which may define readable() (AULE_READABLE).
#ifndef AULE_PHILOX_GLSL
#define AULE_PHILOX_GLSL
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer PhiloxStateRef { uint64_t seed, offset; };

struct Philox {
  uvec2 key;
  uint64_t offset;
};

// `state` is 0 or, in captured graphs, the address of {seed, offset}: this seed replaces `seed`, this offset is added.
Philox philox_begin(uint64_t seed, uint64_t offset, uint64_t state) {
#ifdef AULE_READABLE
  uint64_t state_seed = PhiloxStateRef(readable(state)).seed, state_offset = PhiloxStateRef(readable(state)).offset;
  seed = state != uint64_t(0) ? state_seed : seed;
  offset += state != uint64_t(0) ? state_offset : uint64_t(0);
#else
  if (state != uint64_t(0)) {
    seed = PhiloxStateRef(state).seed;
    offset += PhiloxStateRef(state).offset;
  }
#endif
  return Philox(uvec2(uint(seed), uint(seed >> 32)), offset);
}

// Rounds [from, to) of a counter.
uvec4 philox_rounds(uvec4 c, uvec2 key, int from, int to) {
  [[unroll]] for (int round = from; round < to; ++round) {
    uint hi0, lo0, hi1, lo1;
    umulExtended(0xD2511F53u, c.x, hi0, lo0);
    umulExtended(0xCD9E8D57u, c.z, hi1, lo1);
    const uvec2 k = key + uint(round) * uvec2(0x9E3779B9u, 0xBB67AE85u);
    c = uvec4(hi1 ^ c.y ^ k.x, lo1, hi0 ^ c.w ^ k.y, lo0);
  }
  return c;
}

// Four independent 32-bit draws for `subsequence`; `step` selects further draws of the same subsequence.
uvec4 philox_draw(Philox g, uint64_t subsequence, uint step) {
  uint64_t o = g.offset / 4 + uint64_t(step);
  return philox_rounds(uvec4(uint(o), uint(o >> 32), uint(subsequence), uint(subsequence >> 32)), g.key, 0, 10);
}

// [0, 1) with 24 bits; (0, 1] is 1 - this.
float uniform01(uint bits) { return float(bits >> 8) * (1.0 / 16777216.0); }
vec4 uniform01(uvec4 bits) { return vec4(bits >> 8) * (1.0 / 16777216.0); }
// Two standard normals from two draws (Box-Muller).
vec2 normal2(uint a, uint b) {
  float r = sqrt(-2.0 * log(1.0 - uniform01(a)));
  float t = 6.28318530717958647692 * uniform01(b);
  return vec2(r * cos(t), r * sin(t));
}
#endif
