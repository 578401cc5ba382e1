#include "ops/quantized/packed_mm.h"

#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/stack.h>

#include <array>

#include "ops/quantized/quantized.h"

namespace aule::ops {

at::Tensor weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales) {
  constexpr const char* kOp = "_weight_int8pack_mm";
  TORCH_CHECK(self.dim() == 2, kOp, ": expected self to be 2-D, but got ", self.dim(), "-D");
  TORCH_CHECK(mat2.scalar_type() == at::kChar && mat2.dim() == 2 && mat2.size(1) == self.size(1), kOp,
              ": expected mat2 to be [n, ", self.size(1), "] of Char, but got ", mat2.sizes(), " of ",
              mat2.scalar_type());
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == mat2.size(0), kOp, ": expected scales to have sizes [",
              mat2.size(0), "], but got ", scales.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(self.size(1) % 8 == 0, kOp, ": expected a multiple of 8 columns, but got ", self.size(1));
  const std::array<at::Tensor, 1> of_rows{scales};
  return quantized_linear(self, mat2.view(at::kByte), "int8", {}, of_rows, mat2.size(1));
}

// A word of a lane has the numbers of one row and of k = 2 j + 8 g + e, j that of the lane, in half e at place g.
namespace {

// Bytes of two numbers, the first of `dim` in the low half.
at::Tensor pairs(const at::Tensor& numbers, int64_t dim) {
  return numbers.select(dim, 0).bitwise_or(numbers.select(dim, 1).bitwise_left_shift(4));
}

}  // namespace

at::Tensor convert_weight_to_int4pack(const at::Tensor& weight, int64_t inner_k_tiles) {
  constexpr const char* kOp = "_convert_weight_to_int4pack";
  TORCH_CHECK(weight.dim() == 2 && weight.scalar_type() == at::kByte, kOp,
              ": expected weight to be 2-D of Byte, but got ", weight.dim(), "-D of ", weight.scalar_type());
  TORCH_CHECK(inner_k_tiles == 2 || inner_k_tiles == 4 || inner_k_tiles == 8, kOp,
              ": expected innerKTiles to be 2, 4 or 8, but got ", inner_k_tiles);
  const int64_t n = weight.size(0), k = weight.size(1) * 2, words = inner_k_tiles / 2;
  TORCH_CHECK(n % 8 == 0 && k % (16 * inner_k_tiles) == 0, kOp, ": expected a multiple of 8 rows and of ",
              8 * inner_k_tiles, " bytes in each, but got ", weight.sizes());
  const at::Tensor numbers = at::stack({weight.bitwise_right_shift(4), weight.bitwise_and(15)}, -1);
  // [tile of 8 rows, row, outer, word, g / 2, g % 2, j, e] -> [tile, outer, row, j, word, e, g / 2]
  const at::Tensor bytes = pairs(numbers.view({n / 8, 8, k / (16 * inner_k_tiles), words, 2, 2, 4, 2}), 5)
                               .permute({0, 2, 1, 5, 3, 6, 4})
                               .contiguous();
  return bytes.view({n / 8, k / (16 * inner_k_tiles), 32, words * 4}).view(at::kInt);
}

at::Tensor weight_int4pack_mm_tiles(const at::Tensor& self, const at::Tensor& mat2, int64_t group,
                                    const at::Tensor& scales_and_zeros) {
  constexpr const char* kOp = "_weight_int4pack_mm";
  TORCH_CHECK(mat2.scalar_type() == at::kInt && mat2.dim() == 4 && mat2.size(2) == 32 &&
                  (mat2.size(3) == 1 || mat2.size(3) == 2 || mat2.size(3) == 4),
              kOp, ": expected mat2 to be [n / 8, k / (16 * innerKTiles), 32, innerKTiles / 2] of Int, but got ",
              mat2.sizes(), " of ", mat2.scalar_type());
  const int64_t outer = mat2.size(1), words = mat2.size(3), n = mat2.size(0) * 8, k = outer * words * 32;
  TORCH_CHECK(self.dim() == 2 && self.size(1) == k, kOp, ": expected self to be [m, ", k, "], but got ", self.sizes());
  TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256, kOp,
              ": expected groups of 32, 64, 128 or 256, but got ", group);
  TORCH_CHECK(k % group == 0 && scales_and_zeros.dim() == 3 && scales_and_zeros.size(0) == k / group &&
                  scales_and_zeros.size(1) == n && scales_and_zeros.size(2) == 2,
              kOp, ": expected scales and zeros to be [", k / group, ", ", n, ", 2], but got ",
              scales_and_zeros.sizes());
  // [tile, outer, row, j, word, e, g / 2] -> [tile, row, outer, word, g / 2, g % 2, j, e]
  const at::Tensor bytes =
      mat2.contiguous().view(at::kByte).view({n / 8, outer, 8, 4, words, 2, 2}).permute({0, 2, 1, 4, 6, 3, 5});
  const at::Tensor numbers = at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, 5);
  const at::Tensor rows = pairs(numbers, 7).reshape({n, k / 2});
  const std::array<at::Tensor, 2> of_groups{scales_and_zeros.select(2, 0).t(), scales_and_zeros.select(2, 1).t()};
  return quantized_linear(self, rows, "int4_offset", {}, of_groups, group);
}

at::Tensor weight_int4pack_mm(const at::Tensor& self, const at::Tensor& mat2, int64_t group, const at::Tensor& scales,
                              const at::Tensor& zeros) {
  constexpr const char* kOp = "_weight_int4pack_mm_with_scales_and_zeros";
  TORCH_CHECK(self.dim() == 2, kOp, ": expected self to be 2-D, but got ", self.dim(), "-D");
  const int64_t k = self.size(1);
  TORCH_CHECK(mat2.scalar_type() == at::kInt && mat2.dim() == 2 && mat2.size(1) * 8 == k, kOp,
              ": expected mat2 to be [n, ", k, " / 8] of Int, but got ", mat2.sizes(), " of ", mat2.scalar_type());
  TORCH_CHECK(group > 0 && k % group == 0, kOp, ": expected groups that divide ", k, ", but got ", group);
  for (const at::Tensor* t : {&scales, &zeros})
    TORCH_CHECK(t->dim() == 2 && t->size(0) == k / group && t->size(1) == mat2.size(0), kOp,
                ": expected scales and zeros to be [", k / group, ", ", mat2.size(0), "], but got ", t->sizes());
  const std::array<at::Tensor, 2> of_groups{scales.t(), zeros.t()};
  return quantized_linear(self, mat2.view(at::kByte), "int4", {}, of_groups, group);
}

}  // namespace aule::ops
