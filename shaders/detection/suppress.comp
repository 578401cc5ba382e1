// Greedy suppression over the rows first_word * 32 to last_word * 32 of overlap_masks: a box that no kept box before it
// suppresses is kept, and suppresses those of its mask. removed[w] has the bits of boxes that were suppressed so far,
// keep[i] becomes 1 for a kept box, else 0. One workgroup: each word of 32 boxes is decided by all invocations alike,
// then they share the words behind it. Masks of a word are read before they are chosen from, so that loads overlap.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 256;
#include "common/indexing.glsl"
struct Params {
  uint64_t masks, removed, keep;
  uint n, words, first_word, last_word;
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer MaskRef { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer RemovedRef { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 1) writeonly buffer KeepRef { uint8_t v; };

uint mask_of(uint word, uint b, uint of) {
  const uint row = min(word * 32u + b, p.n - 1u) - p.first_word * 32u;
  return MaskRef(p.masks + (uint64_t(row) * uint64_t(p.words) + uint64_t(of)) * 4).v;
}

// The boxes of a word that are kept, in bits.
uint kept_of(uint word) {
  uint own[32];
  for (uint b = 0u; b < 32u; ++b) own[b] = mask_of(word, b, word);
  uint kept = ~RemovedRef(p.removed + uint64_t(word) * 4).v;
  if (p.n - word * 32u < 32u) kept &= (1u << (p.n - word * 32u)) - 1u;
  for (uint b = 0u; b < 32u; ++b)
    if ((kept >> b & 1u) != 0u) kept &= ~own[b];
  return kept;
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  for (uint word = p.first_word; word < p.last_word; ++word) {
    const uint kept = kept_of(word);
    for (uint b = lane; b < 32u; b += LOCAL)
      if (word * 32u + b < p.n) KeepRef(p.keep + uint64_t(word * 32u + b)).v = uint8_t(kept >> b & 1u);
    for (uint of = word + 1u + lane; of < p.words; of += LOCAL) {
      uint bits = 0u;
      for (uint b = 0u; b < 32u; ++b) {
        const uint mask = mask_of(word, b, of);
        bits |= (kept >> b & 1u) != 0u ? mask : 0u;
      }
      RemovedRef(p.removed + uint64_t(of) * 4).v |= bits;
    }
    memoryBarrierBuffer();
    barrier();  // removed[] before the next word
  }
}
