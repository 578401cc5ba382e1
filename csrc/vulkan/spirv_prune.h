// Resolves `switch (SPECIALIZATION_CONSTANT)` before the driver sees it. A module that holds a row per op (the
// pointwise tables) would otherwise be parsed, inlined and optimised whole for every pipeline: 350 ms instead of 40 on
// lavapipe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aule::vulkan {

// The module with every such switch reduced to the one case that `constants` (constant_id i = element i) selects.
// Other cases stay as unreachable blocks. Empty when there is nothing to do or the module is not understood.
std::vector<uint32_t> prune_switches(const uint32_t* words, size_t word_count, const uint32_t* constants,
                                     size_t constant_count);

}  // namespace aule::vulkan
