// The tokens of a step that sequence b keeps: guesses[b] as long as they are what was drawn, and what was drawn behind
// them. kept = active[b] ? 1 + (how many guesses are right) : 0, and
//   accepted[b] = kept, drawn[b],  tokens[b] = drawn[b][right],  lengths[b] += kept
// An invocation has a sequence. Tokens are int64.
layout(local_size_x = 32) in;
layout(constant_id = 0) const int ACTIVE_DTYPE = 0;
layout(constant_id = 1) const int LENGTH_DTYPE = 0;
#include "common/dtype.glsl"
struct Params {
  uint64_t drawn, guesses, active_, accepted, tokens, lengths;  // dense, but for rows of accepted
  uint batch, each, accepted_row;                               // each: drawn for a sequence, one more than guesses
};
#include "common/params.glsl"
#include "common/indexing.glsl"

void main() {
  const uint64_t b = linear_invocation();
  if (b >= uint64_t(p.batch)) return;
  const uint64_t first = b * p.each, row = b * p.accepted_row;
  uint right = 0u;
  for (; right + 1u < p.each; ++right)
    if (I64Ref(p.guesses + (b * (p.each - 1u) + right) * 8).v != I64Ref(p.drawn + (first + right) * 8).v) break;
  const int kept = load_int64(p.active_, b, ACTIVE_DTYPE) != int64_t(0) ? int(right) + 1 : 0;
  I64Ref(p.accepted + row * 8).v = int64_t(kept);
  for (uint i = 0u; i < p.each; ++i) I64Ref(p.accepted + (row + 1u + i) * 8).v = I64Ref(p.drawn + (first + i) * 8).v;
  I64Ref(p.tokens + b * 8).v = I64Ref(p.drawn + (first + right) * 8).v;
  store_int64(p.lengths, b, LENGTH_DTYPE, load_int64(p.lengths, b, LENGTH_DTYPE) + int64_t(kept));
}
