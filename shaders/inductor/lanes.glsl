// Blocks of 64 elements on lavapipe, 8 for each of a subgroup's lanes: their loads become vector loads
// (common/uniform.glsl; lanes.py of torch_aule/compile). `first` is the block's first element; bytes are an element's.
#include "common/uniform.glsl"

uint64_t word_step(bool by_words) { return by_words ? 64ul : 8ul; }
uint64_t lane_step(int bytes, bool by_words) { return by_words ? 8ul : uint64_t(8 * bytes); }

Words load_block(uint64_t base, uint64_t first, int bytes, bool by_words) {
  Words words;
  [[unroll]] for (int w = 0; w < 8; ++w) {
    if (w < bytes) {
      const uint64_t address = base + first * uint64_t(bytes) + word_step(by_words) * uint64_t(w);
      const uvec2 two = unpackUint2x32(load_lanes_64(address, lane_step(bytes, by_words)));
      words.w[2 * w] = two.x;
      words.w[2 * w + 1] = two.y;
    }
  }
  return words;
}

void store_block(uint64_t base, uint64_t first, int bytes, bool by_words, Words words) {
  const uint64_t lane = lane_step(bytes, by_words) * uint64_t(gl_SubgroupInvocationID);
  const uint64_t at = base + first * uint64_t(bytes) + lane;
  [[unroll]] for (int w = 0; w < 8; ++w)
    if (w < bytes)
      WordRef(at + word_step(by_words) * uint64_t(w)).v = packUint2x32(uvec2(words.w[2 * w], words.w[2 * w + 1]));
}

// Neighbouring lanes' pairs of 32-bit elements.
Words load_pairs(uint64_t address) {
  Words words;
  const uvec2 two = unpackUint2x32(load_lanes_64(address, 8ul));
  words.w[0] = two.x;
  words.w[1] = two.y;
  return words;
}
