// Codes for kernels that move bits and know only how many bytes an element has.
#pragma once
#include <cstddef>

#include "core/dtype.h"

namespace aule {

// `bytes` is 1, 2, 4, 8 or 16.
constexpr DType raw_dtype(size_t bytes) {
  switch (bytes) {
    case 1: return DType::raw1;
    case 2: return DType::raw2;
    case 4: return DType::raw4;
    case 8: return DType::raw8;
    default: return DType::raw16;
  }
}

}  // namespace aule
