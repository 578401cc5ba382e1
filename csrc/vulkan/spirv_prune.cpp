#include "vulkan/spirv_prune.h"

#include <unordered_map>

namespace aule::vulkan {
namespace {

// Instructions of the SPIR-V specification, section 3.42.
constexpr uint32_t kMagic = 0x07230203, kHeaderWords = 5;
constexpr uint32_t kOpSpecConstant = 50, kOpDecorate = 71, kOpSwitch = 251, kDecorationSpecId = 1;

}  // namespace

std::vector<uint32_t> prune_switches(const uint32_t* words, size_t word_count, const uint32_t* constants,
                                     size_t constant_count) {
  if (word_count < kHeaderWords || words[0] != kMagic) return {};
  std::unordered_map<uint32_t, uint32_t> spec_ids, values;  // result id -> constant_id, result id -> value
  std::vector<uint32_t> result(words, words + kHeaderWords);
  result.reserve(word_count);
  bool changed = false;
  for (size_t at = kHeaderWords; at < word_count;) {
    const uint32_t* instruction = words + at;
    const uint32_t length = instruction[0] >> 16, opcode = instruction[0] & 0xffffu;
    if (length == 0 || at + length > word_count) return {};
    at += length;
    if (opcode == kOpDecorate && length == 4 && instruction[2] == kDecorationSpecId) {
      spec_ids[instruction[1]] = instruction[3];
    } else if (opcode == kOpSpecConstant && length == 4) {
      const auto id = spec_ids.find(instruction[2]);
      const bool given = id != spec_ids.end() && id->second < constant_count;
      values[instruction[2]] = given ? constants[id->second] : instruction[3];
    } else if (opcode == kOpSwitch && length > 3 && length % 2 == 1) {
      const auto value = values.find(instruction[1]);
      if (value != values.end()) {
        uint32_t target = instruction[2];
        for (uint32_t i = 3; i + 1 < length; i += 2)
          if (instruction[i] == value->second) target = instruction[i + 1];
        result.insert(result.end(), {3u << 16 | kOpSwitch, instruction[1], target});
        changed = true;
        continue;
      }
    }
    result.insert(result.end(), instruction, instruction + length);
  }
  if (!changed) result.clear();
  return result;
}

}  // namespace aule::vulkan
