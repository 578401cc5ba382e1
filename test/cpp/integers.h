// Quotients and multiples rounded up, and narrower types: core/integer.h.
#pragma once
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "check.h"
#include "core/integer.h"

namespace aule {

template <class To, class From>
bool is_refused(From x) {
  try {
    narrow<To>(x);
  } catch (const std::overflow_error&) {
    return true;
  }
  return false;
}

inline void integers() {
  CHECK(ceil_div(7u, 2u) == 4 && ceil_div(8, 2) == 4 && ceil_div(0, 5) == 0 && ceil_div(1, 5) == 1);
  CHECK(ceil_div(-3, 2) == -1 && ceil_div(int64_t{-1}, 4) == 0);
  const uint64_t large = uint64_t{1} << 33;
  CHECK(ceil_div(large + 1, 2u) == large / 2 + 1);
  // The sum of both does not fit.
  CHECK(ceil_div(std::numeric_limits<uint32_t>::max(), 2u) == 1u << 31);
  CHECK(ceil_div(std::numeric_limits<int64_t>::max(), 4) == int64_t{1} << 61);
  static_assert(std::is_same_v<decltype(ceil_div(uint32_t{1}, 1)), uint32_t>);
  static_assert(std::is_same_v<decltype(ceil_div(int64_t{1}, uint32_t{1})), int64_t>);
  CHECK(round_up(13, 8) == 16 && round_up(16, 8) == 16 && round_up(large + 1, 4096) == large + 4096);
  CHECK(narrow<uint32_t>(large - 1 - (large >> 1)) == 4294967295u && is_refused<uint32_t>(large));
  CHECK(is_refused<uint32_t>(-1) && is_refused<int32_t>(4294967295u) && narrow<int32_t>(int64_t{-7}) == -7);
}

}  // namespace aule
