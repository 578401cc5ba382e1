#include "ops/distance/distance.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels_distance.gen.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

enum class Norm : int {
#define NORM_OP(code, name) name = code,
#include "distance/norm_ops.def"
#undef NORM_OP
};

Norm norm_of(double p) {
  if (p == 0) return Norm::zero;
  if (p == 1) return Norm::one;
  if (p == 2) return Norm::two;
  return std::isinf(p) ? Norm::inf : Norm::any;
}

struct Points {
  const char* op;
  at::Tensor x, y;  // contiguous, [batches, rows, features] and [batches, columns, features]; pairs: one set
  int64_t batches, rows, columns, features;
  double power;
  bool pairs = false;

  int64_t distances() const { return pairs ? rows * (rows - 1) / 2 : batches * rows * columns; }
  template <class Params>
  void fill(Params& p, TensorArgs& args) const {
    p.x = args.read(x);
    p.y = args.read(y);
    p.rows = static_cast<uint32_t>(rows);
    p.columns = static_cast<uint32_t>(columns);
    p.features = static_cast<uint32_t>(features);
    p.power = static_cast<float>(power);
    p.power_bits = std::bit_cast<uint64_t>(power);
  }
};

void check(const Points& s, KernelId id, int64_t iterations) {
  TORCH_CHECK_NOT_IMPLEMENTED(supports(s.x.device().index(), id), s.op, ": this device has no float64 arithmetic");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  TORCH_CHECK_NOT_IMPLEMENTED(s.rows < kMost && s.columns < kMost && s.features < kMost, s.op,
                              ": 2^31 points or features are too many");
  // A power of float64 has a loop of its own (common/float_bits.glsl).
  const int64_t each = norm_of(s.power) == Norm::any && s.x.scalar_type() == at::kDouble ? 11 : 1;
  check_walk(s.op, caps_of(s.x), static_cast<uint64_t>(iterations * each));
}

void measure(const Points& s, const at::Tensor& out) {
  const DType dtype = dtype_of(s.x, s.op);
  const auto kernel = kernel::distances(compute_type(dtype));
  constexpr int64_t kTile = 16;
  const DeviceProfile& profile = profile_of(s.x);
  const bool tiled = !s.pairs && !profile.is_software() && profile.max_workgroup_invocations >= kTile * kTile;
  check(s, kernel.id, s.features + (tiled ? s.features / kTile + kTile : 0));
  TensorArgs args;
  DistancesParams p{};
  s.fill(p, args);
  p.out_ = args.write(out);
  const int64_t tiles = s.batches * ceil_div(s.rows, kTile) * ceil_div(s.columns, kTile);
  p.n = static_cast<uint64_t>(tiled ? tiles : s.distances());
  const int local = tiled ? kTile * kTile : 64;
  launch(current(s.x), kernel,
         {.dtype = dtype, .norm = static_cast<int>(norm_of(s.power)), .pairs = s.pairs, .tiled = tiled, .local = local},
         p, args, linear_grid(tiled ? p.n : ceil_div(p.n, static_cast<uint64_t>(local))));
}

void differentiate(const Points& s, const at::Tensor& grad, const at::Tensor& distances, const at::Tensor& grad_x) {
  const DType dtype = dtype_of(s.x, s.op);
  const auto kernel = kernel::distances_backward(compute_type(dtype));
  check(s, kernel.id, s.columns);
  const at::Tensor g = grad.contiguous(), d = distances.contiguous();
  TensorArgs args;
  DistancesBackwardParams p{};
  s.fill(p, args);
  p.grad = args.read(g);
  p.distances = args.read(d);
  p.grad_x = args.write(grad_x);
  p.n = static_cast<uint64_t>(grad_x.numel());
  launch(current(s.x), kernel, {.dtype = dtype, .norm = static_cast<int>(norm_of(s.power)), .pairs = s.pairs}, p, args,
         linear_grid(ceil_div(p.n, DistancesBackwardParams::kLocal)));
}

// Two sets of points, their batches broadcast.
Points sets_of(const char* op, const at::Tensor& x1, const at::Tensor& x2, double p) {
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2, op, " only supports at least 2D tensors, got: ", x1.dim(), "D and ",
              x2.dim(), "D");
  TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(p >= 0, op, " only supports non-negative p values");
  check_floating(op, x1);
  TORCH_CHECK(x1.scalar_type() == x2.scalar_type(), "expected scalar type ", x1.scalar_type(), " but found ",
              x2.scalar_type());
  const auto batch = at::infer_size(x1.sizes().slice(0, static_cast<size_t>(x1.dim() - 2)),
                                    x2.sizes().slice(0, static_cast<size_t>(x2.dim() - 2)));
  const auto of_batch = [&](const at::Tensor& x) {
    std::vector<int64_t> shape(batch.begin(), batch.end());
    shape.insert(shape.end(), {x.size(-2), x.size(-1)});
    return x.expand(shape).contiguous();
  };
  const at::Tensor x = of_batch(x1), y = of_batch(x2);
  int64_t batches = 1;
  for (const int64_t size : batch) batches *= size;
  return {op, x, y, batches, x.size(-2), y.size(-2), x.size(-1), p};
}

Points set_of(const char* op, const at::Tensor& self, double p) {
  TORCH_CHECK(self.dim() == 2, op, ": expected a matrix of points, got shape ", self.sizes());
  TORCH_CHECK(p >= 0, "pdist only supports non-negative p values");
  check_floating(op, self);
  const at::Tensor x = self.contiguous();
  return {op, x, x, 1, self.size(0), self.size(0), self.size(1), p, true};
}

}  // namespace

at::Tensor cdist_forward(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  const int64_t mode = compute_mode.value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  const Points s = sets_of("cdist", x1, x2, p);
  std::vector<int64_t> shape = s.x.sizes().vec();
  shape.back() = s.columns;
  at::Tensor out = at::empty(shape, x1.options());
  if (out.numel() == 0) return out;
  if (s.features == 0) return out.zero_();
  // Large sets, as on PyTorch's other devices: by a matrix product. 16-bit squares lose too much in it.
  constexpr int64_t kFew = 25;
  const bool by_product =
      p == 2 && x1.element_size() >= 4 && (mode == 1 || (mode == 0 && (s.rows > kFew || s.columns > kFew)));
  if (by_product) return at::_euclidean_dist(s.x, s.y);
  measure(s, out);
  return out;
}

at::Tensor cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p,
                          const at::Tensor& cdist) {
  const Points s = sets_of("cdist_backward", x1, x2, p);
  std::vector<int64_t> shape = s.x.sizes().vec();
  shape.back() = s.columns;
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(shape) && cdist.sizes() == at::IntArrayRef(shape),
              "cdist_backward: expected distances and gradients of shape ", at::IntArrayRef(shape), ", got ",
              cdist.sizes(), " and ", grad.sizes());
  if (s.distances() == 0 || s.features == 0) return at::zeros(s.x.sizes(), x1.options());
  at::Tensor grad_x = at::empty(s.x.sizes(), x1.options());
  differentiate(s, grad, cdist, grad_x);
  return grad_x;
}

at::Tensor pdist_forward(const at::Tensor& self, double p) {
  const Points s = set_of("_pdist_forward", self, p);
  at::Tensor out = at::empty({s.rows <= 1 ? 0 : s.distances()}, self.options());
  if (out.numel() == 0) return out;
  if (s.features == 0) return out.zero_();
  measure(s, out);
  return out;
}

at::Tensor pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p, const at::Tensor& pdist) {
  const Points s = set_of("_pdist_backward", self, p);
  TORCH_CHECK(grad.numel() == pdist.numel() && (s.rows <= 1 || grad.numel() == s.distances()),
              "_pdist_backward: expected distances and gradients of ", s.distances(), " pairs, got ", pdist.numel(),
              " and ", grad.numel());
  if (s.rows <= 1 || s.features == 0) return at::zeros(self.sizes(), self.options());
  at::Tensor grad_x = at::empty(self.sizes(), self.options());
  differentiate(s, grad, pdist, grad_x);
  return grad_x;
}

}  // namespace aule::ops
