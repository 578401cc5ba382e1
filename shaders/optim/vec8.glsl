// Eight elements per invocation of a whole workgroup, by 16-byte accesses: LOCAL * 8 = GROUP_ELEMS. If all dtypes are
// float32, neighbours take neighbouring 16 bytes. Include after multi_tensor.glsl, half.glsl and the constants
// PARAM_DTYPE, GRAD_DTYPE, STATE_DTYPE.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16bRef { uvec4 v; };

uint vec8_at(uint first, uint half_) {
  const bool floats = PARAM_DTYPE == AULE_DT_F32 && GRAD_DTYPE == AULE_DT_F32 && STATE_DTYPE == AULE_DT_F32;
  const uint lane = gl_LocalInvocationID.x;
  return first + (floats ? half_ * (LOCAL * 4u) + lane * 4u : lane * 8u + half_ * 4u);
}
void load_vec8(uint64_t base, uint first, int dt, out vec4 x[2]) {
  if (dt == AULE_DT_F32) {
    [[unroll]] for (uint i = 0; i < 2u; ++i) x[i] = F32x4Ref(base + uint64_t(vec8_at(first, i)) * 4).v;
    return;
  }
  const uvec4 u = Vec16bRef(base + uint64_t(vec8_at(first, 0u)) * 2).v;
  if (dt == AULE_DT_F16) {
    x[0] = vec4(unpackHalf2x16(u.x), unpackHalf2x16(u.y));
    x[1] = vec4(unpackHalf2x16(u.z), unpackHalf2x16(u.w));
  } else {
    x[0] = uintBitsToFloat(uvec4(u.x << 16, u.x & 0xffff0000u, u.y << 16, u.y & 0xffff0000u));
    x[1] = uintBitsToFloat(uvec4(u.z << 16, u.z & 0xffff0000u, u.w << 16, u.w & 0xffff0000u));
  }
}
uint half_word(vec2 x, int dt, bool halves) {
  if (dt == AULE_DT_BF16) return float_to_bf16(x.x) | float_to_bf16(x.y) << 16;
  return halves ? packHalf2x16(x) : float_to_f16(x.x) | float_to_f16(x.y) << 16;
}
void store_vec8(uint64_t base, uint first, int dt, vec4 x[2]) {
  if (dt == AULE_DT_F32) {
    [[unroll]] for (uint i = 0; i < 2u; ++i) F32x4Ref(base + uint64_t(vec8_at(first, i)) * 4).v = x[i];
    return;
  }
  const bool halves = dt == AULE_DT_F16 && packs_halves();
  Vec16bRef(base + uint64_t(vec8_at(first, 0u)) * 2).v =
      uvec4(half_word(x[0].xy, dt, halves), half_word(x[0].zw, dt, halves), half_word(x[1].xy, dt, halves),
            half_word(x[1].zw, dt, halves));
}
