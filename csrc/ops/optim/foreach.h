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
void foreach_sqrt_(at::TensorList self);
std::vector<at::Tensor> foreach_add_list(at::TensorList self, at::TensorList other, const at::Scalar& alpha);
std::vector<at::Tensor> foreach_sqrt(at::TensorList self);

}  // namespace aule::ops
