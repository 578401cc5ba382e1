#pragma aule axis C float double
#pragma aule feature float64 if C=double
// grad_input[o, i, k] = sum over windows w with w * step <= i < w * step + size of grad[o, w, k, i - w * step]:
// unfold's gradient as a gather, so that the sum has one order. Both are contiguous.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;

struct Params {
  uint64_t grad;
  uint64_t grad_input;
  uint64_t n;
  uint extent, inner, windows, size, step;
};
#include "common/params.glsl"

#include "common/real.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  uint64_t rest = id / p.inner;
  uint k = uint(id - rest * p.inner);
  uint64_t o = rest / p.extent;
  uint i = uint(rest - o * p.extent);
  uint first = i < p.size ? 0u : (i - p.size) / p.step + 1u;
  REAL sum = REAL(0);
  for (uint w = first; w < p.windows && w * p.step <= i; ++w)
    sum += LOAD(p.grad, ((o * p.windows + w) * p.inner + k) * p.size + (i - w * p.step), DTYPE);
  STORE(p.grad_input, id, DTYPE, sum);
}
