// Max pooling over drawn windows, 2-D and 3-D.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace aule::ops {

template <int dims>
struct FractionalPool {
  static std::tuple<at::Tensor&, at::Tensor&> max_out(const at::Tensor& self, at::IntArrayRef kernel,
                                                      at::IntArrayRef output_size, const at::Tensor& samples,
                                                      at::Tensor& out, at::Tensor& indices);
  static at::Tensor backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                             at::IntArrayRef output_size, const at::Tensor& indices);
  static at::Tensor& backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                  at::IntArrayRef output_size, const at::Tensor& indices, at::Tensor& grad_input);
};

extern template struct FractionalPool<2>;
extern template struct FractionalPool<3>;

}  // namespace aule::ops
