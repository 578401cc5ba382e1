// The rows of shaders/pointwise/*_ops.def as C++ constants: unary_row::exp, binary_row::add, ternary_row::lerp.
#pragma once
#include <cstdint>

namespace aule::ops {

// How dtypes of operands and result relate.
enum class Rule : uint8_t {
  same,      // promote to a common dtype, result has it
  to_float,  // the same, integers to the default float dtype
  to_bool,   // promote to a common dtype, result bool
};
// Which arithmetic a row has.
enum Arithmetic : uint8_t { kInFloat = 1, kInDouble = 2, kInInt = 4 };

struct Row {
  const char* name;
  uint16_t id;
  uint8_t arity;
  Rule rule;
  uint8_t arithmetic;
  bool special = false;  // lives in unary_special
};

namespace unary_row {
#define UNARY_REAL(id, name, forms, ...) inline constexpr Row name{#name, id, 1, Rule::to_float, kInFloat | kInDouble};
#define UNARY_ANY(id, name, forms, ...) \
  inline constexpr Row name{#name, id, 1, Rule::same, kInFloat | kInDouble | kInInt};
#define UNARY_INT(id, name, forms, ...) inline constexpr Row name{#name, id, 1, Rule::same, kInInt};
#define UNARY_TEST(id, name, forms, ...) \
  inline constexpr Row name{#name, id, 1, Rule::to_bool, kInFloat | kInDouble | kInInt};
#define UNARY_SPECIAL(id, name, forms, ...) inline constexpr Row name{#name, id, 1, Rule::to_float, kInFloat, true};
#include "pointwise/unary_ops.def"
#undef UNARY_REAL
#undef UNARY_ANY
#undef UNARY_INT
#undef UNARY_TEST
#undef UNARY_SPECIAL
}  // namespace unary_row

namespace binary_row {
#define BINARY_FLOAT(id, name, forms, ...) inline constexpr Row name{#name, id, 2, Rule::to_float, kInFloat};
#define BINARY_REAL(id, name, forms, ...) inline constexpr Row name{#name, id, 2, Rule::to_float, kInFloat | kInDouble};
#define BINARY_ANY(id, name, forms, ...) \
  inline constexpr Row name{#name, id, 2, Rule::same, kInFloat | kInDouble | kInInt};
#define BINARY_INT(id, name, forms, ...) inline constexpr Row name{#name, id, 2, Rule::same, kInInt};
#define BINARY_TEST(id, name, forms, ...) \
  inline constexpr Row name{#name, id, 2, Rule::to_bool, kInFloat | kInDouble | kInInt};
#include "pointwise/binary_ops.def"
#undef BINARY_FLOAT
#undef BINARY_REAL
#undef BINARY_ANY
#undef BINARY_INT
#undef BINARY_TEST
}  // namespace binary_row

namespace ternary_row {
#define TERNARY_REAL(id, name, forms, ...) \
  inline constexpr Row name{#name, id, 3, Rule::to_float, kInFloat | kInDouble};
#define TERNARY_ANY(id, name, forms, ...) \
  inline constexpr Row name{#name, id, 3, Rule::same, kInFloat | kInDouble | kInInt};
#include "pointwise/ternary_ops.def"
#undef TERNARY_REAL
#undef TERNARY_ANY
}  // namespace ternary_row

}  // namespace aule::ops
