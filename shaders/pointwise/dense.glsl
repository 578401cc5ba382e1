// Dense operands: one invocation computes PACK elements, with 16-byte accesses where addresses allow.
// MODE of an operand: 0 one element at a time (unaligned), 1 packed, 2 by value in the params.
struct Params {
  uint64_t out_;
  uint64_t in_[ARITY];
  uint64_t value[ARITY];   // of operands by value
  uint64_t scalar[3];      // s0, s1, s2, as bits of T
  uint n;
};
#include "common/params.glsl"

layout(local_size_x = 128) in;
#include "common/indexing.glsl"
#include "pointwise/operands.glsl"

T[PACK] load_operand(uint64_t base, uint64_t value, uint64_t first, uint count, int dt, int mode) {
  T x[PACK];
  if (mode == 2) {
    [[unroll]] for (int i = 0; i < PACK; ++i) x[i] = scalar_T(value);
  } else if (mode == 1 && count == uint(PACK)) {
    Words w = load_words(base + first * dtype_bytes(dt), PACK * dtype_bytes(dt));
    [[unroll]] for (int i = 0; i < PACK; ++i) x[i] = unpack_T(w, i, dt);
  } else {
    [[unroll]] for (int i = 0; i < PACK; ++i) {
      x[i] = T(0);
      if (uint(i) < count) x[i] = load_T(base, first + uint64_t(i), dt);
    }
  }
  return x;
}

void main() {
  uint64_t first = linear_invocation() * PACK;
  if (first >= uint64_t(p.n)) return;
  uint count = uint(lesser(uint64_t(PACK), uint64_t(p.n) - first));
  s0 = scalar_T(p.scalar[0]);
  s1 = scalar_T(p.scalar[1]);
  s2 = scalar_T(p.scalar[2]);
  T a[PACK] = load_operand(p.in_[0], p.value[0], first, count, DT_A, MODE_A);
#if ARITY > 1
  T b[PACK] = load_operand(p.in_[1], p.value[1], first, count, DT_B, MODE_B);
#endif
#if ARITY > 2
  T c[PACK] = load_operand(p.in_[2], p.value[2], first, count, DT_C, MODE_C);
#endif
  [[unroll]] for (int i = 0; i < PACK; ++i) a[i] = APPLY(i);
  if (MODE_OUT == 1 && count == uint(PACK)) {
    Words w;
    [[unroll]] for (int i = 0; i < PACK; ++i) pack_T(w, i, DT_OUT, a[i]);
    store_words(p.out_ + first * dtype_bytes(DT_OUT), PACK * dtype_bytes(DT_OUT), w);
  } else {
    [[unroll]] for (int i = 0; i < PACK; ++i)
      if (uint(i) < count) store_T(p.out_, first + uint64_t(i), DT_OUT, a[i]);
  }
}
