// Places of tensors in the flat buffer of a collective: in blocks, one for each rank or one in all, each with its share
// of every tensor.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "distributed/staging.h"

namespace aule::distributed {

enum class Place { host, device };  // of buffers

class Layout {
 public:
  // `shares`: into how many blocks each tensor is divided. Without `dtype`, elements stand as they are.
  Layout(Place place, const std::vector<at::Tensor>& tensors, int64_t shares,
         std::optional<at::ScalarType> dtype = std::nullopt);

  int64_t block_bytes() const { return block_bytes_; }
  at::Tensor buffer(int64_t blocks) const;
  // A buffer that is the only one of these tensors itself, if its bytes are those of the buffer; then parts() copies
  // nothing.
  at::Tensor buffer(int64_t blocks, const std::vector<at::Tensor>& tensors) const;
  // The share of tensor `i` that block `block` of the buffer has.
  at::Tensor share(const at::Tensor& buffer, size_t i, int64_t block) const;
  // Tensor `i`, whole, of `shares` blocks from the first on.
  Part part(const at::Tensor& tensor, const at::Tensor& buffer, size_t i) const;
  std::vector<Part> parts(const std::vector<at::Tensor>& tensors, const at::Tensor& buffer) const;  // all of them

 private:
  Place place_;
  int64_t shares_;
  c10::Device device_;
  std::vector<int64_t> offsets_, elements_;
  std::vector<at::ScalarType> dtypes_;
  int64_t block_bytes_ = 0;
};

}  // namespace aule::distributed
