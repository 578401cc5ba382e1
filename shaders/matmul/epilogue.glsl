// The epilogue of a product, in float32: out = activate(alpha * sum + beta * c) + residual. The kernel has declared
// Params of gemm_params.glsl, DTYPE (of c, out and residual), HAS_C, ACTIVATION and RESIDUAL. The residual has out's
// strides.
#ifndef AULE_EPILOGUE_GLSL
#define AULE_EPILOGUE_GLSL
#include "matmul/activation.glsl"

// out[batch][row][col] from its sum over k.
void finish(uint batch, uint row, uint col, float sum) {
  float v = p.alpha * sum;
  if (HAS_C)
    v += p.beta * load_float(p.c, uint64_t(int64_t(batch) * p.c_batch + int64_t(row) * p.c_m + int64_t(col) * p.c_n),
        DTYPE);
  const uint64_t at = uint64_t(int64_t(batch) * p.out_batch + int64_t(row) * p.out_m + int64_t(col) * p.out_n);
  v = activate(v);
  if (RESIDUAL) v += load_float(p.residual, at, DTYPE);
  store_float(p.out_, at, DTYPE, v);
}
#endif
