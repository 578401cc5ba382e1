#include "ops/optim/amp.h"

#include <map>
#include <vector>

#include "kernels_optim.gen.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/table.h"

namespace aule::ops {

void amp_foreach_non_finite_check_and_unscale_(at::TensorList self, at::Tensor& found_inf,
                                               const at::Tensor& inv_scale) {
  constexpr const char* op = "_amp_foreach_non_finite_check_and_unscale_";
  if (self.empty()) return;
  for (const at::Tensor* one : {static_cast<const at::Tensor*>(&found_inf), &inv_scale})
    TORCH_CHECK(one->numel() == 1 && one->scalar_type() == at::kFloat, op,
                ": expected found_inf and inv_scale to be one float32 each");
  std::map<c10::ScalarType, std::vector<at::Tensor>> by_dtype;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // a dense stand-in and the tensor it stands for
  for (const at::Tensor& t : self) {
    check_same_device(op, {&t, &found_inf, &inv_scale});
    check_floating(op, t);
    check_float64(op, t);
    at::Tensor dense = t;
    if (!walks_dense(t)) {
      dense = t.contiguous();
      copies.emplace_back(dense, t);
    }
    by_dtype[t.scalar_type()].push_back(dense);
  }
  for (const auto& [type, tensors] : by_dtype) {
    const DType dtype = dtype_of(type, op);
    const AmpUnscaleSpec spec{.dtype = dtype};
    const auto kernel = kernel::amp_unscale(compute_type(dtype));
    for_each_table(
        at::TensorList(tensors), AmpUnscaleParams{},
        [&](AmpUnscaleParams& p, TensorArgs& args, uint32_t at, size_t i) {
          if (at == 0) {
            p.found_inf = args.write(found_inf);
            p.inv_scale = args.read(inv_scale);
          }
          p.data[at] = args.read_write(tensors[i]);
        },
        [&](const AmpUnscaleParams& p, const TensorArgs& args, Grid grid) {
          launch(current(found_inf), kernel, spec, p, args, grid);
        });
  }
  for (auto& [dense, t] : copies) t.copy_(dense);
}

at::Tensor& amp_update_scale_(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf,
                              double scale_growth_factor, double scale_backoff_factor, int64_t growth_interval) {
  constexpr const char* op = "_amp_update_scale_";
  check_same_device(op, {&self, &growth_tracker, &found_inf});
  TORCH_CHECK(self.numel() == 1 && self.scalar_type() == at::kFloat, op, ": expected the scale to be one float32");
  TORCH_CHECK(growth_tracker.numel() == 1 && growth_tracker.scalar_type() == at::kInt, op,
              ": expected the growth tracker to be one int32");
  TORCH_CHECK(found_inf.numel() == 1 && found_inf.scalar_type() == at::kFloat, op,
              ": expected found_inf to be one float32");
  TensorArgs args;
  AmpUpdateScaleParams p{};
  p.scale = args.read_write(self);
  p.growth_tracker = args.read_write(growth_tracker);
  p.found_inf = args.read(found_inf);
  p.growth = static_cast<float>(scale_growth_factor);
  p.backoff = static_cast<float>(scale_backoff_factor);
  p.interval = static_cast<int32_t>(growth_interval);
  launch(current(self), kernel::amp_update_scale(), {}, p, args, Grid{});
  return self;
}

}  // namespace aule::ops
