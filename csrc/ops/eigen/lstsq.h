// Least squares.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace aule::ops {

// Solution, residuals, rank, singular values; those that a driver does not give have no elements. Waits for the device:
// an input without full rank is an error of gels, and decides of the others whether there are residuals.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linalg_lstsq(const at::Tensor& a, const at::Tensor& b,
                                                                        std::optional<double> rcond,
                                                                        std::optional<std::string_view> driver);
std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> linalg_lstsq_out(
    const at::Tensor& a, const at::Tensor& b, std::optional<double> rcond, std::optional<std::string_view> driver,
    at::Tensor& solution, at::Tensor& residuals, at::Tensor& rank, at::Tensor& singular_values);

}  // namespace aule::ops
