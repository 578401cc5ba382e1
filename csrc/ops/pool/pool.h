// Pooling: max and average, fixed and adaptive windows, 2-D and 3-D (1-D is composed from 2-D by PyTorch).
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

template <int dims>
struct Pool {
  static std::tuple<at::Tensor&, at::Tensor&> max_out(const at::Tensor& self, at::IntArrayRef kernel,
                                                      at::IntArrayRef stride, at::IntArrayRef padding,
                                                      at::IntArrayRef dilation, bool ceil_mode, at::Tensor& out,
                                                      at::Tensor& indices);
  static std::tuple<at::Tensor, at::Tensor> max(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                                                at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode);
  static at::Tensor& max_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                      bool ceil_mode, const at::Tensor& indices, at::Tensor& grad_input);
  static at::Tensor max_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                 at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                 bool ceil_mode, const at::Tensor& indices);
  static at::Tensor& avg_out(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                             at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                             std::optional<int64_t> divisor, at::Tensor& out);
  static at::Tensor& avg_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                      at::IntArrayRef stride, at::IntArrayRef padding, bool ceil_mode,
                                      bool count_include_pad, std::optional<int64_t> divisor, at::Tensor& grad_input);
  static at::Tensor adaptive_avg(const at::Tensor& self, at::IntArrayRef output_size);
  static at::Tensor& adaptive_avg_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out);
  static at::Tensor adaptive_avg_backward(const at::Tensor& grad_output, const at::Tensor& self);
  static std::tuple<at::Tensor&, at::Tensor&> adaptive_max_out(const at::Tensor& self, at::IntArrayRef output_size,
                                                               at::Tensor& out, at::Tensor& indices);
  static at::Tensor& adaptive_max_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                               const at::Tensor& indices, at::Tensor& grad_input);
};

extern template struct Pool<2>;
extern template struct Pool<3>;

// Max pooling undone (unpool.cpp).
at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size);
at::Tensor& max_unpool2d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::Tensor& out);
at::Tensor max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                        at::IntArrayRef stride, at::IntArrayRef padding);
at::Tensor& max_unpool3d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& out);

}  // namespace aule::ops
