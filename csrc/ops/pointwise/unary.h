// Unary pointwise ops with more arguments than one tensor.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <optional>
#include <tuple>

namespace aule::ops {

at::Tensor logical_not(const at::Tensor& self);
at::Tensor& logical_not_(at::Tensor& self);
at::Tensor& logical_not_out(const at::Tensor& self, at::Tensor& out);
at::Tensor bitwise_not(const at::Tensor& self);
at::Tensor& bitwise_not_(at::Tensor& self);
at::Tensor& bitwise_not_out(const at::Tensor& self, at::Tensor& out);
at::Tensor& round_decimals_out(const at::Tensor& self, int64_t decimals, at::Tensor& out);
at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out);
at::Tensor angle(const at::Tensor& self);
at::Tensor& angle_out(const at::Tensor& self, at::Tensor& out);
at::Tensor logit(const at::Tensor& self, std::optional<double> eps);
at::Tensor& logit_(at::Tensor& self, std::optional<double> eps);
at::Tensor& logit_out(const at::Tensor& self, std::optional<double> eps, at::Tensor& out);
at::Tensor& mvlgamma_out(const at::Tensor& self, int64_t p, at::Tensor& out);
at::Tensor& polygamma_out(int64_t n, const at::Tensor& self, at::Tensor& out);
std::tuple<at::Tensor&, at::Tensor&> frexp_out(const at::Tensor& self, at::Tensor& mantissa, at::Tensor& exponent);

using OptionalScalar = std::optional<at::Scalar>;
using OptionalTensor = std::optional<at::Tensor>;
at::Tensor clamp(const at::Tensor& self, const OptionalScalar& min, const OptionalScalar& max);
at::Tensor& clamp_(at::Tensor& self, const OptionalScalar& min, const OptionalScalar& max);
at::Tensor& clamp_out(const at::Tensor& self, const OptionalScalar& min, const OptionalScalar& max, at::Tensor& out);
at::Tensor& clamp_tensor_out(const at::Tensor& self, const OptionalTensor& min, const OptionalTensor& max,
                             at::Tensor& out);
at::Tensor& clamp_min_out(const at::Tensor& self, const at::Scalar& min, at::Tensor& out);
at::Tensor& clamp_min_tensor_out(const at::Tensor& self, const at::Tensor& min, at::Tensor& out);
at::Tensor& clamp_max_out(const at::Tensor& self, const at::Scalar& max, at::Tensor& out);
at::Tensor& clamp_max_tensor_out(const at::Tensor& self, const at::Tensor& max, at::Tensor& out);

}  // namespace aule::ops
