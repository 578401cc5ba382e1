#include "distributed/layout.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "core/integer.h"
#include "runtime/host_allocator.h"

namespace aule::distributed {

Layout::Layout(Place place, const std::vector<at::Tensor>& tensors, int64_t shares, std::optional<at::ScalarType> dtype)
    : place_(place), shares_(shares), device_(tensors.at(0).device()) {
  int64_t largest = 1;
  for (const at::Tensor& t : tensors) {
    dtypes_.push_back(dtype.value_or(t.scalar_type()));
    elements_.push_back(t.numel() / shares);
    const auto size = static_cast<int64_t>(c10::elementSize(dtypes_.back()));
    largest = std::max(largest, size);
    offsets_.push_back(round_up(block_bytes_, size));
    block_bytes_ = offsets_.back() + elements_.back() * size;
  }
  block_bytes_ = round_up(block_bytes_, largest);
}

at::Tensor Layout::buffer(int64_t blocks) const {
  return (place_ == Place::host ? runtime::pinned_bytes : device_buffer)(block_bytes_ * blocks, device_);
}

at::Tensor Layout::buffer(int64_t blocks, const std::vector<at::Tensor>& tensors) const {
  const at::Tensor& t = tensors.front();
  const bool same = place_ == Place::device && tensors.size() == 1 && t.scalar_type() == dtypes_[0] &&
                    t.is_contiguous() && !t.is_conj() && !t.is_neg() && t.numel() != 0 &&
                    static_cast<int64_t>(t.nbytes()) == block_bytes_ * blocks;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  return same ? t.view({-1}).view(at::kByte) : buffer(blocks);
}

at::Tensor Layout::share(const at::Tensor& buffer, size_t i, int64_t block) const {
  return slice(buffer, block * block_bytes_ + offsets_[i], elements_[i], dtypes_[i]);
}

Part Layout::part(const at::Tensor& tensor, const at::Tensor& buffer, size_t i) const {
  Part part{tensor, {}};
  if (tensor.is_alias_of(buffer)) return part;
  for (int64_t block = 0; block < shares_; ++block) part.flat.push_back(share(buffer, i, block));
  return part;
}

std::vector<Part> Layout::parts(const std::vector<at::Tensor>& tensors, const at::Tensor& buffer) const {
  std::vector<Part> parts;
  for (size_t i = 0; i < tensors.size(); ++i) parts.push_back(part(tensors[i], buffer, i));
  return parts;
}

}  // namespace aule::distributed
