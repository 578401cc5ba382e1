#pragma aule params ring
#pragma aule axis C vec2 dvec2
#pragma aule feature float64 if C=dvec2
// out = alpha * a @ b + beta * c of complex64 or complex128, any strides: small products, and complex128.
// An invocation makes 4 rows of one column; invocations of a workgroup are adjacent along n.
#ifdef C_dvec2
#define AULE_DOUBLE
#define DTYPE AULE_DT_C128
#else
#define DTYPE AULE_DT_C64
#endif
#include "common/dtype.glsl"
#include "common/complex.glsl"
layout(local_size_x = 32) in;
#include "common/indexing.glsl"

struct Params {
  uint64_t a, b, c, out_;
  int64_t a_batch, b_batch, c_batch, out_batch;
  int a_m, a_k, b_k, b_n, c_m, c_n, out_m, out_n;
  uint m, n, k, batches;
  uint64_t alpha_re, alpha_im, beta_re, beta_im;  // bits of doubles, of floats for complex64
  uint conj_a, conj_b, conj_c, has_c;
};
#include "common/params.glsl"

#ifdef C_dvec2
#define load load_complex
#define store store_complex
C scalar(uint64_t re, uint64_t im) {
  return C(packDouble2x32(unpackUint2x32(re)), packDouble2x32(unpackUint2x32(im)));
}
#else
#define load load_complex64
#define store store_complex64
C scalar(uint64_t re, uint64_t im) { return uintBitsToFloat(uvec2(uint(re), uint(im))); }
#endif
C operand(uint64_t base, int64_t i, uint conjugate) {
  const C z = load(base, uint64_t(i), DTYPE);
  return conjugate != 0u ? C(z.x, -z.y) : z;
}
// A scalar without an imaginary part scales both parts, so that infinities stay in theirs.
C scaled(C s, C z) { return s.y == 0 ? s.x * z : c_mul(s, z); }

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
    const C y = operand(p.b, b_at, p.conj_b);
    b_at += p.b_k;
    [[unroll]] for (int i = 0; i < 4; ++i) {
      const C x = operand(p.a, a_at[i], p.conj_a);
      acc[i] += x.x * y;
      acc[i] += x.y * C(-y.y, y.x);
      a_at[i] += p.a_k;
    }
  }
  const C alpha = scalar(p.alpha_re, p.alpha_im), beta = scalar(p.beta_re, p.beta_im);
  [[unroll]] for (int i = 0; i < 4; ++i) {
    const uint row = m0 + i;
    if (row < p.m) {
      C v = scaled(alpha, acc[i]);
      if (p.has_c != 0u)
        v += scaled(beta, operand(p.c, int64_t(batch) * p.c_batch + int64_t(row) * p.c_m + int64_t(col) * p.c_n,
            p.conj_c));
      store(p.out_, uint64_t(int64_t(batch) * p.out_batch + int64_t(row) * p.out_m + int64_t(col) * p.out_n), DTYPE,
          v);
    }
  }
}
