// Dense operands: an invocation computes VEC_ELEMS elements, with 16-byte accesses where addresses allow.
// MODE of an operand: 0 one element at a time (unaligned), 1 packed, 2 by value in the params.
//
// SKIPS_CHECKS (GPUs, no operand of mode 0): a workgroup whose elements all exist checks no bounds.
// INTERLEAVED (operands of one element size): neighbouring invocations take neighbouring 16 bytes, although VEC_ELEMS
// elements have 32 or 64.
// What was tried, and what it gave: docs/ladders/dense.md
#include "pointwise/parts/operands.glsl"
struct Params {
  uint64_t out_;
  uint64_t in_[ARITY];
  uint64_t value[VALUE_WORDS];    // of operands by value, as bits of T
  uint64_t scalar[SCALAR_WORDS];  // s0, s1, s2
  uint n;
};
#include "common/params.glsl"

layout(constant_id = 9) const bool SKIPS_CHECKS = false;
layout(constant_id = 10) const bool INTERLEAVED = false;
#define LOCAL 128
layout(local_size_x = LOCAL) in;
#include "common/indexing.glsl"

T[VEC_ELEMS] load_operand(uint64_t base, T value, uint64_t first, uint count, int dt, int mode) {
  T x[VEC_ELEMS];
  if (mode == 2) {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = value;
  } else if (mode == 1 && count == uint(VEC_ELEMS)) {
    Words w = load_words(base + first * dtype_bytes(dt), VEC_ELEMS * dtype_bytes(dt));
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = unpack_T(w, i, dt);
  } else {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) {
      x[i] = T(0);
      if (uint(i) < count) x[i] = load_T(base, first + uint64_t(i), dt);
    }
  }
  return x;
}

// Address of 16-byte piece q of a whole block, or of a shorter block.
uint64_t piece(uint64_t base, uint first, int bytes, int q) {
  const uint lane = gl_LocalInvocationID.x;
  if (INTERLEAVED) return base + uint64_t(first) * bytes + (q * LOCAL + lane) * 16u;
  return base + uint64_t(first + lane * VEC_ELEMS) * bytes + q * 16u;
}

T[VEC_ELEMS] load_block(uint64_t base, T value, uint first, int dt, int mode) {
  const int bytes = dtype_bytes(dt);
  T x[VEC_ELEMS];
  Words r;
  if (mode == 2) {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = value;
    return x;
  }
  if (VEC_ELEMS * bytes < 16) {
    r = load_words(piece(base, first, bytes, 0), VEC_ELEMS * bytes);
  } else {
    [[unroll]] for (int q = 0; q < VEC_WORDS / 4; ++q) {
      if (q * 16 < VEC_ELEMS * bytes) {
        const u64vec2 v = U64x2Ref(piece(base, first, bytes, q)).v;
        const uvec2 lo = unpackUint2x32(v.x), hi = unpackUint2x32(v.y);
        r.w[4 * q] = lo.x;
        r.w[4 * q + 1] = lo.y;
        r.w[4 * q + 2] = hi.x;
        r.w[4 * q + 3] = hi.y;
      }
    }
  }
  [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = unpack_T(r, i, dt);
  return x;
}

void store_block(uint64_t base, uint first, int dt, T x[VEC_ELEMS], bool halves) {
  const int bytes = dtype_bytes(dt);
  Words r;
#ifdef C_float
  if (dt == AULE_DT_F16 && halves) {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; i += 2) r.w[i / 2] = packHalf2x16(vec2(x[i], x[i + 1]));
  } else
#endif
  {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) pack_T(r, i, dt, x[i]);
  }
  if (VEC_ELEMS * bytes < 16) {
    store_words(piece(base, first, bytes, 0), VEC_ELEMS * bytes, r);
    return;
  }
  [[unroll]] for (int q = 0; q < VEC_WORDS / 4; ++q)
    if (q * 16 < VEC_ELEMS * bytes)
      U64x2Ref(piece(base, first, bytes, q)).v = u64vec2(packUint2x32(uvec2(r.w[4 * q], r.w[4 * q + 1])),
                                                        packUint2x32(uvec2(r.w[4 * q + 2], r.w[4 * q + 3])));
}

void whole(uint first) {
  T a[VEC_ELEMS] = load_block(p.in_[0], VALUE(0), first, A_DTYPE, A_MODE);
#if ARITY > 1
  T b[VEC_ELEMS] = load_block(p.in_[1], VALUE(1), first, B_DTYPE, B_MODE);
#endif
#if ARITY > 2
  T c[VEC_ELEMS] = load_block(p.in_[2], VALUE(2), first, C_DTYPE, C_MODE);
#endif
  [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) a[i] = APPLY(i);
  store_block(p.out_, first, OUT_DTYPE, a, OUT_DTYPE == AULE_DT_F16 && packs_halves());
}

void part(uint64_t first) {
  if (first >= uint64_t(p.n)) return;
  uint count = uint(lesser(uint64_t(VEC_ELEMS), uint64_t(p.n) - first));
  T a[VEC_ELEMS] = load_operand(p.in_[0], VALUE(0), first, count, A_DTYPE, A_MODE);
#if ARITY > 1
  T b[VEC_ELEMS] = load_operand(p.in_[1], VALUE(1), first, count, B_DTYPE, B_MODE);
#endif
#if ARITY > 2
  T c[VEC_ELEMS] = load_operand(p.in_[2], VALUE(2), first, count, C_DTYPE, C_MODE);
#endif
  [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) a[i] = APPLY(i);
  if (OUT_MODE == 1 && count == uint(VEC_ELEMS)) {
    Words w;
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) pack_T(w, i, OUT_DTYPE, a[i]);
    store_words(p.out_ + first * dtype_bytes(OUT_DTYPE), VEC_ELEMS * dtype_bytes(OUT_DTYPE), w);
  } else {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i)
      if (uint(i) < count) store_T(p.out_, first + uint64_t(i), OUT_DTYPE, a[i]);
  }
}

void main() {
  LOAD_SCALARS
  const uint first = linear_group() * uint(LOCAL * VEC_ELEMS);
  if (SKIPS_CHECKS && first + uint(LOCAL * VEC_ELEMS) <= p.n) {  // fits 32 bits: the host splits longer tensors
    whole(first);
    return;
  }
  part(linear_invocation() * VEC_ELEMS);
}
