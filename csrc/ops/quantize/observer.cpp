// The range that a tensor's numbers have had, as moving averages, and the quantization that it asks for.
#include <ATen/ops/aminmax.h>

#include <limits>

#include "kernels_quantize.gen.h"
#include "ops/quantize/fake_quantize.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kName = "fused_moving_avg_obs_fake_quant";

// A tensor that the operator writes, contiguous: copied back where it is not.
struct Written {
  const at::Tensor& of;
  at::Tensor dense = of.contiguous();
  void hand_back() const {
    if (!dense.is_same(of)) of.copy_(dense);
  }
};

void check_number(const at::Tensor& t, const char* name, int64_t expected) {
  TORCH_CHECK(t.numel() == expected && t.dim() <= 1, kName, ": expected ", expected, " numbers in ", name,
              ", got shape ", t.sizes());
}

}  // namespace

TwoTensors fused_moving_avg_obs_fq_helper(const at::Tensor& self, const at::Tensor& observer_on,
                                          const at::Tensor& fake_quant_on, at::Tensor& running_min,
                                          at::Tensor& running_max, at::Tensor& scale, at::Tensor& zero_point,
                                          double averaging_const, int64_t quant_min, int64_t quant_max, int64_t ch_axis,
                                          bool per_row_fake_quant, bool symmetric_quant) {
  check_floating(kName, self);
  check_float64(kName, self);
  check_same_device(kName, {&self, &observer_on, &fake_quant_on, &running_min, &running_max, &scale, &zero_point});
  TORCH_CHECK(ch_axis < self.dim() && (ch_axis >= 0 || !per_row_fake_quant), kName, ": expected ch_axis below ",
              self.dim(), ", got ", ch_axis);
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`.");
  const int64_t channels = per_row_fake_quant ? self.size(ch_axis) : 1;
  if (per_row_fake_quant && running_min.numel() == 0) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    running_min.resize_({channels}).fill_(kInf);
    running_max.resize_({channels}).fill_(-kInf);
    scale.resize_({channels});
    zero_point.resize_({channels});
  }
  check_number(observer_on, "observer_on", 1);
  check_number(fake_quant_on, "fake_quant_on", 1);
  check_number(running_min, "running_min", channels);
  check_number(running_max, "running_max", channels);
  check_number(scale, "scale", channels);
  check_number(zero_point, "zero_point", channels);
  TORCH_CHECK(running_min.is_floating_point() && running_min.scalar_type() == running_max.scalar_type() &&
                  running_min.scalar_type() != at::kDouble,
              kName, ": expected a running range of one floating dtype of at most 32 bits, got ",
              running_min.scalar_type(), " and ", running_max.scalar_type());
  TORCH_CHECK(
      scale.is_floating_point() && scale.scalar_type() != at::kDouble && zero_point.scalar_type() != at::kDouble, kName,
      ": expected a floating point scale, and scale and zero point of at most 32 bits");

  const auto [low, high] =
      per_row_fake_quant ? at::aminmax(self.movedim(ch_axis, 0).reshape({channels, -1}), 1) : at::aminmax(self);
  const Written written[] = {{running_min}, {running_max}, {scale}, {zero_point}};
  TensorArgs args;
  ObserveRangeParams p{};
  p.x_low = args.read(low);
  p.x_high = args.read(high);
  p.low = args.read_write(written[0].dense);
  p.high = args.read_write(written[1].dense);
  p.scale_ = args.read_write(written[2].dense);
  p.zero_point = args.read_write(written[3].dense);
  p.observed = args.read(observer_on);
  p.quantized = args.read(fake_quant_on);
  p.n = static_cast<uint32_t>(channels);
  p.quant_min = static_cast<int32_t>(quant_min);
  p.quant_max = static_cast<int32_t>(quant_max);
  p.symmetric = symmetric_quant ? 1 : 0;
  p.rate = static_cast<float>(averaging_const);
  launch(current(self), kernel::observe_range(),
         {.x_dtype = dtype_of(low, kName),
          .range_dtype = dtype_of(running_min, kName),
          .scale_dtype = dtype_of(scale, kName),
          .zero_dtype = dtype_of(zero_point, kName),
          .observed_dtype = dtype_of(observer_on, kName),
          .quantized_dtype = dtype_of(fake_quant_on, kName)},
         p, args, linear_grid(ceil_div(uint64_t{p.n}, ObserveRangeParams::kLocal)));
  for (const Written& w : written) w.hand_back();
  return fake_quantize_switched(self, scale, zero_point, fake_quant_on, per_row_fake_quant ? ch_axis : -1, quant_min,
                                quant_max);
}

}  // namespace aule::ops
