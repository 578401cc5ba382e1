#pragma aule axis C float double
#pragma aule feature float64 if C=double
// grad_input[n, t, s] = -weight[t] * grad / (mean ? total_weight : 1), t = target[n, s], into a grad_input of zeros.
// One invocation per (n, s). The zeros come from a fill, which is faster than a test of the target in every element.
// Strides are in elements, target and grad contiguous.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const int TARGET_DTYPE = AULE_DT_I64;
layout(constant_id = 2) const bool WEIGHTED = false;
layout(constant_id = 3) const bool MEAN = false;
layout(constant_id = 4) const bool PER_ELEMENT = false;  // grad is (N, S), not one number

struct Params {
  uint64_t grad;
  uint64_t target;
  uint64_t weight;
  uint64_t total_weight;
  uint64_t grad_input;
  int64_t stride_n, stride_c, stride_s;
  int64_t weight_stride;
  int64_t ignore_index;
  int64_t classes;
  uint n, spatial;  // n: N * S
};
#include "common/params.glsl"

#include "common/real.glsl"

void main() {
  uint i = uint(linear_invocation());
  if (i >= p.n) return;
  int64_t t = load_int64(p.target, uint64_t(i), TARGET_DTYPE);
  // The forward pass has reported classes out of range.
  if (t == p.ignore_index || t < int64_t(0) || t >= p.classes) return;
  uint n = i / p.spatial, s = i - n * p.spatial;
  REAL weight = WEIGHTED ? LOAD(p.weight, uint64_t(t * p.weight_stride), DTYPE) : REAL(1);
  REAL result = -weight * LOAD(p.grad, PER_ELEMENT ? uint64_t(i) : uint64_t(0), DTYPE);
  if (MEAN) result /= LOAD(p.total_weight, uint64_t(0), DTYPE);
  STORE(p.grad_input, uint64_t(int64_t(n) * p.stride_n + t * p.stride_c + int64_t(s) * p.stride_s), DTYPE, result);
}
