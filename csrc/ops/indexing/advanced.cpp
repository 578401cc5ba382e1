#include "ops/indexing/advanced.h"

#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/TensorIterator.h>

namespace aule::ops {

void check_indices_device(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  for (const std::optional<at::Tensor>& index : indices)
    TORCH_CHECK(!index.has_value() || !index->defined() || index->is_cpu() || index->device() == self.device(),
                "indices should be either on cpu or on the same device as the indexed tensor (", self.device(), ")");
}

AdvancedIndices expand_indices(const char* op, const at::Tensor& self,
                               const c10::List<std::optional<at::Tensor>>& indices) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  check_indices_device(self, indices);
  at::native::checkIndexTensorTypes(indices, /*allow_int=*/true);
  AdvancedIndices info;
  info.self = self;
  info.indices = at::native::expandTensors(self, indices, /*ensure_same_device=*/true);
  try {
    info.indices = at::expand_outplace(info.indices);
  } catch (std::exception&) {
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      at::native::shapes_as_str(info.indices));
  }
  info.indices.resize(self.dim());
  if (!at::native::hasContiguousSubspace(info.indices))
    std::tie(info.self, info.indices) = at::native::transposeToFront(info.self, info.indices);

  bool mixed = false;  // the kernel reads one index dtype
  for (int64_t d = 0; d < info.self.dim(); ++d) {
    const at::Tensor& index = info.indices[d];
    if (!index.defined()) continue;
    if (info.count == 0) {
      info.first = d;
      info.index_shape = at::DimVector(index.sizes());
    }
    mixed = mixed || index.scalar_type() != info.indices[info.first].scalar_type();
    ++info.count;
  }
  if (mixed)
    for (auto& index : info.indices)
      if (index.defined()) index = index.to(at::kLong);
  TORCH_CHECK_INDEX(static_cast<size_t>(info.count) <= IndexSpace::kMaxIndices, op, ": more than ",
                    IndexSpace::kMaxIndices, " index tensors are not supported on aule");
  const auto sizes = info.self.sizes();
  info.result_shape = at::DimVector(sizes.begin(), sizes.begin() + info.first);
  info.result_shape.append(info.index_shape.begin(), info.index_shape.end());
  info.result_shape.append(sizes.begin() + info.first + info.count, sizes.end());
  return info;
}

at::Tensor empty_result(const AdvancedIndices& info) {
  bool contiguous = info.self.is_contiguous();
  for (int64_t d = info.first; d < info.first + info.count; ++d)
    contiguous = contiguous && info.indices[d].is_contiguous();
  if (contiguous) return at::empty(info.result_shape, info.self.options());

  // A dimension that the source lacks has stride 0 there, and one that the indices lack has stride 0 in each of them.
  const auto before = static_cast<size_t>(info.first), inside = info.index_shape.size();
  const at::IntArrayRef strides = info.self.strides();
  at::DimVector source(strides.begin(), strides.begin() + info.first);
  source.append(inside, 0);
  source.append(strides.begin() + info.first + info.count, strides.end());
  std::vector<at::Tensor> operands{info.self.as_strided(info.result_shape, source)};
  for (int64_t d = info.first; d < info.first + info.count; ++d) {
    at::DimVector index(before, 0);
    index.append(info.indices[d].strides().begin(), info.indices[d].strides().end());
    index.resize(info.result_shape.size(), 0);
    operands.push_back(info.indices[d].as_strided(info.result_shape, index));
  }
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  config.declare_static_dtype_and_device(info.self.scalar_type(), info.self.device());
  config.add_owned_output(at::Tensor());
  for (const auto& operand : operands) config.add_owned_const_input(operand);
  return config.build().output();
}

IndexCall advanced_call(const char* op, const AdvancedIndices& info, const at::Tensor& plain) {
  IndexCall call{op, plain, info.self, {}, {}, true};
  for (int64_t d = info.first; d < info.first + info.count; ++d) {
    call.index.push_back(info.indices[d]);
    call.space.bound.push_back(info.self.size(d));
    call.space.step.push_back(info.self.stride(d));
  }
  const auto index_ndim = static_cast<int64_t>(info.index_shape.size());
  for (int64_t d = 0; d < plain.dim(); ++d) {
    IndexSpace::Dim out;
    out.size = plain.size(d);
    out.plain_stride = plain.stride(d);
    const int64_t inside = d - info.first;
    out.meets = inside >= 0 && inside < index_ndim;
    if (out.meets) {
      for (size_t k = 0; k < call.index.size(); ++k) out.index_stride[k] = call.index[k].stride(inside);
    } else {
      out.indexed_stride = info.self.stride(inside < 0 ? d : d - index_ndim + info.count);
    }
    call.space.dims.push_back(out);
  }
  return call;
}

}  // namespace aule::ops
