#include "ops/conv/pieces.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "kernels_matmul.gen.h"
#include "ops/conv/channels_last.h"
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

at::Tensor largest_sizes(at::Tensor& x, at::Tensor& y, SharedOperand* shared) {
  constexpr uint32_t kGroups = 512, kElements = 4096;  // workgroups of a tensor at most; elements of one at least
  const at::Tensor largest = at::zeros({2}, x.options());
  const auto groups = [](const at::Tensor& t) {
    return static_cast<uint32_t>(std::min<int64_t>(kGroups, ceil_div(t.numel(), int64_t{kElements})));
  };
  // The tensor to read for `t`: its largest size alone, if another pass has found that.
  const auto source = [&](at::Tensor& t, int64_t which) {
    const bool is_shared = shared != nullptr && shared->is(t);
    if (is_shared && shared->largest.defined()) {
      t = shared->dense;
      return shared->largest;
    }
    if (!t.is_non_overlapping_and_dense()) t = t.contiguous();
    if (is_shared) {
      shared->dense = t;
      shared->largest = largest.narrow(0, which, 1);
    }
    return t;
  };
  const at::Tensor of_x = source(x, 0), of_y = source(y, 1);
  HalfLargestParams p{};
  TensorArgs args;
  p.x = args.read(of_x);
  p.y = args.read(of_y);
  p.out_ = args.write(largest);
  p.x_count = static_cast<uint64_t>(of_x.numel());
  p.y_count = static_cast<uint64_t>(of_y.numel());
  p.of_x = groups(of_x);
  p.of_y = groups(of_y);
  launch(current(x), kernel::half_largest(), {}, p, args, linear_grid(uint64_t{p.of_x} + p.of_y));
  return largest;
}

namespace {

at::Tensor scaled_halves(const at::Tensor& t, const at::Tensor& largest) {
  const auto scaled = [&](const at::Tensor& from, const at::Tensor& halves) {
    Rows all(from);
    all.p.largest = all.args.read(largest);
    all.launch_over(halves, DType::f16, 1, /*scaled=*/true);
  };
  // Half as many bytes are brought into order if they are halves already.
  constexpr int64_t kVec = 8;
  const bool is_last = t.movedim(1, -1).is_contiguous();
  if (!is_last && t.is_non_overlapping_and_dense() && t.numel() % kVec == 0 && address_of(t) % 16 == 0) {
    const at::Tensor halves = at::empty_strided(t.sizes(), t.strides(), t.options().dtype(at::kHalf));
    const std::array<int64_t, 5> sizes{t.numel() / kVec, 1, 1, 1, kVec}, strides{kVec, kVec, kVec, kVec, 1};
    scaled(t.as_strided(sizes, strides), halves);
    return channels_last(halves);
  }
  const at::Tensor last = channels_last(t);
  std::vector<int64_t> sizes = last.sizes().vec();
  sizes[4] = round8(static_cast<uint32_t>(last.size(4)));
  const at::Tensor halves = at::empty(sizes, last.options().dtype(at::kHalf));
  scaled(last, halves);
  return halves;
}

}  // namespace

at::Tensor scaled_halves(const at::Tensor& t, const at::Tensor& largest, SharedOperand* shared) {
  if (shared == nullptr || !shared->dense.is_same(t)) return scaled_halves(t, largest);
  if (!shared->halves.defined()) shared->halves = scaled_halves(t, largest);
  return shared->halves;
}

}  // namespace aule::ops
