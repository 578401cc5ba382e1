// out = gate(norm(x) @ w^T + bias) + residual for 1 or 2 rows of x and a dense weight; float32, float16, bfloat16 with
// float32 sums. Bound by reading w, by loads of 16 bytes. What a decoding step of a language model would do in kernels
// of its own is done where x is read and where the sums are written:
//
// norm: RMSNorm (arXiv:1910.07467), x * inversesqrt(mean(x^2) + eps) * weight, whose weight is float32. Sums are of
// x * weight, and the square mean, which every slice sees whole, is multiplied into them at the end.
// gate: w has 2 n rows, and out is activate(row i) * row (n + i), which one slice computes.
//
// COLS rows of w belong to SLICE neighbours, which take turns along k.
// Measured: docs/ladders/gemv_norm.md
#include "common/dtype.glsl"
struct Params {
  uint64_t x, weight, bias, norm, residual, out_;  // rows of out and residual are dense
  int64_t weight_row;                              // elements
  uint x_row;
  uint n, k;  // of out
  float eps;
};
#include "common/params.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int ROWS = 1;  // of x
layout(constant_id = 2) const uint SLICE = 64;
layout(constant_id = 3) const bool NORM = false;
layout(constant_id = 4) const int ACTIVATION = 0;  // activation_codes.h; none: no gate
layout(constant_id = 5) const bool HAS_BIAS = false;
layout(constant_id = 6) const bool RESIDUAL = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
#include "common/vec16b.glsl"
#include "matmul/activation.glsl"

const uint ES = 16 / E;
const bool GATED = ACTIVATION != 0;
const int COLS = 4, OUTS = GATED ? COLS / 2 : COLS;  // rows of w, and values of out, of a slice
const int SUMS = ROWS * COLS + (NORM ? ROWS : 0);
const uint SHARED = 256 / SLICE;
shared float partial[SUMS * 256];

void main() {
  const uint per_group = SHARED * OUTS, n0 = linear_group() * per_group;
  if (n0 >= p.n) return;  // the whole workgroup leaves
  const uint t = gl_LocalInvocationID.x, column = t / SLICE, slice = t % SLICE;
  uint64_t x_at[ROWS], row_at[COLS];
  [[unroll]] for (int r = 0; r < ROWS; ++r) x_at[r] = p.x + uint64_t(r) * p.x_row * ES;
  [[unroll]] for (int j = 0; j < COLS; ++j) {
    const uint out_column = min(n0 + column * OUTS + j % OUTS, p.n - 1);
    row_at[j] = p.weight + uint64_t(int64_t(j / OUTS * p.n + out_column) * p.weight_row) * ES;
  }
  float sums[SUMS];
  [[unroll]] for (int i = 0; i < SUMS; ++i) sums[i] = 0.0;
  for (uint i = slice; i < p.k / E; i += SLICE) {
    uvec4 y[COLS], x[ROWS], g[2];
    [[unroll]] for (int j = 0; j < COLS; ++j) y[j] = load_vec16b(row_at[j], i);
    [[unroll]] for (int r = 0; r < ROWS; ++r) x[r] = load_vec16b(x_at[r], i);
    if (NORM) [[unroll]] for (uint part = 0; part < E / 4; ++part) g[part] = load_vec16b(p.norm, i * (E / 4) + part);
    [[unroll]] for (uint e = 0; e < E; ++e) {
      [[unroll]] for (int r = 0; r < ROWS; ++r) {
        float v = element(x[r], e);
        if (NORM) {
          sums[ROWS * COLS + r] += v * v;
          v *= uintBitsToFloat(g[e / 4][e & 3]);
        }
        [[unroll]] for (int j = 0; j < COLS; ++j) sums[r * COLS + j] += v * element(y[j], e);
      }
    }
  }
  [[unroll]] for (int i = 0; i < SUMS; ++i) partial[i * 256 + t] = sums[i];
  barrier();  // the sums are written
  for (uint width = SLICE / 2; width > 0; width /= 2) {
    if (slice < width) [[unroll]] for (int i = 0; i < SUMS; ++i) partial[i * 256 + t] += partial[i * 256 + t + width];
    barrier();  // and added
  }
  for (uint i = t; i < ROWS * per_group; i += 256) {
    const uint r = i / per_group, own = i % per_group, n = n0 + own;
    if (n >= p.n) continue;
    const uint from = own / OUTS * SLICE;  // of the column's slice
    const float scale = NORM ? inversesqrt(partial[(ROWS * COLS + r) * 256 + from] / float(p.k) + p.eps) : 1.0;
    float v = scale * partial[(r * COLS + own % OUTS) * 256 + from];
    if (HAS_BIAS) v += load_float(p.bias, uint64_t(n), DTYPE);
    if (GATED) {
      float up = scale * partial[(r * COLS + OUTS + own % OUTS) * 256 + from];
      if (HAS_BIAS) up += load_float(p.bias, uint64_t(p.n + n), DTYPE);
      v = activate(v) * up;
    }
    const uint64_t at = uint64_t(r) * p.n + n;
    if (RESIDUAL) v += load_float(p.residual, at, DTYPE);
    store_float(p.out_, at, DTYPE, v);
  }
}
