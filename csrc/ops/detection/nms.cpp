// Non-maximum suppression: pairs of boxes that overlap as bits, then one workgroup that walks them in order.
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels_detection.gen.h"
#include "ops/detection/detection.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kName = "nms";
constexpr uint64_t kBits = 32;  // boxes of a word

// Words of 32 rows whose masks are made and walked at once.
uint64_t words_at_once(const Caps& caps, uint64_t words, uint64_t local) {
  constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  const uint64_t by_memory = kMostBytes / (kBits * words * sizeof(uint32_t));
  const uint64_t of_word = (kBits + 1) * (4 + words / local);  // iterations of an invocation
  check_walk(kName, caps, of_word);
  return std::clamp<uint64_t>(std::min(by_memory, longest_walk(caps) / of_word), 1, words);
}

void find_overlaps(const at::Tensor& boxes, const at::Tensor& masks, double threshold, uint64_t first_row,
                   uint64_t rows) {
  const DType dtype = dtype_of(boxes, kName), compute = compute_type(dtype);
  TensorArgs args;
  OverlapMasksParams p{};
  p.boxes = args.read(boxes);
  p.masks = args.write(masks);
  p.threshold = real_bits(compute, threshold);
  p.n = static_cast<uint32_t>(boxes.size(0));
  p.words = static_cast<uint32_t>(masks.size(1));
  p.first_row = static_cast<uint32_t>(first_row);
  p.invocations = rows * p.words;
  launch(current(boxes), kernel::overlap_masks(compute), {.dtype = dtype}, p, args,
         linear_grid(ceil_div(p.invocations, OverlapMasksParams::kLocal)));
}

// One byte for each of the boxes, which are in falling order of their scores.
at::Tensor kept(const at::Tensor& boxes, double threshold) {
  const uint64_t n = static_cast<uint64_t>(boxes.size(0)), words = ceil_div(n, kBits);
  const DeviceProfile& profile = profile_of(boxes);
  const uint64_t local = profile.is_software() ? 64 : std::min<uint64_t>(256, profile.max_workgroup_invocations);
  const uint64_t step = words_at_once(profile, words, local);
  const at::TensorOptions integers = boxes.options().dtype(at::kInt);
  const at::Tensor keep = at::empty({boxes.size(0)}, integers.dtype(at::kBool));
  const at::Tensor removed = at::zeros({static_cast<int64_t>(words)}, integers);
  const at::Tensor masks = at::empty({static_cast<int64_t>(step * kBits), static_cast<int64_t>(words)}, integers);
  for (uint64_t first = 0; first < words; first += step) {
    const uint64_t last = std::min(first + step, words), row = first * kBits;
    find_overlaps(boxes, masks, threshold, row, std::min(n, last * kBits) - row);
    TensorArgs args;
    SuppressParams p{};
    p.masks = args.read(masks);
    p.removed = args.read_write(removed);
    p.keep = args.write(keep);
    p.n = static_cast<uint32_t>(n);
    p.words = static_cast<uint32_t>(words);
    p.first_word = static_cast<uint32_t>(first);
    p.last_word = static_cast<uint32_t>(last);
    launch(current(boxes), kernel::suppress(), {.local = static_cast<uint32_t>(local)}, p, args, linear_grid(1));
  }
  return keep;
}

}  // namespace

at::Tensor nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold) {
  TORCH_CHECK(dets.dim() == 2 && dets.size(1) == 4, kName, ": expected boxes of shape [n, 4], got ", dets.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == dets.size(0), kName, ": expected scores of shape [", dets.size(0),
              "], got ", scores.sizes());
  TORCH_CHECK(dets.scalar_type() == scores.scalar_type(), kName, ": expected boxes and scores of one dtype, got ",
              dets.scalar_type(), " and ", scores.scalar_type());
  check_floating(kName, dets);
  check_float64(kName, dets);
  check_same_device(kName, {&dets, &scores});
  TORCH_CHECK_NOT_IMPLEMENTED(dets.size(0) < (int64_t{1} << 31), kName, ": 2^31 boxes are too many");
  if (dets.numel() == 0) return at::empty({0}, dets.options().dtype(at::kLong));
  const at::Tensor order = std::get<1>(at::sort(scores, /*stable=*/true, /*dim=*/0, /*descending=*/true));
  return order.masked_select(kept(dets.index_select(0, order).contiguous(), iou_threshold));
}

}  // namespace aule::ops
