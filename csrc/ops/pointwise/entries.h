// The entries of shaders/pointwise/*_ops.def as C++ constants: unary_entry::exp, binary_entry::add and so on.
#pragma once
#include <cstdint>

namespace aule::ops {

// The result's dtype, from the operands' dtypes.
enum class Rule : uint8_t {
  same,      // the common dtype that the operands promote to
  to_float,  // the same, but the default float dtype for integers
  to_bool,   // bool; the operands promote to a common dtype
};
// The arithmetic types that an entry has.
enum Arithmetic : uint8_t { kInFloat = 1, kInDouble = 2, kInInt = 4 };

struct Entry {
  const char* name;
  uint16_t id;
  uint8_t arity;
  Rule rule;
  uint8_t arithmetic;
  bool special = false;  // an entry of the kernel unary_special
};

namespace unary_entry {
#define UNARY_REAL(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 1, Rule::to_float, kInFloat | kInDouble};
#define UNARY_ANY(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 1, Rule::same, kInFloat | kInDouble | kInInt};
#define UNARY_INT(id, name, forms, ...) inline constexpr Entry name{#name, id, 1, Rule::same, kInInt};
#define UNARY_TEST(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 1, Rule::to_bool, kInFloat | kInDouble | kInInt};
#define UNARY_SPECIAL(id, name, forms, ...) inline constexpr Entry name{#name, id, 1, Rule::to_float, kInFloat, true};
#include "pointwise/unary_ops.def"
#undef UNARY_REAL
#undef UNARY_ANY
#undef UNARY_INT
#undef UNARY_TEST
#undef UNARY_SPECIAL
}  // namespace unary_entry

namespace binary_entry {
#define BINARY_FLOAT(id, name, forms, ...) inline constexpr Entry name{#name, id, 2, Rule::to_float, kInFloat};
#define BINARY_REAL(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 2, Rule::to_float, kInFloat | kInDouble};
#define BINARY_ANY(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 2, Rule::same, kInFloat | kInDouble | kInInt};
#define BINARY_INT(id, name, forms, ...) inline constexpr Entry name{#name, id, 2, Rule::same, kInInt};
#define BINARY_TEST(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 2, Rule::to_bool, kInFloat | kInDouble | kInInt};
#include "pointwise/binary_ops.def"
#undef BINARY_FLOAT
#undef BINARY_REAL
#undef BINARY_ANY
#undef BINARY_INT
#undef BINARY_TEST
}  // namespace binary_entry

namespace ternary_entry {
#define TERNARY_REAL(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 3, Rule::to_float, kInFloat | kInDouble};
#define TERNARY_ANY(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 3, Rule::same, kInFloat | kInDouble | kInInt};
#include "pointwise/ternary_ops.def"
#undef TERNARY_REAL
#undef TERNARY_ANY
}  // namespace ternary_entry

}  // namespace aule::ops
