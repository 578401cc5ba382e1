#pragma aule axis C float double
#pragma aule feature float64 if C=double
// log alpha and, BACKWARD, log beta of connectionist temporal classification (Graves et al., ICML 2006):
//   alpha[t, s] = (alpha[t-1, s] + alpha[t-1, s-1] + alpha[t-1, s-2] if label(s) != label(s-2)) * y[t, label(s)]
// beta runs from the last step to the first. Steps `first` to `last`, counted from the end that is begun with.
// SHARED: a workgroup owns a sequence and keeps two steps in shared memory. Else one invocation owns a state of a
// sequence, for one step of a launch: many states, and devices where a barrier is slow. A label that is no class is
// reported, and impossible.
layout(local_size_x_id = 3) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
layout(constant_id = 0) const int TARGET_DTYPE = AULE_DT_I64;
layout(constant_id = 1) const bool BACKWARD = false;
layout(constant_id = 2) const bool SHARED = false;
layout(constant_id = 3) const int LOCAL = 64;
layout(constant_id = 4) const int ROW = 1;  // SHARED: at least `states`
struct Params {
  uint64_t log_probs, targets, lengths;
  uint64_t table;  // [batch, steps, states], holds -inf
  uint64_t error;
  uint batch, steps, states, classes, blank;
  uint first, last, tag;
};
#include "common/params.glsl"
#include "loss/ctc.glsl"

shared REAL row[2][SHARED ? ROW : 1];

REAL state_before(uint n, int t, int s, int cur) {
  if (SHARED) return row[1 - cur][s];
  return LOAD(p.table, state_at(n, t, s), REAL_DTYPE);
}
// State s at step number k, which is step t.
REAL advanced(uint n, int k, int t, int s, int states, int cur) {
  const int label = state_label(n, s), back = BACKWARD ? 1 : -1, before = t + back;
  if (label < 0) report_error(p.error, AULE_ERR_CLASS_OUT_OF_RANGE, p.tag, int64_t(s >> 1), int64_t(p.classes));
  const REAL y = log_probability(t, n, label);
  if (k == 0) {
    const bool starts = BACKWARD ? s >= states - 2 : s <= 1;
    return starts ? y : MINUS_INF;
  }
  REAL sum = state_before(n, before, s, cur);
  const int one = s + back, two = s + 2 * back;
  if (one >= 0 && one < states) sum = log_add(sum, state_before(n, before, one, cur));
  if (two >= 0 && two < states && state_label(n, two) != label)
    sum = log_add(sum, state_before(n, before, two, cur));
  return sum + y;
}

void main() {
  if (!SHARED) {
    const uint64_t id = linear_invocation();
    if (id >= uint64_t(p.batch) * uint64_t(p.states)) return;
    const uint n = uint(id / uint64_t(p.states));
    const int s = int(id - uint64_t(n) * uint64_t(p.states)), states = 2 * target_length(n) + 1, k = int(p.first);
    if (s >= states || k >= input_length(n)) return;
    const int t = BACKWARD ? input_length(n) - 1 - k : k;
    STORE(p.table, state_at(n, t, s), REAL_DTYPE, advanced(n, k, t, s, states, 0));
    return;
  }
  const uint n = linear_group();
  if (n >= p.batch) return;
  const int states = 2 * target_length(n) + 1, steps = input_length(n), last = min(int(p.last), steps);
  int cur = 0;
  if (p.first > 0u && int(p.first) < steps) {
    const int t = BACKWARD ? steps - int(p.first) : int(p.first) - 1;
    for (int s = int(gl_LocalInvocationID.x); s < states; s += LOCAL)
      row[1][s] = LOAD(p.table, state_at(n, t, s), REAL_DTYPE);
    barrier();  // the step before is there
  }
  for (int k = int(p.first); k < last; ++k) {
    const int t = BACKWARD ? steps - 1 - k : k;
    for (int s = int(gl_LocalInvocationID.x); s < states; s += LOCAL) {
      const REAL v = advanced(n, k, t, s, states, cur);
      row[cur][s] = v;
      STORE(p.table, state_at(n, t, s), REAL_DTYPE, v);
    }
    barrier();  // this step is written, and the one before has been read
    cur = 1 - cur;
  }
}
