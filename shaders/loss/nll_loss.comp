#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Negative log likelihood over (N, C, S), S the product of the spatial sizes (1 for plain nll_loss):
//   loss[n, s] = -weight[t] * input[n, t, s], t = target[n, s]; 0 where t is ignore_index.
// Without SUM, one invocation per (n, s) writes its loss. With SUM, invocation i adds up every `chunks`-th one and
// writes {loss, weight} to partial[i]. nll_loss_sum.comp adds these up, so the sum has one order.
// A class out of range is reported and counts as ignored. Strides are in elements, target and dst contiguous.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const int TARGET_DTYPE = AULE_DT_I64;
layout(constant_id = 2) const bool WEIGHTED = false;
layout(constant_id = 3) const bool SUM = false;

struct Params {
  uint64_t src;
  uint64_t target;
  uint64_t weight;
  uint64_t dst;
  uint64_t error;
  int64_t stride_n, stride_c, stride_s;
  int64_t weight_stride;
  int64_t ignore_index;
  int64_t classes;
  uint n, spatial, chunks, tag;  // n: N * S
};
#include "common/params.glsl"

#include "common/real.glsl"

// loss and weight of one position
void position(uint i, out REAL loss, out REAL weight) {
  int64_t t = load_int64(p.target, uint64_t(i), TARGET_DTYPE);
  loss = REAL(0);
  weight = REAL(0);
  if (t == p.ignore_index) return;
  if (t < int64_t(0) || t >= p.classes) {
    report_error(p.error, AULE_ERR_CLASS_OUT_OF_RANGE, p.tag, t, p.classes);
    return;
  }
  uint n = i / p.spatial, s = i - n * p.spatial;
  weight = WEIGHTED ? LOAD(p.weight, uint64_t(t * p.weight_stride), DTYPE) : REAL(1);
  loss = -weight * LOAD(p.src, uint64_t(int64_t(n) * p.stride_n + t * p.stride_c + int64_t(s) * p.stride_s), DTYPE);
}

void main() {
  uint id = uint(linear_invocation());
  REAL loss, weight;
  if (!SUM) {
    if (id >= p.n) return;
    position(id, loss, weight);
    STORE(p.dst, uint64_t(id), DTYPE, loss);
    return;
  }
  if (id >= p.chunks) return;
  REAL loss_sum = REAL(0), weight_sum = REAL(0);
  for (uint i = id; i < p.n; i += p.chunks) {
    position(i, loss, weight);
    loss_sum += loss;
    weight_sum += weight;
  }
  STORE(p.dst, uint64_t(2u * id), REAL_DTYPE, loss_sum);
  STORE(p.dst, uint64_t(2u * id + 1u), REAL_DTYPE, weight_sum);
}
