// Gradient of cross_entropy.comp: grad_input[row, k] = (exp(x[row, k] - lse[row]) - [k == t]) c[row], t = target[row],
//   c = grad (of the row, or of the sum) / (mean ? total_weight : 1), 0 where t is ignored or no class.
// An invocation has one aligned block of 16 bytes of x, which has elements of one row or of two.
layout(local_size_x = 256) in;
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int TARGET_DTYPE = 0;
layout(constant_id = 2) const bool MEAN = false;
layout(constant_id = 3) const bool PER_ROW = false;
layout(constant_id = 4) const int GRAD_DTYPE = 0;
#include "common/indexing.glsl"
#include "common/vec16b.glsl"

struct Params {
  uint64_t grad, x, target, lse, total_weight, grad_input;
  int64_t ignore_index;
  uint rows, n, blocks;  // n at least E; all elements fewer than 2^32
};
#include "common/params.glsl"

struct Line {
  float lse, c;
  uint target;
};
Line line(uint row) {
  const int64_t t = load_int64(p.target, uint64_t(row), TARGET_DTYPE);
  float c = load_float(p.grad, PER_ROW ? uint64_t(row) : uint64_t(0), GRAD_DTYPE);
  if (MEAN) c /= F32Ref(p.total_weight).v;
  if (t == p.ignore_index || t < int64_t(0) || t >= int64_t(p.n)) c = 0.0;
  return Line(F32Ref(p.lse + uint64_t(row) * 4).v, c, uint(t));
}

void main() {
  const uint block = uint(linear_invocation());
  if (block >= p.blocks) return;
  const uint first = block * E, row = first / p.n, k = first - row * p.n;
  const uvec4 w = load_vec16b(p.x, uint64_t(block));
  const Line here = line(row);
  float x[MAX_E];
  if (k + E <= p.n) {
    [[unroll]] for (uint i = 0u; i < MAX_E; ++i)
      if (i < E) x[i] = (exp(element(w, i) - here.lse) - (k + i == here.target ? 1.0 : 0.0)) * here.c;
    Vec16bRef(p.grad_input + uint64_t(block) * 16).v = to_vec16b(x);
    return;
  }
  const Line next = line(min(row + 1u, p.rows - 1u));
  [[unroll]] for (uint i = 0u; i < MAX_E; ++i) {
    if (i >= E) continue;
    const bool past = k + i >= p.n;
    const uint at = past ? k + i - p.n : k + i;
    const float lse = past ? next.lse : here.lse, c = past ? next.c : here.c;
    x[i] = (exp(element(w, i) - lse) - (at == (past ? next.target : here.target) ? 1.0 : 0.0)) * c;
  }
  if (row + 1u < p.rows) {
    Vec16bRef(p.grad_input + uint64_t(block) * 16).v = to_vec16b(x);
    return;
  }
  [[unroll]] for (uint i = 0u; i < MAX_E; ++i)  // the last block of all
    if (i < E && k + i < p.n) store_float(p.grad_input, uint64_t(first + i), DTYPE, x[i]);
}
