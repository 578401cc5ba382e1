#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>

#include "ops/indexing/advanced.h"
#include "ops/indexing/common.h"
#include "ops/indexing/indexing.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {

at::Tensor& gather_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool /*sparse_grad*/,
                       at::Tensor& out) {
  const char* op = "gather";
  check_same_device(op, {&self, &index, &out});
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (index.numel() > 0) check_index_dtype(op, index);  // an empty one may have any dtype, as on the CPU
  check_same_dtype(op, self, "out", out);
  check_index_fits(op, index, self, dim, "self");
  at::native::resize_output(out, index.sizes());
  if (index.numel() == 0) return out;
  check_not_overlapping(out, {&self, &index});
  IndexCall call = call_along_dim(op, out, self, dim, index, /*line=*/false, /*wrap=*/false);
  check_bound(op, call);
  run_get(std::move(call));
  return out;
}

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
  const char* op = "index_select";
  check_same_device(op, {&self, &index, &out});
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, op, "(): Index is supposed to be a vector");
  check_index_dtype(op, index);
  check_same_dtype(op, self, "out", out);
  TORCH_CHECK(self.dim() > 0 || index.numel() == 1, op, "(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  at::DimVector shape(self.sizes());
  if (!shape.empty()) shape[dim] = index.numel();
  at::native::resize_output(out, shape);
  if (out.numel() == 0) return out;
  check_not_overlapping(out, {&self, &index});
  IndexCall call = call_along_dim(op, out, self, dim, index, /*line=*/true, /*wrap=*/false);
  check_bound(op, call);
  run_get(std::move(call));
  return out;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  at::Tensor out = at::empty({0}, self.options());
  return index_select_out(self, dim, index, out);
}

at::Tensor& take_out(const at::Tensor& self, const at::Tensor& index, at::Tensor& out) {
  const char* op = "take";
  check_same_device(op, {&self, &index, &out});
  check_index_dtype(op, index);
  check_same_dtype(op, self, "out", out);
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, op, "(): tried to take from an empty tensor");
  at::native::resize_output(out, index.sizes());
  if (index.numel() == 0) return out;
  check_not_overlapping(out, {&self, &index});
  // The index counts elements in logical order, which is the memory order of contiguous tensors only.
  run_get(flat_call(op, out, self.contiguous(), index));
  return out;
}

at::Tensor take(const at::Tensor& self, const at::Tensor& index) {
  at::Tensor out = at::empty(index.sizes(), self.options());
  return take_out(self, index, out);
}

namespace {
at::Tensor& get_advanced(const char* op, const AdvancedIndices& info, at::Tensor& out) {
  if (out.numel() == 0) return out;
  IndexCall call = advanced_call(op, info, out);
  check_bound(op, call);
  run_get(std::move(call));
  return out;
}
}  // namespace

at::Tensor index_tensor(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  const AdvancedIndices info = expand_indices("index", self, indices);
  if (info.count == 0) return info.self.clone();
  at::Tensor out = empty_result(info);
  return get_advanced("index", info, out);
}

at::Tensor& index_tensor_out(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                             at::Tensor& out) {
  const char* op = "index";
  check_same_device(op, {&self, &out});
  check_same_dtype(op, self, "out", out);
  const AdvancedIndices info = expand_indices(op, self, indices);
  at::native::resize_output(out, info.result_shape);
  if (info.count == 0) return out.copy_(info.self);
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  for (const auto& index : info.indices)
    if (index.defined()) at::assert_no_overlap(out, index);
  return get_advanced(op, info, out);
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  const char* op = "masked_select";
  check_same_device(op, {&self, &mask});
  TORCH_CHECK(mask.scalar_type() == at::kBool, op, ": expected BoolTensor for mask");
  const auto [wide_mask, wide_self] = at::expand_outplace(mask, self);
  if (wide_self->dim() == 0) return index_tensor(wide_self->unsqueeze(0), {wide_mask->unsqueeze(0)});
  return index_tensor(*wide_self, {*wide_mask});
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  check_same_dtype("masked_select", self, "out", out);
  const at::Tensor selected = ops::masked_select(self, mask);
  return hand_over(selected, out);
}

}  // namespace aule::ops
