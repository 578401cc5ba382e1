#include "ops/detection/regions.h"

namespace aule::ops {

void Regions::check(const at::Tensor& of) const {
  check_floating(op, of);
  check_float64(op, of);
  check_same_device(op, {&of, &rois});
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, op, ": expected rois of shape [regions, 5], got ", rois.sizes());
  TORCH_CHECK(rois.scalar_type() == of.scalar_type(), op, ": expected input and rois of one dtype, got ",
              of.scalar_type(), " and ", rois.scalar_type());
  TORCH_CHECK(pooled_height > 0 && pooled_width > 0, op, ": expected an output size above 0, got ", pooled_height,
              " x ", pooled_width);
  constexpr int64_t kMost = 1 << 24;
  TORCH_CHECK_NOT_IMPLEMENTED(height < kMost && width < kMost && sampling_ratio < (1 << 12) &&
                                  height * width < (int64_t{1} << 31) && bins() < (int64_t{1} << 31),
                              op, ": sizes of 2^24, planes of 2^31 or 2^12 samples of a bin are too many");
  TORCH_CHECK(!positions || channels % bins() == 0, op, ": expected channels for each of the ", bins(),
              " bins alike, got ", channels);
  // The device alone knows how many samples or cells a region has where its own size decides.
  if (sampling_ratio > 0)
    check_walk(op, caps_of(of), static_cast<uint64_t>(sampling_ratio * (5 * sampling_ratio + 1) + 4));
}

void Regions::check_gradient(const at::Tensor& grad, const at::Tensor& index) const {
  check(grad);
  const std::array<int64_t, 4> expected = pooled();
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(expected), op, ": expected a gradient of shape ",
              at::IntArrayRef(expected), ", got ", grad.sizes());
  if (!index.defined()) return;
  check_same_device(op, {&grad, &index});
  TORCH_CHECK(index.scalar_type() == at::kInt && index.sizes() == grad.sizes(), op,
              ": expected an index of dtype int32 and shape ", grad.sizes(), ", got ", index.scalar_type(),
              " of shape ", index.sizes());
}

}  // namespace aule::ops
