// Dense operands on lavapipe. No loop or branch is around the loads, so each is one instruction (common/uniform.glsl).
// A workgroup is one subgroup of 8 lanes and computes BLOCKS blocks of 8 elements per lane. The grid covers whole
// workgroups only; dense.glsl computes the remaining elements. MODE of an operand: 1 packed, 2 by value.
// What was tried, and what it gave: docs/ladders/dense.md
struct Params {
  uint64_t out_;
  uint64_t in_[ARITY];
  uint64_t value[ARITY];   // of operands by value
  uint64_t scalar[3];      // s0, s1, s2, as bits of T
  uint digits[8];
};
#include "common/params.glsl"
#include "common/uniform.glsl"

layout(local_size_x = 8) in;
#include "pointwise/parts/operands.glsl"

// If all operands have one element size, neighbouring lanes take neighbouring words of 8 bytes, so the 8 lanes' loads
// become one. Else a lane takes 8 consecutive elements.
bool by_words() {
  bool same = A_MODE == 2 || dtype_bytes(A_DTYPE) == dtype_bytes(OUT_DTYPE);
#if ARITY > 1
  same = same && (B_MODE == 2 || dtype_bytes(B_DTYPE) == dtype_bytes(OUT_DTYPE));
#endif
#if ARITY > 2
  same = same && (C_MODE == 2 || dtype_bytes(C_DTYPE) == dtype_bytes(OUT_DTYPE));
#endif
  return same;
}
uint64_t word_step(int bytes) { return by_words() ? 64 : 8; }
uint64_t lane_step(int bytes) { return by_words() ? 8 : 8 * bytes; }

T[VEC_ELEMS] load_operand(uint64_t base, uint64_t value, uint64_t first, int dt, int mode) {
  T x[VEC_ELEMS];
  if (mode == 2) {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = scalar_T(value);
  } else {
    const int bytes = dtype_bytes(dt);
    Words words;
    [[unroll]] for (int w = 0; w < VEC_ELEMS; ++w) {
      if (w < bytes) {
        const uvec2 v = unpackUint2x32(load_lanes_64(base + first * bytes + word_step(bytes) * w, lane_step(bytes)));
        words.w[2 * w] = v.x;
        words.w[2 * w + 1] = v.y;
      }
    }
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = unpack_T(words, i, dt);
  }
  return x;
}

void main() {
  const uint group = as_uniform(gl_WorkGroupID.y, 3) * 512 + as_uniform(gl_WorkGroupID.x, 3);
  s0 = scalar_T(p.scalar[0]);
  s1 = scalar_T(p.scalar[1]);
  s2 = scalar_T(p.scalar[2]);
  [[unroll]] for (int block = 0; block < BLOCKS; ++block) {
    const uint64_t first = uint64_t(group) * (BLOCKS * 8 * VEC_ELEMS) + block * (8 * VEC_ELEMS);
    T a[VEC_ELEMS] = load_operand(p.in_[0], p.value[0], first, A_DTYPE, A_MODE);
#if ARITY > 1
    T b[VEC_ELEMS] = load_operand(p.in_[1], p.value[1], first, B_DTYPE, B_MODE);
#endif
#if ARITY > 2
    T c[VEC_ELEMS] = load_operand(p.in_[2], p.value[2], first, C_DTYPE, C_MODE);
#endif
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) a[i] = APPLY(i);
    const int bytes = dtype_bytes(OUT_DTYPE);
    Words words;
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) pack_T(words, i, OUT_DTYPE, a[i]);
    const uint64_t at = p.out_ + first * bytes + lane_step(bytes) * gl_SubgroupInvocationID;
    [[unroll]] for (int w = 0; w < VEC_ELEMS; ++w)
      if (w < bytes) WordRef(at + word_step(bytes) * w).v = packUint2x32(uvec2(words.w[2 * w], words.w[2 * w + 1]));
  }
}
