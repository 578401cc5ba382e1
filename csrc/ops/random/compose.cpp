// Random ops made of the in-place distributions and other ops: normal with tensor arguments, randperm, multinomial.
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>

#include "kernels_random.gen.h"
#include "ops/random/random.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/generator.h"

namespace aule::ops {

at::Tensor& normal_tensor_float_out(const at::Tensor& mean, double std, OptionalGenerator generator, at::Tensor& out) {
  at::native::resize_output(out, mean.sizes());
  if (out.is_same(mean)) return out.add_(at::empty_like(out).normal_(0, std, generator));
  return out.normal_(0, std, generator).add_(mean);
}

at::Tensor& normal_float_tensor_out(double mean, const at::Tensor& std, OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
  at::native::resize_output(out, std.sizes());
  if (out.is_same(std)) return out.mul_(at::empty_like(out).normal_(0, 1, generator)).add_(mean);
  return out.normal_(0, 1, generator).mul_(std).add_(mean);
}

at::Tensor& normal_tensor_tensor_out(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator,
                                     at::Tensor& out) {
  TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
  at::native::resize_output(out, at::infer_size(mean.sizes(), std.sizes()));
  if (out.is_same(mean) || out.is_same(std)) {
    const at::Tensor fresh = at::empty_like(out).normal_(0, 1, generator).mul_(std).add_(mean);
    return out.copy_(fresh);
  }
  return out.normal_(0, 1, generator).mul_(std).add_(mean);
}

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, OptionalGenerator generator) {
  at::Tensor out = at::empty_like(mean, at::MemoryFormat::Contiguous);
  return normal_tensor_float_out(mean, std, generator, out);
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, OptionalGenerator generator) {
  at::Tensor out = at::empty_like(std, at::MemoryFormat::Contiguous);
  return normal_float_tensor_out(mean, std, generator, out);
}

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator) {
  at::Tensor out = at::empty(at::infer_size(mean.sizes(), std.sizes()), mean.options());
  return normal_tensor_tensor_out(mean, std, generator, out);
}

// The order of random 63-bit keys: two of them are equal with probability n^2 / 2^64.
at::Tensor& randperm_out(int64_t n, OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "randperm: n must be non-negative, got ", n);
  at::native::resize_output(out, {n});
  if (n == 0) return out;
  at::Tensor keys = at::empty({n}, out.options().dtype(at::kLong));
  random_(keys, generator);
  return out.copy_(at::argsort(keys));
}

namespace {

void check_weights(const char* op, const at::Tensor& weights, const at::Tensor& sums) {
  auto& stream = current(weights);
  TensorArgs args;
  MultinomialCheckParams p{};
  p.weights = args.read(weights);
  p.sums = args.read(sums);
  p.error = error_address(stream);
  p.n = static_cast<uint64_t>(weights.numel());
  p.classes = static_cast<uint32_t>(weights.size(1));
  p.tag = error_tag(op);
  launch(stream, kernel::multinomial_check(), {}, p, args, linear_grid(ceil_div(p.n, MultinomialCheckParams::kLocal)));
}

void pick_with_replacement(const at::Tensor& weights, at::Tensor& out, const OptionalGenerator& generator) {
  const at::Tensor sums = at::cumsum(weights, 1);
  auto& stream = current(weights);
  const auto state = runtime::philox_for(generator, weights.device().index(), 4);
  TensorArgs args;
  MultinomialPickParams p{};
  p.weights = args.read(weights);
  p.sums = args.read(sums);
  p.dst = args.write(out);
  p.n = static_cast<uint64_t>(out.numel());
  state.put_into(p);
  p.classes = static_cast<uint32_t>(weights.size(1));
  p.samples = static_cast<uint32_t>(out.size(1));
  launch(stream, kernel::multinomial_pick(), {}, p, args, linear_grid(ceil_div(p.n, MultinomialPickParams::kLocal)));
}

}  // namespace

// Without replacement: the largest weight / exponential draw (an exponential race). With replacement: prefix sums and
// a search.
at::Tensor multinomial(const at::Tensor& self, int64_t num_samples, bool replacement, OptionalGenerator generator) {
  const char* op = "multinomial";
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, op, ": prob_dist must be 1 or 2 dim");
  TORCH_CHECK(self.is_floating_point(), op,
              " only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(num_samples > 0, op, ": cannot sample n_sample <= 0 samples");
  const int64_t classes = self.size(-1);
  TORCH_CHECK(replacement || num_samples <= classes, op,
              ": cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(classes < (int64_t{1} << 24), op, ": number of categories cannot exceed 2^24");
  if (self.numel() == 0) {
    TORCH_CHECK(classes > 0 || self.dim() == 2, op, ": prob_dist has no categories");
    return at::empty(self.dim() == 1 ? at::DimVector{num_samples} : at::DimVector{self.size(0), num_samples},
                     self.options().dtype(at::kLong));
  }
  const at::Tensor rows = self.dim() == 1 ? self.unsqueeze(0) : self;
  const at::Tensor weights = rows.to(at::kFloat).contiguous();
  check_weights(op, weights, at::sum(weights, {1}));
  at::Tensor picked;
  if (replacement && num_samples > 1) {
    picked = at::empty({rows.size(0), num_samples}, self.options().dtype(at::kLong));
    pick_with_replacement(weights, picked, generator);
  } else {
    at::Tensor race = at::empty_like(weights);
    exponential_(race, 1.0, generator);
    race = weights.div(race);
    picked = num_samples == 1 ? at::argmax(race, 1, /*keepdim=*/true) : std::get<1>(at::topk(race, num_samples, 1));
  }
  return self.dim() == 1 ? picked.squeeze(0) : picked;
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t num_samples, bool replacement, OptionalGenerator generator,
                            at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  check_same_device("multinomial", {&self, &out});
  const at::Tensor picked = ops::multinomial(self, num_samples, replacement, generator);
  return hand_over(picked, out);
}

at::Tensor poisson(const at::Tensor& self, OptionalGenerator generator) {
  const char* op = "poisson";
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), op, ": expected a floating point tensor of rates, but got ",
                              self.scalar_type());
  const at::Tensor rates = self.to(at::kFloat).contiguous();
  at::Tensor out = at::empty_like(rates);
  if (out.numel() == 0) return out.to(self.scalar_type());
  auto& stream = current(rates);
  // 128 draws at most for each element.
  const auto state = runtime::philox_for(generator, rates.device().index(), 4 * 128);
  TensorArgs args;
  PoissonParams p{};
  p.rates = args.read(rates);
  p.dst = args.write(out);
  p.error = error_address(stream);
  p.n = static_cast<uint64_t>(rates.numel());
  state.put_into(p);
  p.tag = error_tag(op);
  launch(stream, kernel::poisson(), {}, p, args, linear_grid(ceil_div(p.n, PoissonParams::kLocal)));
  return out.to(self.scalar_type());
}

}  // namespace aule::ops
