#pragma aule axis C float double
#pragma aule feature float64 if C=double
// grad_input[n, c, s] = c == t ? -weight[t] * grad / (mean ? total_weight : 1) : 0, t = target[n, s], over contiguous
// (N, C, S). One invocation per element writes the zeros too, so that nothing needs clearing first.
#ifdef C_double
#define AULE_DOUBLE
#endif
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DT = AULE_DT_F32;
layout(constant_id = 1) const int TARGET_DT = AULE_DT_I64;
layout(constant_id = 2) const bool WEIGHTED = false;
layout(constant_id = 3) const bool MEAN = false;
layout(constant_id = 4) const bool PER_ELEMENT = false;  // grad is (N, S), not one number

struct Params {
  uint64_t grad;
  uint64_t target;
  uint64_t weight;
  uint64_t total_weight;
  uint64_t grad_input;
  uint64_t n;
  int64_t weight_stride;
  int64_t ignore_index;
  uint classes, spatial;
};
#include "common/params.glsl"

#ifdef C_double
#define REAL double
#define LOAD load_double
#define STORE store_double
#else
#define REAL float
#define LOAD load_float
#define STORE store_float
#endif

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  // Element ids fit into 32 bits (checked by the host).
  uint i = uint(id), rest = i / p.spatial, s = i - rest * p.spatial;
  uint n = rest / p.classes, c = rest - n * p.classes;
  uint64_t at = uint64_t(n * p.spatial + s);
  int64_t t = load_int64(p.target, at, TARGET_DT);
  REAL result = REAL(0);
  if (t == int64_t(c) && t != p.ignore_index) {
    REAL weight = WEIGHTED ? LOAD(p.weight, uint64_t(t * p.weight_stride), DT) : REAL(1);
    result = -weight * LOAD(p.grad, PER_ELEMENT ? at : uint64_t(0), DT);
    if (MEAN) result /= LOAD(p.total_weight, uint64_t(0), DT);
  }
  STORE(p.grad_input, id, DT, result);
}
