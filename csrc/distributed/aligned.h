// Sizes rounded up.
#pragma once
#include <cstdint>

namespace aule::distributed {

constexpr int64_t aligned(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace aule::distributed
