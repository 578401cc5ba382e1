// torch.ops.aule.norm_linear_act: RMSNorm, a linear layer, a gate and a residual, as a decoding step has them.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

// gemv_norm.comp
struct NormLinearPlan {
  int rows = 1;  // of x
  uint32_t slice = 32;
  Grid grid{};
};

struct NormLinearProblem {
  uint64_t m = 0, n = 0, k = 0;  // of the result
  bool gated = false, has_norm = false;
  DType dtype = DType::f32;
};

// Whether rows of a matrix that is not empty are dense and begin at multiples of 16 bytes.
bool loads_rows(const at::Tensor& t);

// Nothing: parts of it are kernels of their own.
std::optional<NormLinearPlan> norm_linear_plan(const DeviceProfile& profile, const NormLinearProblem& problem);
std::string text_of(const NormLinearPlan& plan);

// All that surrounds a product of a decoding step.
struct NormLinearParts {
  std::optional<at::Tensor> bias;  // [weight's rows]
  std::optional<at::Tensor> norm;  // float32 [k]: RMSNorm's weight
  double eps = 0.0;
  std::string_view activation;         // "none", or of the gate: "silu", "gelu_tanh"
  std::optional<at::Tensor> residual;  // as the result
  bool is_gated() const { return activation != "none"; }
};
// The parts from an operator's arguments; tensors are contiguous.
NormLinearParts norm_linear_parts(const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& norm,
                                  double eps, std::string_view activation, const std::optional<at::Tensor>& residual);
// The code of a gate's activation: activation_codes.h.
int gate_code(const NormLinearParts& parts);

// The sizes of the result; `rows`: of the weight. Throws for parts that do not fit.
std::vector<int64_t> checked_parts(const char* op, const at::Tensor& x, int64_t rows, int64_t k,
                                   const NormLinearParts& parts);
// The parts before and behind a product, by kernels of their own.
at::Tensor normed(const at::Tensor& x, const NormLinearParts& parts);
at::Tensor gated_and_added(const at::Tensor& sums, const NormLinearParts& parts);

// gate(norm(x) @ weight^T + bias) + residual for x [..., k] and weight [rows, k]. With an activation the weight has
// rows of the gate, then as many of what it multiplies.
at::Tensor norm_linear_act(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           const std::optional<at::Tensor>& norm, double eps, std::string_view activation,
                           const std::optional<at::Tensor>& residual);

}  // namespace aule::ops
