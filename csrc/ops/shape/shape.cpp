#include "ops/shape/shape.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorShape.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_chunk_cat_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/zeros.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include "kernels_shape.gen.h"
#include "ops/copy/kernels.h"
#include "ops/copy/many.h"
#include "ops/tensor/complex_parts.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"
#include "ops/tensor/unfilled.h"

namespace aule::ops {

namespace {

// The result of torch.cat, before it has memory.
struct Joined {
  c10::SmallVector<const at::Tensor*, 8> parts;  // without vectors that have no elements: these may have any partner
  at::ScalarType dtype = at::kFloat;
  int64_t dim = 0;
  at::DimVector shape;
};

Joined joined_from(const at::ITensorListRef& list, const at::MaterializedITensorListRef& tensors, int64_t dim) {
  TORCH_CHECK(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  Joined result;
  result.dtype = at::native::result_type(list);
  for (const at::Tensor& t : tensors) {
    TORCH_CHECK(t.dim() > 0, "zero-dimensional tensor cannot be concatenated");
    if (t.dim() != 1 || t.size(0) != 0) result.parts.push_back(&t);
  }
  if (result.parts.empty()) {
    result.shape = {0};
    return result;
  }
  const at::Tensor& first = *result.parts[0];
  result.dim = dim = at::maybe_wrap_dim(dim, first.dim());
  result.shape = first.sizes();
  result.shape[dim] = 0;
  for (const at::Tensor* t : result.parts) {
    TORCH_CHECK(t->dim() == first.dim(), "Tensors must have same number of dimensions: got ", first.dim(), " and ",
                t->dim());
    for (int64_t d = 0; d < t->dim(); ++d)
      TORCH_CHECK(d == dim || t->size(d) == first.size(d), "Sizes of tensors must match except in dimension ", dim,
                  ". Expected size ", first.size(d), " but got size ", t->size(d), " for a tensor in the list.");
    result.shape[dim] += t->size(dim);
  }
  return result;
}

// Strided copies, which may convert dtypes.
void join(const Joined& joined, const at::Tensor& out) {
  ManyCopies copies(out.device());
  int64_t offset = 0;
  for (const at::Tensor* t : joined.parts) {
    const int64_t length = t->size(joined.dim);
    if (t->numel() > 0) copies.add_part(out, offset, *t);
    offset += length * out.stride(joined.dim);
  }
  copies.run();
}

// Of torch.cat without `out`: that of the tensors, if they agree.
at::MemoryFormat common_format(const at::MaterializedITensorListRef& tensors) {
  const at::MemoryFormat format = tensors[0].get().suggest_memory_format();
  for (const at::Tensor& t : tensors)
    if (t.suggest_memory_format() != format) return at::MemoryFormat::Contiguous;
  return format;
}

}  // namespace

at::Tensor& cat_out(const at::ITensorListRef& list, int64_t dim, at::Tensor& out) {
  const auto tensors = list.materialize();
  for (const at::Tensor& t : tensors) check_same_device("cat", {&out, &t});
  const Joined joined = joined_from(list, tensors, dim);
  TORCH_CHECK(at::canCast(joined.dtype, out.scalar_type()),
              "torch.cat(): input types can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, joined.shape);
  if (joined.parts.empty()) return out;
  at::assert_no_internal_overlap(out);
  for (const at::Tensor* t : joined.parts) at::assert_no_overlap(out, *t);
  join(joined, out);
  return out;
}

at::Tensor cat(const at::ITensorListRef& list, int64_t dim) {
  const auto tensors = list.materialize();
  const Joined joined = joined_from(list, tensors, dim);
  const at::Tensor* on_device = nullptr;
  for (const at::Tensor& t : tensors)
    if (t.device().is_privateuseone()) on_device = &t;
  for (const at::Tensor& t : tensors) check_same_device("cat", {on_device, &t});
  const at::Tensor out = unfilled(joined.shape, joined.dtype, common_format(tensors));
  join(joined, out);
  return out;
}

at::Tensor chunk_cat(at::TensorList tensors, int64_t dim, int64_t num_chunks) {
  TORCH_CHECK(!tensors.empty(), "_chunk_cat expects a non-empty input tensor list");
  at::Tensor out = at::empty({0}, tensors[0].options().memory_format(at::MemoryFormat::Contiguous));
  return chunk_cat_out(tensors, dim, num_chunks, out);
}

// A tensor, of `row` elements from `dim` on, is padded with zeros to num_chunks rows of `width`, which are columns of
// the result: for each index before `dim` whole rows, the rest of one, and zeros.
at::Tensor& chunk_cat_out(at::TensorList tensors, int64_t dim, int64_t num_chunks, at::Tensor& out) {
  const char* op = "_chunk_cat";
  dim = at::native::preprocess_chunk_cat_inputs(tensors, dim, num_chunks);
  TORCH_CHECK(at::canCast(tensors[0].scalar_type(), out.scalar_type()), op, ": ", tensors[0].scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  const bool same = same_bits(out.scalar_type(), tensors[0].scalar_type());
  if (!same && !(has_dtype(out.scalar_type()) && has_dtype(tensors[0].scalar_type())))
    return at::compositeexplicitautograd::_chunk_cat_outf(tensors, dim, num_chunks, out);
  const DType dst_dtype = same ? raw_dtype_of(out) : dtype_of(out, op);
  const DType src_dtype = same ? dst_dtype : dtype_of(tensors[0], op);
  const auto width_of = [&](const at::Tensor& t) {
    return ceil_div(t.size(dim), num_chunks) * c10::multiply_integers(t.sizes().slice(dim + 1));
  };
  int64_t total = 0;
  for (const at::Tensor& t : tensors) total += width_of(t);
  at::DimVector shape(tensors[0].sizes().slice(0, dim));
  const int64_t lead = c10::multiply_integers(shape);
  shape.push_back(num_chunks);
  shape.push_back(total);
  at::native::resize_output(out, shape);
  at::assert_no_internal_overlap(out);
  for (const at::Tensor& t : tensors) at::assert_no_overlap(out, t);
  if (!out.is_contiguous() || out.is_conj() || out.is_neg()) return hand_over(chunk_cat(tensors, dim, num_chunks), out);

  ManyCopies copies(out.device());
  std::vector<at::Tensor> kept;  // until the copies are recorded
  uint64_t to = address_of(out);
  for (const at::Tensor& tensor : tensors) {
    kept.push_back(tensor.contiguous().resolve_conj().resolve_neg());
    const int64_t width = width_of(tensor), row = tensor.numel() / lead;
    const int64_t rows = row / width, rest = row % width;
    const uint64_t from = address_of(kept.back());
    const auto add = [&](int64_t first_row, int64_t column, int64_t n_rows, int64_t columns, bool zeros) {
      if (n_rows == 0 || columns == 0) return;
      StridedShape<2> block;
      block.push(columns, {1, 1});
      block.push(n_rows, {total, width});
      block.push(lead, {num_chunks * total, row});
      block.normalize();
      copies.add(to + static_cast<uint64_t>(first_row * total + column) * dtype_size(dst_dtype), dst_dtype,
                 zeros ? 0 : from + static_cast<uint64_t>(first_row * width + column) * dtype_size(src_dtype),
                 src_dtype, block);
    };
    add(0, 0, rows, width, false);
    if (rest > 0) {
      add(rows, 0, 1, rest, false);
      add(rows, rest, 1, width - rest, true);
    }
    const int64_t filled = rows + (rest > 0 ? 1 : 0);
    add(filled, 0, num_chunks - filled, width, true);
    to += static_cast<uint64_t>(width) * dtype_size(dst_dtype);
  }
  copies.run();
  return out;
}

namespace {

struct Dim {
  int64_t size, src_stride, dst_stride, shift;
};

struct Rearrangement {
  at::DimVector shift = {};
  at::DimVector flipped = {};
  int triangle = 0;
  int64_t diagonal = 0;
};

// True if both sides step from the inner to the outer dimension alike and neither wraps. The two then are one
// dimension.
bool mergeable(const Dim& outer, const Dim& inner) {
  return outer.shift == 0 && inner.shift == 0 && outer.src_stride == inner.src_stride * inner.size &&
         outer.dst_stride == inner.dst_stride * inner.size;
}

void rearrange(const char* op, const at::Tensor& self, const at::Tensor& out, const Rearrangement& how) {
  if (out.numel() == 0) return;
  TORCH_CHECK(self.numel() <= std::numeric_limits<uint32_t>::max(), op,
              ": more than 2^32 - 1 elements are not supported on aule");
  auto& stream = current(out);
  TensorArgs args;
  RearrangeParams p{};
  constexpr size_t kMaxDims = sizeof(p.size) / sizeof(p.size[0]);
  p.src = args.read(self);
  p.dst = args.write(out);
  p.n = static_cast<uint32_t>(self.numel());
  c10::SmallVector<Dim, kMaxDims> dims;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const bool in_triangle = how.triangle != 0 && d >= self.dim() - 2;
    Dim dim{self.size(d), self.stride(d), out.stride(d), how.shift.empty() ? 0 : how.shift[d]};
    if (!how.flipped.empty() && how.flipped[d] != 0) {
      p.src += static_cast<uint64_t>((dim.size - 1) * dim.src_stride) * self.element_size();
      dim.src_stride = -dim.src_stride;
    }
    if (dim.size == 1 && !in_triangle) continue;
    if (!dims.empty() && !in_triangle && mergeable(dims.back(), dim)) {
      dims.back() = {dims.back().size * dim.size, dim.src_stride, dim.dst_stride, 0};
    } else {
      dims.push_back(dim);
    }
  }
  TORCH_CHECK(dims.size() <= kMaxDims, op, ": more than ", kMaxDims,
              " dimensions that cannot be merged are not supported on aule");
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  for (size_t d = 0; d < dims.size(); ++d) {
    TORCH_CHECK(std::abs(dims[d].src_stride) <= kLimit && std::abs(dims[d].dst_stride) <= kLimit, op,
                ": strides of more than 2^31 - 1 elements are not supported on aule");
    p.size[d] = static_cast<uint32_t>(dims[d].size);
    p.src_stride[d] = static_cast<int32_t>(dims[d].src_stride);
    p.dst_stride[d] = static_cast<int32_t>(dims[d].dst_stride);
    p.shift[d] = static_cast<uint32_t>(dims[d].shift);
  }
  p.diagonal = static_cast<int32_t>(std::clamp(how.diagonal, -kLimit, kLimit));
  launch(stream, kernel::rearrange(),
         {.dtype = raw_dtype_of(self), .ndim = static_cast<uint32_t>(dims.size()), .triangle = how.triangle}, p, args,
         linear_grid(ceil_div(p.n, RearrangeParams::kLocal)));
}

at::Tensor& triangle_out(const char* op, const at::Tensor& self, int64_t diagonal, int triangle, at::Tensor& out) {
  TORCH_CHECK(self.dim() >= 2, op, ": input tensor must have at least 2 dimensions");
  check_same_device(op, {&self, &out});
  at::native::resize_output(out, self.sizes());
  at::assert_no_internal_overlap(out);
  // The op may be in place, element by element, but `out` may not be another view of the same memory.
  at::assert_no_partial_overlap(out, self);
  if (out.scalar_type() == self.scalar_type()) {
    rearrange(op, self, out, {{}, {}, triangle, diagonal});
  } else {
    at::Tensor same = at::empty_like(self);
    rearrange(op, self, same, {{}, {}, triangle, diagonal});
    out.copy_(same);
  }
  return out;
}

}  // namespace

at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, int64_t start, int64_t length, at::Tensor& out) {
  return hand_over(self.narrow(dim, start, length), out);
}
at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  const char* op = "channel_shuffle";
  TORCH_CHECK(self.dim() > 2, op, " expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  const int64_t channels = self.size(1), of_group = channels / groups;
  TORCH_CHECK(channels % groups == 0, "Number of channels must be divisible by groups. Got ", channels,
              " channels and ", groups, " groups.");
  at::Tensor out = at::empty(self.sizes(), self.options(), self.suggest_memory_format());
  if (out.numel() > 0)
    out.unflatten(1, {of_group, groups}).copy_(self.unflatten(1, {groups, of_group}).transpose(1, 2));
  return out;
}
at::Tensor& tril_out(const at::Tensor& self, int64_t diagonal, at::Tensor& out) {
  return triangle_out("tril", self, diagonal, 1, out);
}
at::Tensor& triu_out(const at::Tensor& self, int64_t diagonal, at::Tensor& out) {
  return triangle_out("triu", self, diagonal, 2, out);
}

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  const auto mask = at::dim_list_to_bitset(dims, self.dim());
  at::Tensor out = at::empty_like(self, at::MemoryFormat::Preserve);
  Rearrangement how;
  for (int64_t d = 0; d < self.dim(); ++d) how.flipped.push_back(mask[d] ? 1 : 0);
  rearrange("flip", self, out, how);
  return out;
}

at::Tensor roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    if (self.numel() == 0) return self.clone(at::MemoryFormat::Preserve);
    const at::Tensor flat = self.contiguous().view(self.numel());
    return ops::roll(flat, shifts, 0).view(self.sizes());
  }
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  if (self.numel() == 0) return at::empty_like(self, at::MemoryFormat::Preserve);
  // Contiguous, as on the CPU and CUDA. Else contiguous() would later copy, and its result would be no view.
  at::Tensor out = at::empty(self.sizes(), self.options().memory_format(std::nullopt));
  Rearrangement how;
  how.shift.assign(self.dim(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = at::maybe_wrap_dim(dims[i], self.dim());
    // dst[c] = src[c - shift]
    const int64_t size = self.size(d);
    how.shift[d] = (((how.shift[d] - shifts[i]) % size) + size) % size;
  }
  rearrange("roll", self, out, how);
  return out;
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  const char* op = "repeat_interleave";
  TORCH_CHECK(repeats.dim() == 1, op, " only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt, op,
              ": repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return at::empty_like(repeats);
  const at::Tensor sums = at::cumsum(repeats, 0, at::kLong);
  int64_t n;
  if (output_size.has_value()) {
    n = *output_size;
  } else {
    // The result's size is a host value, so this waits, and the check costs nothing more.
    TORCH_CHECK(at::min(repeats).item<int64_t>() >= 0, op, ": repeats can not be negative");
    n = sums.select(0, -1).item<int64_t>();
  }
  at::Tensor out = at::empty({n}, repeats.options());
  if (n == 0) return out;
  auto& stream = current(repeats);
  TensorArgs args;
  RepeatInterleaveParams p{};
  p.sums = args.read(sums);
  p.dst = args.write(out);
  p.error = error_address(stream);
  p.n = static_cast<uint64_t>(n);
  p.count = static_cast<uint32_t>(repeats.numel());
  p.tag = error_tag(op);
  launch(stream, kernel::repeat_interleave(), {.dtype = dtype_of(out, op)}, p, args,
         linear_grid(ceil_div(p.n, RepeatInterleaveParams::kLocal)));
  return out;
}

at::Tensor unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t dim, int64_t size,
                           int64_t step) {
  const char* op = "unfold_backward";
  if (grad.is_complex())
    return of_both_parts(grad, [&](const at::Tensor& g) { return unfold_backward(g, input_sizes, dim, size, step); });
  at::Tensor out = at::empty(input_sizes, grad.options());
  if (out.numel() == 0) return out;
  if (input_sizes.empty()) return out.copy_(grad.reshape({}));
  dim = at::maybe_wrap_dim(dim, static_cast<int64_t>(input_sizes.size()));
  const at::Tensor dense = grad.contiguous();
  const DType dtype = dtype_of(out, op);
  const auto kernel = kernel::unfold_backward(compute_type(dtype));
  TORCH_CHECK_NOT_IMPLEMENTED(supports(out.device().index(), kernel.id), op, ": this device has no float64 arithmetic");
  // An invocation adds up all windows with its element.
  check_walk(op, caps_of(out), std::min<int64_t>(dense.size(dim), ceil_div(size, step)));
  int64_t inner = 1;
  for (size_t d = dim + 1; d < input_sizes.size(); ++d) inner *= input_sizes[d];
  auto& stream = current(out);
  TensorArgs args;
  UnfoldBackwardParams p{};
  p.grad = args.read(dense);
  p.grad_input = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  p.extent = static_cast<uint32_t>(input_sizes[dim]);
  p.inner = static_cast<uint32_t>(inner);
  p.windows = static_cast<uint32_t>(dense.size(dim));
  p.size = static_cast<uint32_t>(size);
  p.step = static_cast<uint32_t>(step);
  launch(stream, kernel, {.dtype = dtype}, p, args, linear_grid(ceil_div(p.n, UnfoldBackwardParams::kLocal)));
  return out;
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  const char* op = "bincount";
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const bool weighted = weights.has_value() && weights->defined();
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  TORCH_CHECK(self.dim() == 1 && at::isIntegralType(self.scalar_type(), /*includeBool=*/false), op,
              " only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()), op,
              ": weights should be 1-d and have the same length as input");
  // The size of the result is a host value.
  TORCH_CHECK(at::min(self).item<int64_t>() >= 0, op, " only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(at::max(self).item<int64_t>() + 1, minlength);
  const at::Tensor index = self.to(at::kLong);
  if (!weighted)
    return at::zeros({bins}, index.options()).scatter_add_(0, index, at::ones({self.numel()}, index.options()));
  const auto type = weights->scalar_type() == at::kFloat || weights->scalar_type() == at::kDouble
                        ? weights->scalar_type()
                        : at::kDouble;
  return at::zeros({bins}, weights->options().dtype(type)).scatter_add_(0, index, weights->to(type));
}

}  // namespace aule::ops
