// Whole numbers: quotients and multiples rounded up, and narrower types that hold what they are given.
#pragma once
#include <concepts>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace aule {

// a / b rounded up, b > 0, in the common type of both: of 32 bits only where both are.
template <std::integral A, std::integral B>
constexpr auto ceil_div(A a, B b) {
  using T = std::common_type_t<A, B>;
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  return static_cast<T>(x / y + static_cast<T>(x % y > 0));
}

// The smallest multiple of b that is not less than a.
template <std::integral A, std::integral B>
constexpr auto round_up(A a, B b) {
  return static_cast<std::common_type_t<A, B>>(ceil_div(a, b) * static_cast<std::common_type_t<A, B>>(b));
}

// x as a To. Throws where a To cannot hold it.
template <std::integral To, std::integral From>
constexpr To narrow(From x) {
  if (!std::in_range<To>(x)) throw std::overflow_error("a size is too large for this operator");
  return static_cast<To>(x);
}

}  // namespace aule
