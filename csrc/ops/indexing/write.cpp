// index_fill, put, index_put, masked_scatter.
#include <ATen/ExpandUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include "kernels_indexing.gen.h"
#include "ops/indexing/advanced.h"
#include "ops/indexing/common.h"
#include "ops/indexing/indexing.h"
#include "ops/tensor/device_assert.h"

namespace aule::ops {

at::Tensor& index_fill_tensor_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value) {
  const char* op = "index_fill_";
  TORCH_CHECK(value.dim() == 0, op, " only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
              " dimension(s).");
  check_same_device(op, {&self, &index});
  check_index_dtype(op, index);
  TORCH_CHECK_INDEX(index.dim() <= 1, op, "(): Index has to be a vector/scalar");
  TORCH_CHECK(self.is_complex() || !value.is_complex(), op,
              "(): Converting complex Scalar to non-complex type is not supported");
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  if (self.numel() == 0 || index.numel() == 0) return self;
  at::Tensor line = self.dim() == 0 ? self.unsqueeze(0) : self;
  dim = at::maybe_wrap_dim(dim, line.dim());
  at::DimVector shape(line.sizes());
  shape[dim] = index.numel();
  const at::Tensor filling = value.to(self.options()).expand(shape);
  IndexCall call = call_along_dim(op, filling, line, dim, index, /*line=*/true, /*wrap=*/true);
  for (auto& d : call.space.dims) d.meets = false;  // all writers of an element write the same value
  run_put(std::move(call));
  return self;
}

at::Tensor& index_fill_scalar_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  TORCH_CHECK(self.is_complex() || !value.isComplex(),
              "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  return index_fill_tensor_(self, dim, index, at::full({}, value, self.options()));
}

at::Tensor& put_(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  const char* op = "put_";
  check_same_device(op, {&self, &index, &source});
  check_index_dtype(op, index);
  check_same_dtype(op, self, "source", source);
  TORCH_CHECK(source.numel() == index.numel(), op,
              "(): Expected source and index to have the same number of elements, but got source.numel() = ",
              source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, op, "(): Tried to put elements into an empty tensor");
  check_not_overlapping(self, {&index, &source});
  if (index.numel() == 0) return self;
  // The index counts elements in logical order, which is the memory order of contiguous tensors only.
  const at::Tensor target = self.contiguous();
  IndexCall call = flat_call(op, source.reshape({-1}), target, index.reshape({-1}));
  if (accumulate) {
    run_combine(std::move(call), Combine::add);
  } else {
    run_put(std::move(call));
  }
  if (!target.is_same(self)) self.copy_(target);
  return self;
}

at::Tensor& index_put_impl_(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                            const at::Tensor& values, bool accumulate, bool /*unsafe*/) {
  const char* op = "index_put_";
  check_indices_device(self, indices);
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
  TORCH_CHECK(at::has_internal_overlap(self) != at::MemOverlap::Yes, op,
              "(): self has elements that share memory (an expanded tensor); clone it before writing");
  at::assert_no_overlap(self, values);
  if (!accumulate && values.numel() == 1) {
    // x[mask] = scalar needs no count of the mask, hence no wait.
    const auto [fills, mask] = at::native::canDispatchToMaskedFill(self, indices, at::scalar_tensor(0));
    if (fills)
      return values.is_cpu() ? self.masked_fill_(mask, values.item()) : self.masked_fill_(mask, values.reshape({}));
  }
  at::Tensor source = values;
  if (source.device() != self.device()) {
    TORCH_CHECK(source.dim() == 0 && source.is_cpu(), two_devices(self.device(), source.device()));
    source = source.to(self.device());
  }
  const AdvancedIndices info = expand_indices(op, self, indices);
  TORCH_CHECK(at::is_expandable_to(source.sizes(), info.result_shape), "shape mismatch: value tensor of shape ",
              source.sizes(), " cannot be broadcast to indexing result of shape ", at::IntArrayRef(info.result_shape));
  if (info.count == 0) return accumulate ? self.add_(source) : self.copy_(source);
  IndexCall call = advanced_call(op, info, source.expand(info.result_shape));
  check_bound(op, call);
  if (accumulate) {
    run_combine(std::move(call), Combine::add);
  } else {
    run_put(std::move(call));
  }
  return self;
}

at::Tensor& masked_scatter_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  const char* op = "masked_scatter_";
  check_same_device(op, {&self, &mask, &source});
  check_same_dtype(op, self, "source", source);
  TORCH_CHECK(mask.scalar_type() == at::kBool, op, " only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  check_not_overlapping(self, {&source});
  const auto wide_mask = at::expand_inplace(self, mask, op);
  if (self.numel() == 0) return self;
  const at::Tensor dense_mask = wide_mask->contiguous();
  const at::Tensor ranks = at::cumsum(dense_mask.view({-1}), 0, at::kLong);
  const at::Tensor target = self.contiguous();
  const at::Tensor dense_source = source.contiguous();

  auto& stream = current(self);
  TensorArgs args;
  MaskedScatterParams p{};
  p.self = args.write(target);
  p.mask = args.read(dense_mask);
  p.ranks = args.read(ranks);
  p.source = args.read(dense_source);
  p.error = error_address(stream);
  p.n = static_cast<uint64_t>(target.numel());
  p.source_elems = source.numel();
  p.tag = error_tag(op);
  launch(stream, kernel::masked_scatter(), {.dtype = raw_dtype_of(self)}, p, args,
         linear_grid(ceil_div(p.n, MaskedScatterParams::kLocal)));
  if (!target.is_same(self)) self.copy_(target);
  return self;
}

}  // namespace aule::ops
