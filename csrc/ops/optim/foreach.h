// torch._foreach_*: the operations that torch.optim is made of, many tensors per dispatch.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <vector>

namespace aule::ops {

using Scalars = at::ArrayRef<at::Scalar>;

void foreach_add_scalar_(at::TensorList self, const at::Scalar& scalar);
void foreach_add_list_(at::TensorList self, at::TensorList other, const at::Scalar& alpha);
void foreach_sub_list_(at::TensorList self, at::TensorList other, const at::Scalar& alpha);
void foreach_mul_scalar_(at::TensorList self, const at::Scalar& scalar);
void foreach_mul_list_(at::TensorList self, at::TensorList other);
void foreach_mul_tensor_(at::TensorList self, const at::Tensor& other);
void foreach_mul_scalar_list_(at::TensorList self, Scalars scalars);
void foreach_div_scalar_(at::TensorList self, const at::Scalar& scalar);
void foreach_div_list_(at::TensorList self, at::TensorList other);
void foreach_div_scalar_list_(at::TensorList self, Scalars scalars);
void foreach_addcmul_scalar_(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2,
                             const at::Scalar& value);
void foreach_addcmul_scalar_list_(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2, Scalars scalars);
void foreach_addcdiv_scalar_(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2,
                             const at::Scalar& value);
void foreach_addcdiv_scalar_list_(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2, Scalars scalars);
void foreach_lerp_scalar_(at::TensorList self, at::TensorList tensors1, const at::Scalar& weight);
void foreach_abs_(at::TensorList self);
std::vector<at::Tensor> foreach_abs(at::TensorList self);
void foreach_neg_(at::TensorList self);
std::vector<at::Tensor> foreach_neg(at::TensorList self);
void foreach_sqrt_(at::TensorList self);
std::vector<at::Tensor> foreach_sqrt(at::TensorList self);
void foreach_zero_(at::TensorList self);
std::vector<at::Tensor> foreach_zero(at::TensorList self);
void foreach_clamp_max_list_(at::TensorList self, at::TensorList other);
std::vector<at::Tensor> foreach_clamp_max_list(at::TensorList self, at::TensorList other);
void foreach_clamp_max_scalar_(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_clamp_max_scalar(at::TensorList self, const at::Scalar& scalar);
void foreach_clamp_min_list_(at::TensorList self, at::TensorList other);
std::vector<at::Tensor> foreach_clamp_min_list(at::TensorList self, at::TensorList other);
void foreach_clamp_min_scalar_(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_clamp_min_scalar(at::TensorList self, const at::Scalar& scalar);
void foreach_maximum_list_(at::TensorList self, at::TensorList other);
std::vector<at::Tensor> foreach_maximum_list(at::TensorList self, at::TensorList other);
void foreach_maximum_scalar_(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_maximum_scalar(at::TensorList self, const at::Scalar& scalar);
void foreach_minimum_list_(at::TensorList self, at::TensorList other);
std::vector<at::Tensor> foreach_minimum_list(at::TensorList self, at::TensorList other);
void foreach_minimum_scalar_(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_minimum_scalar(at::TensorList self, const at::Scalar& scalar);
void foreach_sub_scalar_(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_add_scalar(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_add_list(at::TensorList self, at::TensorList other, const at::Scalar& alpha);
std::vector<at::Tensor> foreach_sub_list(at::TensorList self, at::TensorList other, const at::Scalar& alpha);
std::vector<at::Tensor> foreach_mul_scalar(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_mul_list(at::TensorList self, at::TensorList other);
std::vector<at::Tensor> foreach_div_scalar(at::TensorList self, const at::Scalar& scalar);
std::vector<at::Tensor> foreach_div_list(at::TensorList self, at::TensorList other);
std::vector<at::Tensor> foreach_addcmul_scalar(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2,
                                               const at::Scalar& value);
std::vector<at::Tensor> foreach_addcdiv_scalar(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2,
                                               const at::Scalar& value);
std::vector<at::Tensor> foreach_lerp_scalar(at::TensorList self, at::TensorList tensors1, const at::Scalar& weight);

}  // namespace aule::ops
