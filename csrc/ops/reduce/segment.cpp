#include "ops/reduce/segment.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/WrapDimUtils.h>

#include <bit>

#include "kernels_reduce.gen.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalScalar = std::optional<at::Scalar>;

enum class SegmentOp : int {
#define SEGMENT_OP(code, name) name = code,
#include "reduce/segment_ops.def"
#undef SEGMENT_OP
};
constexpr int64_t kLongSegment = 128;  // elements from which a workgroup owns a segment, on GPUs

SegmentOp segment_op(std::string_view reduce) {
  if (reduce == "sum") return SegmentOp::sum;
  if (reduce == "mean") return SegmentOp::mean;
  if (reduce == "max") return SegmentOp::max;
  if (reduce == "min") return SegmentOp::min;
  if (reduce == "prod") return SegmentOp::prod;
  TORCH_CHECK(false, "unsupported reduction given: ", reduce);
}

bool given(const OptionalTensor& t) { return t.has_value() && t->defined(); }

// Offsets as int64 [..., segments + 1]. Lengths are checked first unless `unsafe`, which reads from the device.
at::Tensor offsets_of(const OptionalTensor& lengths, const OptionalTensor& offsets, int64_t axis, int64_t size,
                      bool unsafe) {
  const bool by_offsets = given(offsets);
  TORCH_CHECK(by_offsets || given(lengths), "segment_reduce(): Either lengths or offsets must be defined.");
  const at::Tensor& t = by_offsets ? *offsets : *lengths;
  TORCH_CHECK(axis == t.dim() - 1, "segment_reduce(): Expected axis to be the last dimension of ",
              by_offsets ? "offsets" : "lengths", " but got ", axis, ".");
  if (by_offsets) return offsets->to(at::kLong).contiguous();
  const at::Tensor l = lengths->to(at::kLong);
  if (!unsafe && l.numel() > 0) {
    TORCH_CHECK(l.min().item<int64_t>() >= 0, "lengths contains negative value!");
    TORCH_CHECK(l.sum({-1}).eq(size).all().item<bool>(),
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe.");
  }
  std::vector<int64_t> one = l.sizes().vec();
  one.back() = 1;
  return at::cat({at::zeros(one, l.options()), at::cumsum(l, -1)}, -1).contiguous();
}

uint64_t bits_of(double x, DType c) {
  return c == DType::f64 ? std::bit_cast<uint64_t>(x) : uint64_t{std::bit_cast<uint32_t>(static_cast<float>(x))};
}

// Sizes, as both kernels take them.
template <class Params>
void fill_sizes(Params& p, TensorArgs& args, const at::Tensor& data, const at::Tensor& offsets, int64_t axis,
                const OptionalScalar& initial, double otherwise, DType c) {
  p.offsets = args.read(offsets);
  p.segments = static_cast<uint64_t>(offsets.size(-1) - 1);
  p.inner = 1;
  for (int64_t d = axis + 1; d < data.dim(); ++d) p.inner *= static_cast<uint64_t>(data.size(d));
  p.size = data.size(axis);
  p.initial = bits_of(initial ? initial->toDouble() : otherwise, c);
}

// `extremes` are the outputs that SegmentOp::count compares with.
void reduce_segments(SegmentOp op, const at::Tensor& data, const at::Tensor& offsets, int64_t axis,
                     const OptionalScalar& initial, const at::Tensor& extremes, const at::Tensor& out) {
  const DType dtype = dtype_of(data, "segment_reduce"), c = compute_type(dtype);
  const DeviceProfile& profile = profile_of(data);
  TensorArgs args;
  SegmentReduceParams p{};
  fill_sizes(p, args, data, offsets, axis, initial, 0.0, c);
  p.data = args.read(data);
  if (extremes.defined()) p.extremes = args.read(extremes);
  p.dst = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  const auto size = static_cast<uint64_t>(p.size);
  const bool is_long = !profile.is_software() && size >= kLongSegment * p.segments && p.inner <= 32;
  const bool by_group = is_long || !may_walk(profile, size);
  if (by_group) check_walk("segment_reduce", profile, size / SegmentReduceParams::kLocal + 8);
  launch(current(data), kernel::segment_reduce(c),
         {.dtype = dtype,
          .out_dtype = dtype_of(out, "segment_reduce"),
          .op = static_cast<int>(op),
          .by_group = by_group,
          .has_initial = initial.has_value()},
         p, args, linear_grid(by_group ? p.n : ceil_div(p.n, SegmentReduceParams::kLocal)));
}

void check_data(const at::Tensor& data) {
  check_floating("segment_reduce", data);
  TORCH_CHECK_NOT_IMPLEMENTED(
      supports(data.device().index(), kernel::segment_reduce(compute_type(dtype_of(data, "segment_reduce"))).id),
      "segment_reduce: this device has no float64 arithmetic");
}

}  // namespace

at::Tensor segment_reduce(const at::Tensor& data, std::string_view reduce, const OptionalTensor& lengths,
                          const OptionalTensor& indices, const OptionalTensor& offsets, int64_t axis, bool unsafe,
                          const OptionalScalar& initial) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(!given(indices), "segment_reduce(): indices based reduction is not supported yet.");
  const SegmentOp op = segment_op(reduce);
  check_data(data);
  const at::Tensor ends = offsets_of(lengths, offsets, axis, data.size(axis), unsafe);
  check_same_device("segment_reduce", {&data, &ends});
  std::vector<int64_t> shape = data.sizes().vec();
  shape[static_cast<size_t>(axis)] = std::max<int64_t>(ends.size(-1) - 1, 0);
  at::Tensor out = at::empty(shape, data.options());
  if (out.numel() > 0) reduce_segments(op, data.contiguous(), ends, axis, initial, {}, out);
  return out;
}

at::Tensor segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                                   std::string_view reduce, const OptionalTensor& lengths,
                                   const OptionalTensor& offsets, int64_t axis, const OptionalScalar& initial) {
  const SegmentOp op = segment_op(reduce);
  check_data(data);
  axis = at::maybe_wrap_dim(axis, data.dim());
  const at::Tensor ends = offsets_of(lengths, offsets, axis, data.size(axis), /*unsafe=*/true);
  check_same_device("_segment_reduce_backward", {&data, &grad, &output, &ends});
  at::Tensor result = at::empty(data.sizes(), data.options());
  if (data.numel() == 0) return result;
  if (output.numel() == 0) return result.zero_();
  const at::Tensor x = data.contiguous(), g = grad.contiguous(), y = output.contiguous();
  const DType dtype = dtype_of(data, "segment_reduce"), c = compute_type(dtype);
  at::Tensor counts;
  if (op == SegmentOp::max || op == SegmentOp::min) {
    counts = at::empty(y.sizes(), y.options().dtype(c == DType::f64 ? at::kDouble : at::kFloat));
    reduce_segments(SegmentOp::count, x, ends, axis, {}, y, counts);
  }
  if (op == SegmentOp::prod)
    check_walk("_segment_reduce_backward", profile_of(data), static_cast<uint64_t>(data.size(axis)));
  TensorArgs args;
  SegmentReduceBackwardParams p{};
  fill_sizes(p, args, x, ends, axis, initial, 1.0, c);
  p.data = args.read(x);
  p.grad = args.read(g);
  p.out_ = args.read(y);
  if (counts.defined()) p.counts = args.read(counts);
  p.dst = args.write(result);
  p.n = static_cast<uint64_t>(x.numel());
  launch(current(data), kernel::segment_reduce_backward(c), {.dtype = dtype, .op = static_cast<int>(op)}, p, args,
         linear_grid(ceil_div(p.n, SegmentReduceBackwardParams::kLocal)));
  return result;
}

}  // namespace aule::ops
