#include "ops/nested/jagged.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "kernels_nested.gen.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

at::Tensor single_offsets(const char* op, at::TensorList offsets, const at::Tensor& data) {
  TORCH_CHECK_NOT_IMPLEMENTED(offsets.size() == 1, op, ": expected one jagged dimension, but got ", offsets.size());
  const at::Tensor& t = offsets[0];
  TORCH_CHECK(t.dim() == 1 && t.numel() > 0 && (t.scalar_type() == at::kLong || t.scalar_type() == at::kInt), op,
              ": expected offsets to be 1-D of Long or Int, with an element at least, but got ", t.dim(), "-D of ",
              t.scalar_type());
  check_same_device(op, {&data, &t});
  return t.to(at::kLong).contiguous();
}

void move(const at::Tensor& src, const at::Tensor& ends, int64_t rows, int64_t length, double padding, bool to_jagged,
          const at::Tensor& dst) {
  if (dst.numel() == 0) return;
  const bool is_empty = src.numel() == 0 || ends.size(0) < 2;
  if (to_jagged && is_empty) {
    dst.zero_();
    return;
  }
  if (is_empty) {
    dst.fill_(padding);
    return;
  }
  at::Tensor pad;
  TensorArgs args;
  JaggedPaddedParams p{};
  p.src = args.read(src);
  p.offsets = args.read(ends);
  if (!to_jagged) {
    pad = at::full({1}, padding, dst.options());
    p.padding = args.read(pad);
  }
  p.dst = args.write(dst);
  p.n = static_cast<uint64_t>(dst.numel());
  p.rows = static_cast<uint64_t>(rows);
  p.extent = static_cast<uint64_t>(length);
  p.inner = static_cast<uint64_t>(dst.size(-1));
  p.batches = static_cast<uint32_t>(ends.size(0) - 1);
  launch(current(dst), kernel::jagged_padded(), {.dtype = raw_dtype_of(dst), .to_jagged = to_jagged}, p, args,
         linear_grid(ceil_div(p.n, JaggedPaddedParams::kLocal)));
}

}  // namespace

at::Tensor jagged_to_padded_dense(const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
                                  double padding_value) {
  const char* op = "_jagged_to_padded_dense_forward";
  const at::Tensor ends = single_offsets(op, offsets, values);
  TORCH_CHECK(values.dim() == 2, op, ": expected values to be 2-D, but got ", values.dim(), "-D");
  TORCH_CHECK(max_lengths.size() == 1 && max_lengths[0] >= 0, op, ": expected one maximal length, but got ",
              max_lengths);
  at::Tensor out = at::empty({ends.size(0) - 1, max_lengths[0], values.size(1)}, values.options());
  move(values.contiguous(), ends, values.size(0), max_lengths[0], padding_value, false, out);
  return out;
}

at::Tensor padded_dense_to_jagged(const at::Tensor& dense, at::TensorList offsets, std::optional<int64_t> rows) {
  const char* op = "_padded_dense_to_jagged_forward";
  const at::Tensor ends = single_offsets(op, offsets, dense);
  TORCH_CHECK(dense.dim() == 3, op, ": expected dense to be 3-D, but got ", dense.dim(), "-D");
  TORCH_CHECK(dense.size(0) == ends.size(0) - 1, op, ": expected ", dense.size(0) + 1, " offsets, but got ",
              ends.size(0));
  const int64_t total = rows.has_value() ? *rows : ends.select(0, -1).item<int64_t>();
  at::Tensor out = at::empty({total, dense.size(2)}, dense.options());
  move(dense.contiguous(), ends, total, dense.size(1), 0.0, true, out);
  return out;
}

}  // namespace aule::ops
