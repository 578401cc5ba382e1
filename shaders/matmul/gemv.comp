// out = alpha * a @ b + beta * c for 1 to 4 rows of a; float32, float16, bfloat16 with float32 accumulation, any
// strides.
//
// Bound by reading b once. A workgroup of 256 makes COLS columns, each by 256 / COLS invocations that share k between
// them and add up in shared memory. B_K_MAJOR 1: 4 columns, 64 neighbours read consecutive k. 0: 32 neighbours read
// consecutive columns, 8 slices of k. The host transposes problems with few columns.
#include "common/dtype.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int ROWS = 1;
layout(constant_id = 2) const bool B_K_MAJOR = true;
layout(constant_id = 3) const bool HAS_C = false;
layout(constant_id = 4) const int ACTIVATION = 0;  // activation_codes.h
layout(constant_id = 5) const bool RESIDUAL = false;
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"
#include "matmul/epilogue.glsl"

const uint COLS = B_K_MAJOR ? 4 : 32, SLICES = 256 / COLS;
shared float partial[4 * 256];  // [row][slice][column]

void main() {
  const uint tiles_n = (p.n + COLS - 1) / COLS, group = linear_group(), batch = group / tiles_n;
  if (batch >= p.batches) return;  // the whole workgroup leaves
  const uint t = gl_LocalInvocationID.x;
  const uint column = B_K_MAJOR ? t / SLICES : t % COLS, slice = B_K_MAJOR ? t % SLICES : t / COLS;
  const uint n = (group % tiles_n) * COLS + column;
  const int64_t a_at = int64_t(batch) * p.a_batch, b_at = int64_t(batch) * p.b_batch + int64_t(min(n, p.n - 1)) * p.b_n;

  float acc[ROWS];
  [[unroll]] for (int i = 0; i < ROWS; ++i) acc[i] = 0.0;
  for (uint k = slice; k < p.k; k += SLICES) {
    const float y = load_float(p.b, uint64_t(b_at + int64_t(k) * p.b_k), DTYPE);
    [[unroll]] for (int i = 0; i < ROWS; ++i)
      acc[i] += load_float(p.a, uint64_t(a_at + int64_t(min(i, int(p.m) - 1)) * p.a_m + int64_t(k) * p.a_k), DTYPE) * y;
  }
  [[unroll]] for (int i = 0; i < ROWS; ++i) partial[i * 256 + slice * COLS + column] = acc[i];
  for (uint half_slices = SLICES / 2; half_slices > 0; half_slices /= 2) {
    barrier();  // the sums of the last round are written
    if (slice < half_slices) {
      [[unroll]] for (int i = 0; i < ROWS; ++i)
        partial[i * 256 + slice * COLS + column] += partial[i * 256 + (slice + half_slices) * COLS + column];
    }
  }
  // Slice 0 reads what it wrote itself.
  if (slice == 0 && n < p.n) {
    [[unroll]] for (int i = 0; i < ROWS; ++i) {
      if (i < p.m) finish(batch, i, n, partial[i * 256 + column]);
    }
  }
}
