#include "ops/conv/pieces.h"

#include <ATen/ops/empty.h>

#include "kernels_matmul.gen.h"
#include "ops/matmul/kernels/bf16x3.h"
#include "ops/matmul/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

enum class Along : uint8_t { channels, images };

at::Tensor pieces_of(const at::Tensor& last, int products, Operand operand, Along along) {
  const int64_t channels = last.size(4), rows = last.numel() / channels,
                padded = round8(static_cast<uint32_t>(channels));
  const DType dtype = piece_dtype(overrides());
  std::vector<int64_t> sizes = last.sizes().vec();
  sizes[4] = padded;
  sizes[along == Along::channels ? 4 : 0] *= products;
  const at::Tensor out = at::empty(sizes, last.options().dtype(dtype == DType::f16 ? at::kHalf : at::kBFloat16));
  GemmBf16x3OperandParams p{};
  TensorArgs args;
  p.x = args.read(last);
  p.out_ = args.write(out);
  p.x_outer = channels;
  p.x_inner = 1;
  p.out_outer = along == Along::channels ? padded * products : padded;
  p.piece = along == Along::channels ? padded : rows * padded;
  p.outer = p.all_outer = static_cast<uint32_t>(rows);
  p.inner = static_cast<uint32_t>(channels);
  p.padded = static_cast<uint32_t>(padded);
  p.batches = 1;
  const int order = products == 1 ? 1 : operand == Operand::first ? 2 : 3;
  // channels_last() fills 16 bytes.
  launch(current(last), kernel::gemm_bf16x3_operand(), {.dtype = dtype, .pieces = order, .vec = 4}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(rows) * static_cast<uint64_t>(padded / 4), 256)));
  return out;
}

}  // namespace

int products_of_pieces(const at::Tensor& x, const ImplicitGemmSizes& sizes) {
  if (sizes.dtype != DType::f32 || sizes.groups != 1 || !may_take_bf16x3(caps_of(x))) return 0;
  const Float32Precision precision = asked_float32_precision().value_or(Float32Precision::highest);
  if (precision == Float32Precision::highest) return 0;
  const int products = precision == Float32Precision::high ? 3 : 1;
  ImplicitGemmSizes all = sizes;
  all.dtype = piece_dtype(overrides());
  all.images *= products;
  all.channels *= products;
  all.out_channels *= products;
  if (!implicit_gemm_takes(profile_of(x), all)) return 0;
  const MatrixUnits units = matrix_units(static_cast<int>(x.get_device()), all.dtype);
  const bool has_kernels = implicit_gemm_plan(profile_of(x), units, {all.dtype, false, 64, 64, 64, 64, 1}) &&
                           implicit_gemm_plan(profile_of(x), units, {all.dtype, true, 64, 64, 64, 64, 1});
  return has_kernels ? products : 0;
}

at::Tensor pieces_of_channels(const at::Tensor& last, int products, Operand operand) {
  return pieces_of(last, products, operand, Along::channels);
}
at::Tensor pieces_of_images(const at::Tensor& last, int products, Operand operand) {
  return pieces_of(last, products, operand, Along::images);
}

}  // namespace aule::ops
