// Resolves `switch (SPECIALIZATION_CONSTANT)` before the driver compiles. Else the driver would parse, inline and
// optimise a module with one case per op (the pointwise tables) whole for every pipeline: 350 ms instead of 40 on
// lavapipe 22.3.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aule::vulkan {

// The module with every such switch reduced to the one case that `constants` (constant_id i = element i) selects.
// Other cases stay as unreachable blocks. Empty if there is no such switch or the module has an unknown form.
std::vector<uint32_t> prune_switches(const uint32_t* words, size_t word_count, const uint32_t* constants,
                                     size_t constant_count);

}  // namespace aule::vulkan
