// Specialization constants. `<Kernel>Spec` is generated for every shader (kernels_<family>.gen.h): its members are the
// shader's constants by name, in the order of their numbers, with the shader's defaults.
#pragma once
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

namespace aule {

// Members of such a struct, 32 bits each. A constant whose name ends in DTYPE takes a DType and no number.
struct SpecInt {
  int32_t value;
  constexpr SpecInt(std::integral auto v) : value(static_cast<int32_t>(v)) {}
};
struct SpecUint {
  uint32_t value;
  constexpr SpecUint(std::integral auto v) : value(static_cast<uint32_t>(v)) {}
};
struct SpecBool {
  uint32_t value;
  constexpr SpecBool(std::same_as<bool> auto v) : value(v ? 1u : 0u) {}
};
struct SpecDType {
  int32_t value;
  constexpr SpecDType(DType v) : value(static_cast<int32_t>(v)) {}
  static constexpr SpecDType of_code(int32_t code) {
    SpecDType result(DType::f32);
    result.value = code;
    return result;
  }
  static constexpr SpecDType none() { return of_code(-1); }  // no such operand
};
struct NoSpec {};  // a shader without constants

inline constexpr size_t kMaxSpecWords = 64;

// The constants as the pipeline takes them: word i is `constant_id = i`.
template <class Spec>
auto spec_words(const Spec& spec) {
  if constexpr (std::is_empty_v<Spec>) {
    return std::array<uint32_t, 0>{};
  } else {
    static_assert(sizeof(Spec) % 4 == 0 && sizeof(Spec) <= 4 * kMaxSpecWords);
    return std::bit_cast<std::array<uint32_t, sizeof(Spec) / 4>>(spec);
  }
}

}  // namespace aule
