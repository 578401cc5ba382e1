#include "ops/conv/pieces.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <limits>

#include "kernels_matmul.gen.h"
#include "ops/matmul/route.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

enum class Along : uint8_t { channels, images };

// Rows of channels, one after the other, as gemm_bf16x3_operand takes them.
struct Rows {
  GemmBf16x3OperandParams p{};
  TensorArgs args;
  int64_t rows, padded;

  explicit Rows(const at::Tensor& last)
      : rows(last.numel() / last.size(4)), padded(round8(static_cast<uint32_t>(last.size(4)))) {
    p.x = args.read(last);
    p.x_outer = last.size(4);
    p.x_inner = 1;
    p.out_outer = padded;
    p.outer = p.all_outer = static_cast<uint32_t>(rows);
    p.inner = static_cast<uint32_t>(last.size(4));
    p.padded = static_cast<uint32_t>(padded);
    p.batches = 1;
  }
  // channels_last() fills 16 bytes.
  void launch_over(const at::Tensor& out, DType dtype, int order, bool scaled) {
    p.out_ = args.write(out);
    launch(current(out), kernel::gemm_bf16x3_operand(), {.dtype = dtype, .pieces = order, .vec = 4, .scaled = scaled},
           p, args,
           linear_grid(ceil_div(static_cast<uint64_t>(rows) * static_cast<uint64_t>(padded / 4),
                                GemmBf16x3OperandParams::kLocal)));
  }
};

at::Tensor pieces_of(const at::Tensor& last, int products, Operand operand, Along along) {
  Rows all(last);
  const DType dtype = piece_dtype(overrides());
  std::vector<int64_t> sizes = last.sizes().vec();
  sizes[4] = all.padded;
  sizes[along == Along::channels ? 4 : 0] *= products;
  const at::Tensor out = at::empty(sizes, last.options().dtype(dtype == DType::f16 ? at::kHalf : at::kBFloat16));
  if (along == Along::channels) all.p.out_outer = all.padded * products;
  all.p.piece = along == Along::channels ? all.padded : all.rows * all.padded;
  all.launch_over(out, dtype, products == 1 ? 1 : operand == Operand::first ? 2 : 3, /*scaled=*/false);
  return out;
}

}  // namespace

at::Tensor pieces_of_channels(const at::Tensor& last, int products, Operand operand) {
  return pieces_of(last, products, operand, Along::channels);
}
at::Tensor pieces_of_images(const at::Tensor& last, int products, Operand operand) {
  return pieces_of(last, products, operand, Along::images);
}


ScaledHalves scaled_halves(const at::Tensor& last) {
  const at::Tensor largest = at::linalg_vector_norm(last, std::numeric_limits<double>::infinity());
  Rows all(last);
  std::vector<int64_t> sizes = last.sizes().vec();
  sizes[4] = all.padded;
  const at::Tensor halves = at::empty(sizes, last.options().dtype(at::kHalf));
  all.p.largest = all.args.read(largest);
  all.launch_over(halves, DType::f16, 1, /*scaled=*/true);
  return {halves, largest};
}

}  // namespace aule::ops
