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

// Whether an entry has complex arithmetic, by a row of complex_ops.def: in the kernels that all share, or in those of
// long functions.
enum class Complex : uint8_t { none, common, special };
constexpr Complex complex_of(int arity, int id) {
#define COMPLEX_UNARY(number, ...) \
  if (arity == 1 && id == number) return Complex::common;
#define COMPLEX_UNARY_SPECIAL(number, ...) \
  if (arity == 1 && id == number) return Complex::special;
#define COMPLEX_BINARY(number, ...) \
  if (arity == 2 && id == number) return Complex::common;
#define COMPLEX_BINARY_SPECIAL(number, ...) \
  if (arity == 2 && id == number) return Complex::special;
#define COMPLEX_TERNARY(number, ...) \
  if (arity == 3 && id == number) return Complex::common;
#include "pointwise/complex_ops.def"
#undef COMPLEX_UNARY
#undef COMPLEX_UNARY_SPECIAL
#undef COMPLEX_BINARY
#undef COMPLEX_BINARY_SPECIAL
#undef COMPLEX_TERNARY
  return Complex::none;
}

struct Entry {
  const char* name;
  uint16_t id;
  uint8_t arity;
  Rule rule;
  uint8_t arithmetic;
  bool special = false;  // an entry of unary_special or binary_special
  Complex complex = complex_of(arity, id);
};

namespace unary_entry {
#define UNARY_REAL(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 1, Rule::to_float, kInFloat | kInDouble};
#define UNARY_ANY(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 1, Rule::same, kInFloat | kInDouble | kInInt};
#define UNARY_INT(id, name, forms, ...) inline constexpr Entry name{#name, id, 1, Rule::same, kInInt};
#define UNARY_TEST(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 1, Rule::to_bool, kInFloat | kInDouble | kInInt};
#define UNARY_SPECIAL(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 1, Rule::to_float, kInFloat | kInDouble, true};
#include "pointwise/unary_ops.def"
#undef UNARY_REAL
#undef UNARY_ANY
#undef UNARY_INT
#undef UNARY_TEST
#undef UNARY_SPECIAL
}  // namespace unary_entry

namespace binary_entry {
#define BINARY_REAL(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 2, Rule::to_float, kInFloat | kInDouble};
#define BINARY_ANY(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 2, Rule::same, kInFloat | kInDouble | kInInt};
#define BINARY_INT(id, name, forms, ...) inline constexpr Entry name{#name, id, 2, Rule::same, kInInt};
#define BINARY_TEST(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 2, Rule::to_bool, kInFloat | kInDouble | kInInt};
#define BINARY_SPECIAL(id, name, forms, ...) \
  inline constexpr Entry name{#name, id, 2, Rule::to_float, kInFloat | kInDouble, true};
#include "pointwise/binary_ops.def"
#undef BINARY_SPECIAL
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
