#include "ops/reduce/hash.h"

#include <ATen/WrapDimUtilsMulti.h>

#include <vector>

#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// Floating point numbers are the bits of their float64, integers those of their int64. Halves are combined until one
// row is left, so that log2 n launches read twice the elements.
at::Tensor& hash_tensor_out(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, int64_t mode, at::Tensor& out) {
  TORCH_CHECK(mode == 0, "Unknown hash_tensor mode: ", mode);
  TORCH_CHECK_NOT_IMPLEMENTED(has_dtype(self.scalar_type()) && !self.is_complex(), "hash_tensor: not implemented for ",
                              self.scalar_type(), " on device aule");
  TORCH_CHECK(out.scalar_type() == at::kUInt64, "hash_tensor: expected out of dtype ", at::kUInt64, ", but got ",
              out.scalar_type());
  const auto reduced =
      at::dim_list_to_bitset(dim.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dim), self.dim());
  std::vector<int64_t> order, shape;
  int64_t rows = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!reduced[static_cast<size_t>(d)]) continue;
    order.push_back(d);
    rows *= self.size(d);
  }
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!reduced[static_cast<size_t>(d)]) order.push_back(d);
    if (!reduced[static_cast<size_t>(d)] || keepdim)
      shape.push_back(reduced[static_cast<size_t>(d)] ? 1 : self.size(d));
  }
  at::native::resize_output(out, shape);
  if (out.numel() == 0) return out;
  TORCH_CHECK(rows > 0, "hash_tensor: expected reduced dimensions of non-zero size");
  const bool is_float = self.is_floating_point();
  at::Tensor bits =
      self.permute(order).to(is_float ? at::kDouble : at::kLong, /*non_blocking=*/false, /*copy=*/true).contiguous();
  if (is_float) bits = bits.view(at::kLong);
  bits = bits.view({rows, out.numel()});
  while (rows > 1) {
    const int64_t half = ceil_div(rows, 2);
    bits.narrow(0, 0, rows - half).bitwise_xor_(bits.narrow(0, half, rows - half));
    rows = half;
  }
  return hand_over(bits.select(0, 0).view(at::kUInt64).view(shape), out);
}

}  // namespace aule::ops
