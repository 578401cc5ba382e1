#pragma aule axis C double int64_t
#pragma aule feature float64 if C=double
// out = alpha * a @ b + beta * c in 64-bit arithmetic: float64, and integers (wrapping as two's complement does).
// An invocation makes 4 rows of one column; invocations of a workgroup are adjacent along n.
#ifdef C_double
#define AULE_DOUBLE
#endif
#include "common/dtype.glsl"

layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;  // also of c
layout(constant_id = 2) const bool HAS_C = false;
layout(local_size_x = 32) in;
#include "common/indexing.glsl"

struct Params {
  uint64_t a, b, c, out_;
  int64_t a_batch, b_batch, c_batch, out_batch;
  uint64_t alpha_bits, beta_bits;  // of a double or an int64_t
  int a_m, a_k, b_k, b_n, c_m, c_n, out_m, out_n;
  uint m, n, k, batches;
};
#include "common/params.glsl"

#ifdef C_double
C load(uint64_t base, int64_t i, int dt) { return load_double(base, uint64_t(i), dt); }
void store(uint64_t base, int64_t i, C v) { store_double(base, uint64_t(i), OUT_DTYPE, v); }
C from_bits(uint64_t bits) { return packDouble2x32(unpackUint2x32(bits)); }
#else
C load(uint64_t base, int64_t i, int dt) { return load_int64(base, uint64_t(i), dt); }
void store(uint64_t base, int64_t i, C v) { store_int64(base, uint64_t(i), OUT_DTYPE, v); }
C from_bits(uint64_t bits) { return int64_t(bits); }
#endif

void main() {
  const uint tiles_m = (p.m + 3) / 4, tiles_n = (p.n + 31) / 32;
  const uint group = linear_group();
  const uint batch = group / (tiles_m * tiles_n);
  if (batch >= p.batches) return;
  const uint tile = group % (tiles_m * tiles_n);
  const uint m0 = (tile / tiles_n) * 4, col = (tile % tiles_n) * 32 + gl_LocalInvocationID.x;
  if (col >= p.n) return;
  int64_t a_at[4];
  C acc[4];
  [[unroll]] for (int i = 0; i < 4; ++i) {
    a_at[i] = int64_t(batch) * p.a_batch + int64_t(min(m0 + i, p.m - 1)) * p.a_m;
    acc[i] = C(0);
  }
  int64_t b_at = int64_t(batch) * p.b_batch + int64_t(col) * p.b_n;
  for (uint k = 0; k < p.k; ++k) {
    const C y = load(p.b, b_at, DTYPE);
    b_at += p.b_k;
    [[unroll]] for (int i = 0; i < 4; ++i) {
      acc[i] += load(p.a, a_at[i], DTYPE) * y;
      a_at[i] += p.a_k;
    }
  }
  [[unroll]] for (int i = 0; i < 4; ++i) {
    const uint row = m0 + i;
    if (row < p.m) {
      C v = from_bits(p.alpha_bits) * acc[i];
      if (HAS_C)
        v += from_bits(p.beta_bits) * load(p.c, int64_t(batch) * p.c_batch + int64_t(row) * p.c_m +
            int64_t(col) * p.c_n, OUT_DTYPE);
      store(p.out_, int64_t(batch) * p.out_batch + int64_t(row) * p.out_m + int64_t(col) * p.out_n, v);
    }
  }
}
