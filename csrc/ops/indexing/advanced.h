// Advanced indexing, x[a, :, b] and x[mask]: indices to an iteration space.
#pragma once
#include <ATen/core/List.h>

#include <optional>

#include "ops/indexing/launch.h"

namespace aule::ops {

struct AdvancedIndices {
  at::Tensor self;                  // permuted so that the indexed dimensions are adjacent
  std::vector<at::Tensor> indices;  // one per dimension of self, undefined where not indexed, all of one shape
  at::DimVector index_shape;        // that shape
  int64_t first = 0, count = 0;     // indexed dimensions: [first, first + count)
  at::DimVector result_shape;
};

// Indices may lie on the host, whatever the device of the indexed tensor; not the other way round.
void check_indices_device(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices);
// Masks become index tensors (this waits for their count), all are broadcast together.
AdvancedIndices expand_indices(const char* op, const at::Tensor& self,
                               const c10::List<std::optional<at::Tensor>>& indices);
// A tensor of result_shape whose dimensions lie in memory as PyTorch lays out x[indices] on other devices.
at::Tensor empty_result(const AdvancedIndices& info);
// `plain` has result_shape.
IndexCall advanced_call(const char* op, const AdvancedIndices& info, const at::Tensor& plain);

}  // namespace aule::ops
