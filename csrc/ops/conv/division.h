// Divisions that kernels make by multiplication (shaders/conv/division.glsl).
#pragma once
#include <bit>
#include <cstdint>

namespace aule::ops {

// floor(n / d) = (high word of n * factor + n) >> shift for n below 2^31.
inline void set_division(uint32_t (&by)[2], uint32_t d) {
  const auto shift = static_cast<uint32_t>(std::bit_width(d - 1));
  by[0] = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  by[1] = shift;
}

}  // namespace aule::ops
