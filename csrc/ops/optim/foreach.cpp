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
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "kernels_optim.gen.h"
#include "ops/optim/plan.h"
#include "ops/tensor/overlap.h"
#include "ops/tensor/table.h"
#include "ops/tensor/unfilled.h"

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

// Bytes of the tensors of a call, list after list: each is asked once, because a call may have over a hundred.
using Places = c10::SmallVector<ByteRange, 4 * kTableTensors>;

ByteRange dense_range(const Tensor& t) {
  const uint64_t begin = address_of(t);
  return {begin, begin + static_cast<uint64_t>(t.numel()) * t.element_size()};
}

// True, with the places of `self` and of each list, if all tensors have one dtype that the kernel computes in float32,
// one device, and dense operands in one order.
bool can_run(TensorList self, std::initializer_list<TensorList> operands, Scalars scalars, Places& places) {
  const size_t count = self.size();
  if (count < 2 || (scalars.size() > 1 && scalars.size() != count)) return false;
  const c10::ScalarType type = self[0].scalar_type();
  const c10::Device device = self[0].device();
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16) return false;
  if (device.type() != c10::DeviceType::PrivateUse1) return false;
  if (!std::all_of(scalars.begin(), scalars.end(), [](const Scalar& s) { return !s.isComplex(); })) return false;
  int64_t elems = 0;
  for (const Tensor& t : self) elems += t.numel();
  if (elems > foreach_most_elems(profile_of(self[0])) * static_cast<int64_t>(count)) return false;
  const auto fits = [&](const Tensor& t) {
    return t.scalar_type() == type && t.device() == device && t.layout() == at::kStrided;
  };
  places.reserve(count * (2 + operands.size()));
  for (const Tensor& t : self) {
    if (!fits(t) || t.numel() >= (int64_t{1} << 31) || !walks_dense(t)) return false;
    places.push_back(dense_range(t));
  }
  TensorList before = self;
  for (TensorList list : operands) {
    if (list.size() != count) return false;
    for (size_t i = 0; i < count; ++i) {
      if (list[i].is_same(before[i])) {  // a square
        places.push_back(places[places.size() - count]);
        continue;
      }
      if (!fits(list[i]) || !same_walk(self[i], list[i])) return false;
      places.push_back(dense_range(list[i]));
    }
    before = list;
  }
  return true;
}

// False if an element's tensors share memory with another element's: then a loop reads values that it has written.
bool elements_apart(size_t count, const Places& places) {
  std::vector<ByteRange> outputs(places.begin(), places.begin() + count), inputs;
  inputs.reserve(places.size() - count);
  for (size_t i = count; i < places.size(); ++i)
    if (places[i].begin != outputs[i % count].begin)  // else the same element: each invocation reads before it writes
      inputs.push_back(places[i]);
  return apart(std::move(outputs), inputs);
}

// `places`: of x, and of the lists y and z if there are any. `scalars` has no element, one for all tensors, or one for
// each tensor.
void run(Each each, TensorList self, const Places& places, const ByteRange* dst, Scalars scalars) {
  const size_t count = self.size(), lists = places.size() / count;
  const auto read = [&](TensorArgs& args, size_t list, size_t i) {
    const ByteRange& place = places[list * count + i];
    return args.read(place.begin, place.end - place.begin);
  };
  const bool one = scalars.size() == 1;
  const float scalar = one ? static_cast<float>(scalars[0].toDouble()) : 0;
  for_each_table(
      self, ForeachParams{},
      [&](ForeachParams& p, TensorArgs& args, uint32_t at, size_t i) {
        p.x[at] = read(args, 0, i);
        if (lists > 1) p.y[at] = read(args, 1, i);
        if (lists > 2) p.z[at] = read(args, 2, i);
        p.dst[at] = args.write(dst[i].begin, dst[i].end - dst[i].begin);
        if (one)
          p.scalar[at] = scalar;
        else if (!scalars.empty())
          p.scalar[at] = static_cast<float>(scalars[i].toDouble());
      },
      [&](const ForeachParams& p, const TensorArgs& args, Grid grid) {
        launch(current(self[0]), kernel::foreach (),
               {.dtype = dtype_of(self[0], "_foreach"), .op = static_cast<int>(each)}, p, args, grid);
      });
}

// Returns false if the lists do not fit the kernel, and then does nothing.
bool in_place(Each each, TensorList self, std::initializer_list<TensorList> operands, Scalars scalars) {
  Places places;
  if (!can_run(self, operands, scalars, places) || !elements_apart(self.size(), places)) return false;
  run(each, self, places, places.data(), scalars);
  for (const Tensor& t : self) t.unsafeGetTensorImpl()->bump_version();  // for lists, the dispatcher does not
  return true;
}

// self *= other, one number on the device. Its dtype may be another: without dimensions it promotes nothing.
bool in_place_by(TensorList self, const Tensor& other) {
  const auto type = other.scalar_type();
  Places places;
  if (!can_run(self, {}, {}, places) || other.dim() != 0 || other.device() != self[0].device() || other.is_neg() ||
      (type != at::kFloat && type != at::kHalf && type != at::kBFloat16))
    return false;
  if (!apart({places.begin(), places.end()}, {range_of(other)})) return false;
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
  Places places;
  if (!can_run(self, operands, scalars, places)) return out;
  c10::SmallVector<ByteRange, kTableTensors> dst;
  out.reserve(self.size());
  // `self` walks dense, so that this is empty_like.
  for (const Tensor& t : self) {
    out.push_back(unfilled_strided(t.sizes(), t.strides(), t.scalar_type()));
    dst.push_back(dense_range(out.back()));
  }
  run(each, self, places, dst.data(), scalars);
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
