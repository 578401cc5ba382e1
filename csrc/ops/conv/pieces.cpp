#include "ops/conv/pieces.h"

#include <ATen/ops/empty.h>

#include "kernels_matmul.gen.h"
#include "ops/matmul/route.h"
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
         linear_grid(ceil_div(static_cast<uint64_t>(rows) * static_cast<uint64_t>(padded / 4),
                              GemmBf16x3OperandParams::kLocal)));
  return out;
}

}  // namespace

at::Tensor pieces_of_channels(const at::Tensor& last, int products, Operand operand) {
  return pieces_of(last, products, operand, Along::channels);
}
at::Tensor pieces_of_images(const at::Tensor& last, int products, Operand operand) {
  return pieces_of(last, products, operand, Along::images);
}

}  // namespace aule::ops
