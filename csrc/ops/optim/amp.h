// Loss scaling: what torch.amp.GradScaler asks of a device.
#pragma once
#include <ATen/core/Tensor.h>

namespace aule::ops {

void amp_foreach_non_finite_check_and_unscale_(at::TensorList self, at::Tensor& found_inf, const at::Tensor& inv_scale);
at::Tensor& amp_update_scale_(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf,
                              double scale_growth_factor, double scale_backoff_factor, int64_t growth_interval);

}  // namespace aule::ops
