// Arithmetic with arguments of its own: alpha, rounding modes, exponents, weights, masks.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <optional>
#include <string_view>

namespace aule::ops {

at::Tensor add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
at::Tensor& add_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out);
at::Tensor sub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
at::Tensor& sub_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
at::Tensor& sub_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out);
at::Tensor rsub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
at::Tensor div_mode(const at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> rounding_mode);
at::Tensor& div_mode_(at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> rounding_mode);
at::Tensor& div_mode_out(const at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> rounding_mode,
                         at::Tensor& out);
at::Tensor remainder_scalar_tensor(const at::Scalar& self, const at::Tensor& other);
at::Tensor nextafter(const at::Tensor& self, const at::Tensor& other);
at::Tensor& nextafter_(at::Tensor& self, const at::Tensor& other);
at::Tensor& nextafter_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out);

at::Tensor pow(const at::Tensor& self, const at::Tensor& exponent);
at::Tensor& pow_out(const at::Tensor& self, const at::Tensor& exponent, at::Tensor& out);
at::Tensor pow_tensor_scalar(const at::Tensor& self, const at::Scalar& exponent);
at::Tensor& pow_tensor_scalar_out(const at::Tensor& self, const at::Scalar& exponent, at::Tensor& out);
at::Tensor& pow_scalar_out(const at::Scalar& self, const at::Tensor& exponent, at::Tensor& out);
// Registered although composite: torch 2.11's asks a table of CPU and CUDA kernels.
at::Tensor ldexp(const at::Tensor& self, const at::Tensor& other);
at::Tensor& ldexp_(at::Tensor& self, const at::Tensor& other);
at::Tensor& ldexp_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out);

at::Tensor lerp_scalar(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight);
at::Tensor& lerp_scalar_(at::Tensor& self, const at::Tensor& end, const at::Scalar& weight);
at::Tensor& lerp_scalar_out(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight, at::Tensor& out);
at::Tensor& lerp_tensor_out(const at::Tensor& self, const at::Tensor& end, const at::Tensor& weight, at::Tensor& out);
at::Tensor& addcmul_out(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2,
                        const at::Scalar& value, at::Tensor& out);
at::Tensor& addcmul_(at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value);
at::Tensor& addcdiv_out(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2,
                        const at::Scalar& value, at::Tensor& out);
at::Tensor& addcdiv_(at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value);

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other);
at::Tensor& masked_fill__scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value);
at::Tensor& masked_fill__tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value);

}  // namespace aule::ops
