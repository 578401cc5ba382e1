// A matrix product as planners and launchers see it: sizes, strides, dtypes, addresses. No tensor.
#pragma once
#include <cstdint>

#include "core/activation_codes.h"
#include "core/dtype.h"

namespace aule::ops {

// One operand: strides in elements. `row` runs along m (a, c, out) or k (b), `col` along k (a) or n.
struct MatrixView {
  uint64_t address = 0;
  int64_t batch = 0, row = 0, col = 0;
  MatrixView transposed() const { return {address, batch, col, row}; }
};

// The precision that torch.set_float32_matmul_precision allows a float32 product.
enum class Float32Precision : uint8_t { highest, high, medium };

enum class Activation : uint8_t {
  none = AULE_ACT_NONE,
  relu = AULE_ACT_RELU,
  gelu = AULE_ACT_GELU,
  gelu_tanh = AULE_ACT_GELU_TANH,
  silu = AULE_ACT_SILU,
};

// out = activate(alpha * a @ b + beta * c) + residual, for each batch.
struct GemmProblem {
  uint32_t batches = 1, m = 0, n = 0, k = 0;
  MatrixView a, b, c, out;
  DType in = DType::f32, result = DType::f32;
  bool has_c = false;
  bool alpha_is_one = true;
  Float32Precision precision = Float32Precision::highest;
  Activation activation = Activation::none;
  bool has_residual = false;
  uint64_t residual = 0;  // the address; it has the strides of out
  bool has_epilogue() const { return activation != Activation::none || has_residual; }
  // out^T = b^T a^T
  GemmProblem transposed() const {
    GemmProblem t = *this;
    t.m = n;
    t.n = m;
    t.a = b.transposed();
    t.b = a.transposed();
    t.c = c.transposed();
    t.out = out.transposed();
    return t;
  }
};

// 16-byte loads along the side of stride `unit` and extent `length`; `ld` leads across, along `count`.
inline bool loads_16_bytes(const MatrixView& v, int64_t unit, int64_t ld, uint32_t length, uint32_t count,
                           const GemmProblem& g) {
  const int64_t e = 16 / static_cast<int64_t>(dtype_size(g.in));
  return unit == 1 && length % e == 0 && (ld % e == 0 || count == 1) && (v.batch % e == 0 || g.batches == 1) &&
         v.address % 16 == 0;
}

}  // namespace aule::ops
