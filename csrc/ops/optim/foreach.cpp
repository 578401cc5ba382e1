#include "ops/optim/foreach.h"

#include <ATen/ops/_foreach_abs_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_add_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_addcdiv_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_addcmul_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_clamp_max_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_clamp_min_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_div_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_lerp_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_maximum_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_minimum_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_mul_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_neg_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_sqrt_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_sub_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/_foreach_zero_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "kernels_optim.gen.h"
#include "ops/optim/plan.h"
#include "ops/tensor/overlap.h"
#include "ops/tensor/table.h"

namespace aule::ops {
namespace {

namespace slow = at::compositeexplicitautograd;  // PyTorch's loops over single tensors
using at::Scalar;
using at::Tensor;
using at::TensorList;

enum class Each : int {
#define FOREACH_OP(code, name) name = code,
#include "optim/foreach_ops.def"
#undef FOREACH_OP
};

// True if all tensors have one dtype that the kernel computes in float32, one device, and dense operands in one order.
bool alike(TensorList self, TensorList other) {
  if (other.size() != self.size()) return false;
  for (size_t i = 0; i < self.size(); ++i) {
    const Tensor &a = self[i], &b = other[i];
    if (b.scalar_type() != self[0].scalar_type() || b.device() != self[0].device() || b.layout() != at::kStrided)
      return false;
    if (a.numel() >= (int64_t{1} << 31) || !walks_dense(a) || !same_walk(a, b)) return false;
  }
  return true;
}

// False if an element's tensors share memory with another element's: then a loop reads values that it has written.
bool elements_apart(TensorList written, std::initializer_list<TensorList> operands) {
  std::vector<ByteRange> outputs, inputs;
  outputs.reserve(written.size());
  for (const Tensor& t : written) outputs.push_back(range_of(t));
  for (TensorList list : operands)
    for (size_t i = 0; i < list.size(); ++i) {
      const ByteRange r = range_of(list[i]);
      if (r.begin != outputs[i].begin) inputs.push_back(r);  // the same element: each invocation reads before it writes
    }
  return apart(std::move(outputs), inputs);
}

bool can_run(TensorList self, std::initializer_list<TensorList> operands, Scalars scalars) {
  if (self.size() < 2 || (scalars.size() > 1 && scalars.size() != self.size())) return false;
  const auto type = self[0].scalar_type();
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) return false;
  if (self[0].device().type() != c10::DeviceType::PrivateUse1) return false;
  if (!std::all_of(scalars.begin(), scalars.end(), [](const Scalar& s) { return !s.isComplex(); })) return false;
  int64_t elems = 0;
  for (const Tensor& t : self) elems += t.numel();
  if (elems > foreach_most_elems(profile_of(self[0])) * static_cast<int64_t>(self.size())) return false;
  return alike(self, self) &&
         std::all_of(operands.begin(), operands.end(), [&](TensorList list) { return alike(self, list); });
}

// `scalars` has no element, one for all tensors, or one for each tensor.
void run(Each each, TensorList dst, TensorList self, std::initializer_list<TensorList> operands, Scalars scalars) {
  const TensorList* y = operands.size() > 0 ? operands.begin() : nullptr;
  const TensorList* z = operands.size() > 1 ? operands.begin() + 1 : nullptr;
  for_each_table(
      self, ForeachParams{},
      [&](ForeachParams& p, TensorArgs& args, uint32_t at, size_t i) {
        p.x[at] = args.read(self[i]);
        if (y) p.y[at] = args.read((*y)[i]);
        if (z) p.z[at] = args.read((*z)[i]);
        p.dst[at] = args.write(dst[i]);
        if (!scalars.empty()) p.scalar[at] = static_cast<float>(scalars[scalars.size() == 1 ? 0 : i].toDouble());
      },
      [&](const ForeachParams& p, const TensorArgs& args, Grid grid) {
        launch(current(self[0]), kernel::foreach (),
               {.dtype = dtype_of(self[0], "_foreach"), .op = static_cast<int>(each)}, p, args, grid);
      });
}

// Returns false if the lists do not fit the kernel, and then does nothing.
bool in_place(Each each, TensorList self, std::initializer_list<TensorList> operands, Scalars scalars) {
  if (!can_run(self, operands, scalars) || !elements_apart(self, operands)) return false;
  run(each, self, self, operands, scalars);
  for (const Tensor& t : self) t.unsafeGetTensorImpl()->bump_version();  // for lists, the dispatcher does not
  return true;
}

// self *= other, one number on the device. Its dtype may be another: without dimensions it promotes nothing.
bool in_place_by(TensorList self, const Tensor& other) {
  const auto type = other.scalar_type();
  if (!can_run(self, {}, {}) || other.dim() != 0 || other.device() != self[0].device() || other.is_neg() ||
      (type != at::kFloat && type != at::kHalf && type != at::kBFloat16))
    return false;
  std::vector<ByteRange> written;
  for (const Tensor& t : self) written.push_back(range_of(t));
  if (!apart(std::move(written), {range_of(other)})) return false;
  const ForeachSpec spec{.dtype = dtype_of(self[0], "_foreach_mul_"),
                         .op = static_cast<int>(Each::mul_tensor),
                         .y_dtype = dtype_of(other, "_foreach_mul_")};
  for_each_table(
      self, ForeachParams{},
      [&](ForeachParams& p, TensorArgs& args, uint32_t at, size_t i) {
        if (at == 0) args.read(other);
        p.x[at] = args.read(self[i]);
        p.y[at] = address_of(other);
        p.dst[at] = args.write(self[i]);
      },
      [&](const ForeachParams& p, const TensorArgs& args, Grid grid) {
        launch(current(self[0]), kernel::foreach (), spec, p, args, grid);
      });
  for (const Tensor& t : self) t.unsafeGetTensorImpl()->bump_version();  // for lists, the dispatcher does not
  return true;
}

std::vector<Tensor> fresh(Each each, TensorList self, std::initializer_list<TensorList> operands, Scalars scalars) {
  std::vector<Tensor> out;
  if (!can_run(self, operands, scalars)) return out;
  out.reserve(self.size());
  // `self` walks dense, so that this is empty_like with fewer ways through the dispatcher.
  for (const Tensor& t : self) out.push_back(at::empty_strided(t.sizes(), t.strides(), t.options()));
  run(each, out, self, operands, scalars);
  return out;
}

}  // namespace

void foreach_add_scalar_(TensorList self, const Scalar& scalar) {
  if (!in_place(Each::add_scalar, self, {}, scalar)) slow::_foreach_add_(self, scalar);
}
void foreach_add_list_(TensorList self, TensorList other, const Scalar& alpha) {
  if (!in_place(Each::add, self, {other}, alpha)) slow::_foreach_add_(self, other, alpha);
}
void foreach_sub_list_(TensorList self, TensorList other, const Scalar& alpha) {
  if (alpha.isComplex() || !in_place(Each::add, self, {other}, Scalar(-alpha.toDouble())))
    slow::_foreach_sub_(self, other, alpha);
}
void foreach_mul_scalar_(TensorList self, const Scalar& scalar) {
  if (!in_place(Each::mul_scalar, self, {}, scalar)) slow::_foreach_mul_(self, scalar);
}
void foreach_mul_list_(TensorList self, TensorList other) {
  if (!in_place(Each::mul, self, {other}, {})) slow::_foreach_mul_(self, other);
}
void foreach_mul_tensor_(TensorList self, const Tensor& other) {
  if (!in_place_by(self, other)) slow::_foreach_mul_(self, other);
}
void foreach_mul_scalar_list_(TensorList self, Scalars scalars) {
  if (!in_place(Each::mul_scalar, self, {}, scalars)) slow::_foreach_mul_(self, scalars);
}
void foreach_div_scalar_(TensorList self, const Scalar& scalar) {
  if (!in_place(Each::div_scalar, self, {}, scalar)) slow::_foreach_div_(self, scalar);
}
void foreach_div_list_(TensorList self, TensorList other) {
  if (!in_place(Each::div, self, {other}, {})) slow::_foreach_div_(self, other);
}
void foreach_div_scalar_list_(TensorList self, Scalars scalars) {
  if (!in_place(Each::div_scalar, self, {}, scalars)) slow::_foreach_div_(self, scalars);
}
void foreach_addcmul_scalar_(TensorList self, TensorList tensor1, TensorList tensor2, const Scalar& value) {
  if (!in_place(Each::addcmul, self, {tensor1, tensor2}, value)) slow::_foreach_addcmul_(self, tensor1, tensor2, value);
}
void foreach_addcmul_scalar_list_(TensorList self, TensorList tensor1, TensorList tensor2, Scalars scalars) {
  if (!in_place(Each::addcmul, self, {tensor1, tensor2}, scalars))
    slow::_foreach_addcmul_(self, tensor1, tensor2, scalars);
}
void foreach_addcdiv_scalar_(TensorList self, TensorList tensor1, TensorList tensor2, const Scalar& value) {
  if (!in_place(Each::addcdiv, self, {tensor1, tensor2}, value)) slow::_foreach_addcdiv_(self, tensor1, tensor2, value);
}
void foreach_addcdiv_scalar_list_(TensorList self, TensorList tensor1, TensorList tensor2, Scalars scalars) {
  if (!in_place(Each::addcdiv, self, {tensor1, tensor2}, scalars))
    slow::_foreach_addcdiv_(self, tensor1, tensor2, scalars);
}
void foreach_lerp_scalar_(TensorList self, TensorList tensors1, const Scalar& weight) {
  if (!in_place(Each::lerp, self, {tensors1}, weight)) slow::_foreach_lerp_(self, tensors1, weight);
}
#define FOREACH_UNARY(name)                                                  \
  void foreach_##name##_(TensorList self) {                                  \
    if (!in_place(Each::name, self, {}, {})) slow::_foreach_##name##_(self); \
  }                                                                          \
  std::vector<Tensor> foreach_##name(TensorList self) {                      \
    std::vector<Tensor> out = fresh(Each::name, self, {}, {});               \
    return out.empty() ? slow::_foreach_##name(self) : out;                  \
  }
FOREACH_UNARY(abs)
FOREACH_UNARY(neg)
FOREACH_UNARY(sqrt)
FOREACH_UNARY(zero)
#undef FOREACH_UNARY

// `name` by PyTorch, `each` by the kernel.
#define FOREACH_EXTREME(name, each)                                                               \
  void foreach_##name##_list_(TensorList self, TensorList other) {                                \
    if (!in_place(Each::each, self, {other}, {})) slow::_foreach_##name##_(self, other);          \
  }                                                                                               \
  std::vector<Tensor> foreach_##name##_list(TensorList self, TensorList other) {                  \
    std::vector<Tensor> out = fresh(Each::each, self, {other}, {});                               \
    return out.empty() ? slow::_foreach_##name(self, other) : out;                                \
  }                                                                                               \
  void foreach_##name##_scalar_(TensorList self, const Scalar& scalar) {                          \
    if (!in_place(Each::each##_scalar, self, {}, scalar)) slow::_foreach_##name##_(self, scalar); \
  }                                                                                               \
  std::vector<Tensor> foreach_##name##_scalar(TensorList self, const Scalar& scalar) {            \
    std::vector<Tensor> out = fresh(Each::each##_scalar, self, {}, scalar);                       \
    return out.empty() ? slow::_foreach_##name(self, scalar) : out;                               \
  }
FOREACH_EXTREME(clamp_max, minimum)
FOREACH_EXTREME(clamp_min, maximum)
FOREACH_EXTREME(maximum, maximum)
FOREACH_EXTREME(minimum, minimum)
#undef FOREACH_EXTREME

void foreach_sub_scalar_(TensorList self, const Scalar& scalar) {
  if (scalar.isComplex() || !in_place(Each::add_scalar, self, {}, Scalar(-scalar.toDouble())))
    slow::_foreach_sub_(self, scalar);
}
std::vector<Tensor> foreach_add_scalar(TensorList self, const Scalar& scalar) {
  std::vector<Tensor> out = fresh(Each::add_scalar, self, {}, scalar);
  return out.empty() ? slow::_foreach_add(self, scalar) : out;
}
std::vector<Tensor> foreach_add_list(TensorList self, TensorList other, const Scalar& alpha) {
  std::vector<Tensor> out = fresh(Each::add, self, {other}, alpha);
  return out.empty() ? slow::_foreach_add(self, other, alpha) : out;
}
std::vector<Tensor> foreach_sub_list(TensorList self, TensorList other, const Scalar& alpha) {
  std::vector<Tensor> out;
  if (!alpha.isComplex()) out = fresh(Each::add, self, {other}, Scalar(-alpha.toDouble()));
  return out.empty() ? slow::_foreach_sub(self, other, alpha) : out;
}
std::vector<Tensor> foreach_mul_scalar(TensorList self, const Scalar& scalar) {
  std::vector<Tensor> out = fresh(Each::mul_scalar, self, {}, scalar);
  return out.empty() ? slow::_foreach_mul(self, scalar) : out;
}
std::vector<Tensor> foreach_mul_list(TensorList self, TensorList other) {
  std::vector<Tensor> out = fresh(Each::mul, self, {other}, {});
  return out.empty() ? slow::_foreach_mul(self, other) : out;
}
std::vector<Tensor> foreach_div_scalar(TensorList self, const Scalar& scalar) {
  std::vector<Tensor> out = fresh(Each::div_scalar, self, {}, scalar);
  return out.empty() ? slow::_foreach_div(self, scalar) : out;
}
std::vector<Tensor> foreach_div_list(TensorList self, TensorList other) {
  std::vector<Tensor> out = fresh(Each::div, self, {other}, {});
  return out.empty() ? slow::_foreach_div(self, other) : out;
}
std::vector<Tensor> foreach_addcmul_scalar(TensorList self, TensorList tensor1, TensorList tensor2,
                                           const Scalar& value) {
  std::vector<Tensor> out = fresh(Each::addcmul, self, {tensor1, tensor2}, value);
  return out.empty() ? slow::_foreach_addcmul(self, tensor1, tensor2, value) : out;
}
std::vector<Tensor> foreach_addcdiv_scalar(TensorList self, TensorList tensor1, TensorList tensor2,
                                           const Scalar& value) {
  std::vector<Tensor> out = fresh(Each::addcdiv, self, {tensor1, tensor2}, value);
  return out.empty() ? slow::_foreach_addcdiv(self, tensor1, tensor2, value) : out;
}
std::vector<Tensor> foreach_lerp_scalar(TensorList self, TensorList tensors1, const Scalar& weight) {
  std::vector<Tensor> out = fresh(Each::lerp, self, {tensors1}, weight);
  return out.empty() ? slow::_foreach_lerp(self, tensors1, weight) : out;
}

}  // namespace aule::ops
