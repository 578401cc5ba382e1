// Parts that the kernels of connectionist temporal classification share. Sequence n has `input_length` steps and
// `target_length` labels; its 2 * target_length + 1 states are the labels with blanks between and around them.
// The kernel has declared Params and TARGET_DTYPE.
#include "common/float_bits.glsl"
#include "common/real.glsl"

#ifdef C_double
#define MINUS_INF packDouble2x32(uvec2(0u, 0xfff00000u))
#define NOT_A_NUMBER packDouble2x32(uvec2(0u, 0x7ff80000u))
#else
#define MINUS_INF (-AULE_INF)
#define NOT_A_NUMBER AULE_NAN
#endif

// Rows of `lengths`: input lengths, target lengths, the first label's place in `targets`.
int64_t length_of(uint row, uint n) {
  return I64Ref(p.lengths + (uint64_t(row) * uint64_t(p.batch) + uint64_t(n)) * 8).v;
}
int input_length(uint n) { return int(length_of(0u, n)); }
int target_length(uint n) { return int(length_of(1u, n)); }

// Label k of a sequence; -1 if it is none of the classes.
int label_at(uint n, int k) {
  const int64_t label = load_int64(p.targets, uint64_t(length_of(2u, n) + int64_t(k)), TARGET_DTYPE);
  return label >= int64_t(0) && label < int64_t(p.classes) ? int(label) : -1;
}
int state_label(uint n, int s) { return (s & 1) != 0 ? label_at(n, s >> 1) : int(p.blank); }

REAL log_probability(int t, uint n, int label) {
  if (label < 0) return MINUS_INF;
  return LOAD(p.log_probs, (uint64_t(t) * uint64_t(p.batch) + uint64_t(n)) * uint64_t(p.classes) + uint64_t(label),
      REAL_DTYPE);
}
// A place in tables of [batch, steps, states].
uint64_t state_at(uint n, int t, int s) {
  return (uint64_t(n) * uint64_t(p.steps) + uint64_t(t)) * uint64_t(p.states) + uint64_t(s);
}
REAL log_add(REAL a, REAL b) {
  const REAL m = a > b ? a : b;
  return !is_finite(m) || is_nan(a) || is_nan(b) ? a + b : m + log(exp(a - m) + exp(b - m));
}
