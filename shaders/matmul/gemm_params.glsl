// Shared by gemm*.comp: out[i] = alpha * a[i] @ b[i] + beta * c[i], element strides for everything, batch stride 0 to
// repeat.
#ifndef AULE_GEMM_PARAMS_GLSL
#define AULE_GEMM_PARAMS_GLSL
#ifndef GEMM_PARAMS_MORE
#define GEMM_PARAMS_MORE uint64_t residual;  // added to the activated sums, with the strides of out
#endif
struct Params {
  uint64_t a, b, c, out_;
  int64_t a_batch, b_batch, c_batch, out_batch;
  int a_m, a_k, b_k, b_n, c_m, c_n, out_m, out_n;
  uint m, n, k, batches;
  float alpha, beta;
  GEMM_PARAMS_MORE
};
#endif
