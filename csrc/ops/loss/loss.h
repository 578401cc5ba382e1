// Negative log likelihood; cross_entropy is log_softmax and this.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

using OptionalTensor = std::optional<at::Tensor>;

std::tuple<at::Tensor&, at::Tensor&> nll_loss_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                          const OptionalTensor& weight, int64_t reduction,
                                                          int64_t ignore_index, at::Tensor& output,
                                                          at::Tensor& total_weight);
at::Tensor& nll_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                  const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                  const at::Tensor& total_weight, at::Tensor& grad_input);
std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                            const OptionalTensor& weight, int64_t reduction,
                                                            int64_t ignore_index, at::Tensor& output,
                                                            at::Tensor& total_weight);
std::tuple<at::Tensor, at::Tensor> nll_loss2d_forward(const at::Tensor& self, const at::Tensor& target,
                                                      const OptionalTensor& weight, int64_t reduction,
                                                      int64_t ignore_index);
at::Tensor& nll_loss2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                    const at::Tensor& total_weight, at::Tensor& grad_input);
at::Tensor nll_loss2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                               const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                               const at::Tensor& total_weight);

}  // namespace aule::ops
