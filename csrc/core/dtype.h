// Our dtype enum, free of Torch. The codes are shared with GLSL through dtype_codes.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/dtype_codes.h"

namespace aule {

enum class DType : uint8_t {
  f32 = AULE_DT_F32,
  f16 = AULE_DT_F16,
  bf16 = AULE_DT_BF16,
  f64 = AULE_DT_F64,
  i8 = AULE_DT_I8,
  u8 = AULE_DT_U8,
  i16 = AULE_DT_I16,
  i32 = AULE_DT_I32,
  i64 = AULE_DT_I64,
  b8 = AULE_DT_BOOL,
  raw1 = AULE_DT_RAW1,
  raw2 = AULE_DT_RAW2,
  raw4 = AULE_DT_RAW4,
  raw8 = AULE_DT_RAW8,
  raw16 = AULE_DT_RAW16,
  c64 = AULE_DT_C64,
  c128 = AULE_DT_C128,
  c32 = AULE_DT_C32,
};

constexpr size_t dtype_size(DType t) {
  switch (t) {
    case DType::f32:
    case DType::i32:
    case DType::c32:
    case DType::raw4: return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::raw2: return 2;
    case DType::f64:
    case DType::i64:
    case DType::c64:
    case DType::raw8: return 8;
    case DType::c128:
    case DType::raw16: return 16;
    default: return 1;
  }
}
constexpr bool is_floating(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16 || t == DType::f64;
}
constexpr bool is_complex(DType t) { return t == DType::c64 || t == DType::c128 || t == DType::c32; }

}  // namespace aule
