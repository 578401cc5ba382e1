#pragma aule axis C float double
#pragma aule feature float64 if C=double
// LOSS: loss[n] = -log(alpha[last step, last two states]), of log alpha.
// Gradient of the loss by log_probs, as of a log_softmax before it:
//   (y[t, n, c] - sum over the states s of label c of alpha[t, s] * beta[t, s] / (y[t, n, c] * likelihood)) * grad[n]
// FILL: one invocation per element writes the first term, and 0 past a sequence's end. Then one invocation per label of
// a sequence and step, and one for the blank, writes the elements that have states: the first of equal labels gathers
// them all, so there are no atomics.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
layout(constant_id = 0) const int TARGET_DTYPE = AULE_DT_I64;
layout(constant_id = 1) const bool LOSS = false;
layout(constant_id = 2) const bool FILL = false;
layout(constant_id = 3) const bool ZERO_INFINITY = false;
struct Params {
  uint64_t log_probs, targets, lengths;
  uint64_t alpha, beta, loss;  // [batch, steps, states] twice, [batch]
  uint64_t grad, grad_input;
  uint64_t n;
  uint batch, steps, states, classes, blank;
  uint grad_stride;
};
#include "common/params.glsl"
#include "loss/ctc.glsl"

REAL joint(uint n, int t, int s) {
  return LOAD(p.alpha, state_at(n, t, s), REAL_DTYPE) + LOAD(p.beta, state_at(n, t, s), REAL_DTYPE);
}
void store_gradient(int t, uint n, int c, REAL states) {
  const REAL loss = LOAD(p.loss, uint64_t(n), REAL_DTYPE), y = log_probability(t, n, c);
  // No arithmetic on the infinity that stands for no state: a driver took its exponential for 1.
  const REAL posterior = FILL || !is_finite(states) && states < REAL(0) ? REAL(0) : exp(states + loss - y);
  REAL g = (exp(y) - posterior) * LOAD(p.grad, uint64_t(n) * uint64_t(p.grad_stride), REAL_DTYPE);
  // By its name: a driver may simplify infinity - infinity.
  if (loss == -MINUS_INF) g = ZERO_INFINITY ? REAL(0) : NOT_A_NUMBER;
  if (t >= input_length(n)) g = REAL(0);
  STORE(p.grad_input, (uint64_t(t) * uint64_t(p.batch) + uint64_t(n)) * uint64_t(p.classes) + uint64_t(c), REAL_DTYPE,
      g);
}

void write_loss(uint n) {
  const int steps = input_length(n), labels = target_length(n);
  REAL likelihood = labels == 0 ? REAL(0) : MINUS_INF;
  if (steps > 0) {
    likelihood = LOAD(p.alpha, state_at(n, steps - 1, 2 * labels), REAL_DTYPE);
    if (labels > 0) likelihood = log_add(likelihood, LOAD(p.alpha, state_at(n, steps - 1, 2 * labels - 1), REAL_DTYPE));
  }
  STORE(p.loss, uint64_t(n), REAL_DTYPE, -likelihood);
}
void write_label(uint64_t id) {
  const uint slots = (p.states + 1u) / 2u;  // the blank, and the labels
  const uint64_t place = id / uint64_t(slots);
  const int k = int(id - place * uint64_t(slots)) - 1, t = int(place / uint64_t(p.batch));
  const uint n = uint(place - uint64_t(t) * uint64_t(p.batch));
  const int labels = target_length(n);
  if (t >= input_length(n) || k >= labels) return;
  REAL sum = MINUS_INF;
  const int label = k < 0 ? int(p.blank) : label_at(n, k);
  if (label < 0 || (k >= 0 && label == int(p.blank))) return;
  for (int j = 0; j < k; ++j)
    if (label_at(n, j) == label) return;
  for (int s = k < 0 ? 0 : 2 * k + 1; s <= 2 * labels; ++s)
    if (state_label(n, s) == label) sum = log_add(sum, joint(n, t, s));
  store_gradient(t, n, label, sum);
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  if (LOSS) {
    write_loss(uint(id));
  } else if (FILL) {
    const uint64_t place = id / uint64_t(p.classes);
    const int t = int(place / uint64_t(p.batch));
    store_gradient(t, uint(place - uint64_t(t) * uint64_t(p.batch)), int(id - place * uint64_t(p.classes)), MINUS_INF);
  } else {
    write_label(id);
  }
}
