// Draws of gamma, Dirichlet and binomial distributions, and the gradients of the first two.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "kernels_random.gen.h"
#include "ops/random/random.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/generator.h"

namespace aule::ops {
namespace {

constexpr uint64_t kGammaDraws = 4 * 64, kBinomialDraws = 4 * 128;  // counter steps of an element, at most

// float32 draws, or their logarithms.
at::Tensor draw_gamma(const at::Tensor& shapes, bool logarithms, const OptionalGenerator& generator) {
  const at::Tensor in = shapes.to(at::kFloat).contiguous();
  at::Tensor out = at::empty_like(in);
  if (out.numel() == 0) return out;
  const auto state = runtime::philox_for(generator, in.device().index(), kGammaDraws);
  TensorArgs args;
  GammaParams p{};
  p.shapes = args.read(in);
  p.dst = args.write(out);
  p.n = static_cast<uint64_t>(in.numel());
  state.put_into(p);
  launch(current(in), kernel::gamma(), {.log = logarithms}, p, args, linear_grid(ceil_div(p.n, GammaParams::kLocal)));
  return out;
}

double smallest(at::ScalarType type) {
  if (type == at::kDouble) return std::numeric_limits<double>::min();
  return type == at::kHalf ? std::ldexp(1.0, -14) : double{std::numeric_limits<float>::min()};
}
double below_one(at::ScalarType type) {
  const int bits = type == at::kDouble ? 53 : type == at::kHalf ? 11 : type == at::kBFloat16 ? 8 : 24;
  return 1 - std::ldexp(1.0, -bits);
}

at::Tensor implicit_gradient(const char* op, const at::Tensor& x, const at::Tensor& alpha, const at::Tensor& total) {
  const bool dirichlet = total.defined();
  check_floating(op, x);
  for (const at::Tensor* t : {&alpha, &total})
    TORCH_CHECK(!t->defined() || t->scalar_type() == x.scalar_type(), op, ": expected scalar type ", x.scalar_type(),
                " but found ", t->scalar_type());
  std::vector<int64_t> shape = at::infer_size(x.sizes(), alpha.sizes());
  if (dirichlet) shape = at::infer_size(shape, total.sizes());
  at::Tensor out = at::empty(shape, x.options());
  if (out.numel() == 0) return out;
  // Saddle points lose digits: in float64 where the device has it, as on the CPU.
  const int device = x.device().index();
  const DType dtype = dtype_of(x, op);
  const bool wide = supports(device, kernel::gamma_grad(DType::f64).id);
  TORCH_CHECK_NOT_IMPLEMENTED(wide || dtype != DType::f64, op, ": this device has no float64 arithmetic");
  const at::Tensor dense_x = x.expand(shape).contiguous(), dense_alpha = alpha.expand(shape).contiguous();
  const at::Tensor dense_total = dirichlet ? total.expand(shape).contiguous() : at::Tensor();
  TensorArgs args;
  GammaGradParams p{};
  p.x = args.read(dense_x);
  p.alpha = args.read(dense_alpha);
  if (dirichlet) p.total = args.read(dense_total);
  p.dst = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  launch(current(x), kernel::gamma_grad(wide ? DType::f64 : DType::f32), {.dtype = dtype, .dirichlet = dirichlet}, p,
         args, linear_grid(ceil_div(p.n, GammaGradParams::kLocal)));
  return out;
}

}  // namespace

at::Tensor standard_gamma(const at::Tensor& self, OptionalGenerator generator) {
  check_floating("_standard_gamma", self);
  const at::ScalarType type = self.scalar_type();
  if (type != at::kDouble) return draw_gamma(self, false, generator).to(type).clamp_min_(smallest(type));
  return draw_gamma(self, true, generator).to(type).exp_().clamp_min_(smallest(type));
}

at::Tensor standard_gamma_grad(const at::Tensor& self, const at::Tensor& output) {
  return implicit_gradient("_standard_gamma_grad", output, self, {});
}

// Gamma draws over their sum, by logarithms: the smallest concentrations have draws that no float32 holds.
at::Tensor sample_dirichlet(const at::Tensor& self, OptionalGenerator generator) {
  check_floating("_sample_dirichlet", self);
  TORCH_CHECK(self.dim() > 0, "_sample_dirichlet: expected at least one dimension");
  const at::ScalarType type = self.scalar_type();
  const at::Tensor logarithms = draw_gamma(self, true, generator);
  const at::Tensor wide = type == at::kDouble ? logarithms.to(type) : logarithms;
  return at::softmax(wide, -1).to(type).clamp_(smallest(type), below_one(type));
}

at::Tensor dirichlet_grad(const at::Tensor& x, const at::Tensor& alpha, const at::Tensor& total) {
  TORCH_CHECK(total.defined(), "_dirichlet_grad: expected a tensor of totals");
  return implicit_gradient("_dirichlet_grad", x, alpha, total);
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, OptionalGenerator generator) {
  const char* op = "binomial";
  check_floating(op, count);
  TORCH_CHECK(count.scalar_type() == prob.scalar_type(), "Found dtype ", prob.scalar_type(), " but expected ",
              count.scalar_type());
  const auto shape = at::infer_size(count.sizes(), prob.sizes());
  const at::Tensor counts = count.to(at::kFloat).expand(shape).contiguous();
  const at::Tensor probabilities = prob.to(at::kFloat).expand(shape).contiguous();
  at::Tensor out = at::empty(shape, counts.options());
  if (out.numel() == 0) return out.to(count.scalar_type());
  const auto state = runtime::philox_for(generator, count.device().index(), kBinomialDraws);
  TensorArgs args;
  BinomialParams p{};
  p.counts = args.read(counts);
  p.probabilities = args.read(probabilities);
  p.dst = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  state.put_into(p);
  launch(current(count), kernel::binomial(), {}, p, args, linear_grid(ceil_div(p.n, BinomialParams::kLocal)));
  return out.to(count.scalar_type());
}

}  // namespace aule::ops
