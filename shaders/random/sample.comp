#pragma aule params ring
// Draws a token of each row of logits [rows, n], one workgroup per row, and gives its log probability among the tokens
// that could be drawn:
//   x = logit; of tokens with counts (x > 0 ? x / repetition : x * repetition) - presence - frequency * count
//   z = x / temperature
// Kept are the top_k largest, of these the fewest whose probabilities reach top_p, of these those of at least min_p
// times the largest probability; and tokens as large as the last one kept. Of these the largest z + Gumbel noise is
// drawn, with a counter of Philox for four tokens. Temperature 0: the largest x. NaN is never drawn.
// Thresholds are found by radix, eight bits of an ordered key at a time. Probabilities are added as integers of 2^-31,
// in any order.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 256;  // a power of two
layout(constant_id = 1) const int DTYPE = 0;
layout(constant_id = 2) const bool COUNTS = false;  // int32 [rows, n]
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/philox.glsl"

struct Params {
  uint64_t logits, token, log_probability, counts;
  uint64_t temperature, top_k, top_p, min_p, repetition, presence, frequency;  // 0: off
  uint64_t seed, offset, state;
  int64_t row_stride;
  uint rows, n;
  uint temperature_stride, top_k_stride, top_p_stride, min_p_stride;  // 0: one number for all rows
  uint repetition_stride, presence_stride, frequency_stride;
};
#include "common/params.glsl"

const uint kOne = 0x80000000u;  // a probability of 1
shared uint sums[2][256];
shared float values[LOCAL];
shared uint indices[LOCAL];
shared uint chosen, above;

uint row;
uint64_t logits;
float temperature, repetition, presence, frequency;
float most;       // the largest z
uint least = 0u;  // the key of the smallest that is kept

float number(uint64_t base, uint stride, float otherwise) {
  return base == uint64_t(0) ? otherwise : F32Ref(base + uint64_t(row) * stride * 4).v;
}
uint ordered(float x) {
  const uint bits = floatBitsToUint(x);
  return bits >> 31 != 0u ? ~bits : bits | 0x80000000u;
}
float z_of(uint i) {
  float x = load_float(logits, i, DTYPE);
  if (COUNTS) {
    const int count = I32Ref(p.counts + (uint64_t(row) * p.n + i) * 4).v;
    if (count > 0) x = (x > 0.0 ? x / repetition : x * repetition) - presence - frequency * float(count);
  }
  x = temperature > 0.0 ? x / temperature : x;
  return isnan(x) ? uintBitsToFloat(0xff800000u) : x;
}
// The largest of all invocations' values, in values[0] and indices[0]; of equal ones that of the smallest index.
void largest(float value, uint index) {
  const uint t = gl_LocalInvocationID.x;
  values[t] = value;
  indices[t] = index;
  barrier();  // all are there
  for (uint width = LOCAL / 2u; width > 0u; width /= 2u) {
    if (t < width) {
      const float theirs = values[t + width];
      const bool other = theirs > values[t] || theirs == values[t] && indices[t + width] < indices[t];
      values[t] = other ? values[t + width] : values[t];
      indices[t] = other ? indices[t + width] : indices[t];
    }
    barrier();  // halves are joined
  }
}
float sum_of_all(float value) {
  const uint t = gl_LocalInvocationID.x;
  barrier();  // values were read
  values[t] = value;
  barrier();  // all are there
  for (uint width = LOCAL / 2u; width > 0u; width /= 2u) {
    if (t < width) values[t] += values[t + width];
    barrier();  // halves are added
  }
  return values[0];
}
// The bin in which the sum from the last bin down reaches `target`, in `chosen`; the sum of those above it, in `above`,
// which comes with what is above all bins. Bin 0 if it is not reached.
void choose(uint target) {
  const uint t = gl_LocalInvocationID.x, before = above;
  uint from = 0u;
  for (uint step = 1u; step < 256u; step *= 2u) {
    for (uint b = t; b < 256u; b += LOCAL)
      sums[1u - from][b] = sums[from][b] + (b + step < 256u ? sums[from][b + step] : 0u);
    from = 1u - from;
    barrier();  // sums of twice as many bins
  }
  if (t == 0u) {
    chosen = 0u;
    above = before + sums[from][1];
  }
  barrier();  // which is what is chosen if none reaches it
  for (uint b = t; b < 256u; b += LOCAL) {
    const uint more = b < 255u ? sums[from][b + 1u] : 0u;
    if (before + sums[from][b] >= target && before + more < target) {
      chosen = b;
      above = before + more;
    }
  }
  barrier();  // the bin is chosen
}

// Raises `least` to the key of the `target`-th largest of the kept tokens, or of the one with which probabilities reach
// `target`; `total`: that of exp(z - most), 0: tokens are counted.
void limit(uint target, float total) {
  const uint t = gl_LocalInvocationID.x;
  uint prefix = 0u;
  barrier();  // `above` was read
  if (t == 0u) above = 0u;
  for (int digit = 3; digit >= 0; --digit) {
    barrier();  // the bins were read
    for (uint b = t; b < 256u; b += LOCAL) sums[0][b] = 0u;
    barrier();  // and are empty
    for (uint i = t; i < p.n; i += LOCAL) {
      const float z = z_of(i);
      const uint key = ordered(z);
      if (key < least || digit < 3 && key >> 8 * (digit + 1) != prefix) continue;
      const uint weight = total == 0.0 ? 1u : uint(exp(z - most) / total * float(kOne) + 0.5);
      if (weight > 0u) atomicAdd(sums[0][key >> 8 * digit & 255u], weight);
    }
    barrier();  // the bins are filled
    choose(target);
    prefix = prefix << 8 | chosen;
  }
  least = max(least, prefix);
}

void main() {
  row = linear_group();
  if (row >= p.rows) return;  // the whole workgroup leaves
  const uint t = gl_LocalInvocationID.x;
  logits = p.logits + uint64_t(int64_t(row) * p.row_stride) * (DTYPE == AULE_DT_F32 ? 4 : 2);
  temperature = number(p.temperature, p.temperature_stride, 1.0);
  repetition = number(p.repetition, p.repetition_stride, 1.0);
  presence = number(p.presence, p.presence_stride, 0.0);
  frequency = number(p.frequency, p.frequency_stride, 0.0);
  const float top_p = number(p.top_p, p.top_p_stride, 1.0), min_p = number(p.min_p, p.min_p_stride, 0.0);
  const int top_k = p.top_k == uint64_t(0) ? 0 : I32Ref(p.top_k + uint64_t(row) * p.top_k_stride * 4).v;

  const float lowest = uintBitsToFloat(0xff800000u);
  float best = lowest;
  uint place = t;
  for (uint i = t; i < p.n; i += LOCAL) {
    const float z = z_of(i);
    place = z > best ? i : place;
    best = max(best, z);
  }
  largest(best, place);
  most = values[0];
  place = indices[0];
  float log_probability = 0.0;
  if (temperature > 0.0 && !isinf(most)) {  // alike in the whole workgroup
    if (top_k > 0 && uint(top_k) < p.n) limit(uint(top_k), 0.0);
    if (top_p < 1.0) {
      float total = 0.0;
      for (uint i = t; i < p.n; i += LOCAL) {
        const float z = z_of(i);
        total += ordered(z) >= least ? exp(z - most) : 0.0;
      }
      limit(max(uint(max(top_p, 0.0) * float(kOne)), 1u), sum_of_all(total));
    }
    if (min_p > 0.0) least = max(least, ordered(most + log(min(min_p, 1.0))));
    const Philox g = philox_begin(p.seed, p.offset, p.state);
    const uint quads = (p.n + 3u) / 4u;
    float total = 0.0;
    best = lowest;
    place = t;
    for (uint q = t; q < quads; q += LOCAL) {
      const uvec4 bits = philox_draw(g, uint64_t(row) * quads + q, 0u);
      for (uint j = 0u; j < 4u; ++j) {
        const uint i = 4u * q + j;
        const float z = i < p.n ? z_of(i) : lowest;
        if (ordered(z) < least || isinf(z)) continue;
        total += exp(z - most);
        // An exponential number: -log(1 - u), of small u by its series.
        const float u = (float(bits[j]) + 0.5) * (1.0 / 4294967296.0);
        const float e = u < 0.0009765625 ? u + 0.5 * u * u : -log(1.0 - u), noisy = z - log(max(e, 1e-38));
        place = noisy > best ? i : place;
        best = max(best, noisy);
      }
    }
    total = sum_of_all(total);
    barrier();  // the total was read
    largest(best, place);
    place = indices[0];
    log_probability = z_of(place) - most - log(total);
  }
  if (t == 0u) {
    I64Ref(p.token + uint64_t(row) * 8).v = int64_t(place);
    F32Ref(p.log_probability + uint64_t(row) * 4).v = log_probability;
  }
}
