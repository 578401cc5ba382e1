// In-place distributions: one kernel, shaders/random/random_fill.comp.
#include "ops/random/random.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_as_real.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels_random.gen.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/generator.h"

namespace aule::ops {
namespace {

enum class Kind : int {
#define RANDOM_KIND(code, name) name = code,
#include "random/kinds.def"
#undef RANDOM_KIND
};

struct Distribution {
  Kind kind;
  double a = 0, b = 0;
  int64_t base = 0;
  uint64_t range = 0;
  at::Tensor probabilities = {};
};

constexpr uint64_t kDraws = 8;  // counter steps: two draws of 4 words

at::Tensor& fill(const char* op, at::Tensor& self, const Distribution& d, const OptionalGenerator& generator) {
  at::assert_no_internal_overlap(self);
  if (self.numel() == 0) return self;
  // Elements are numbered in logical order, so that results do not depend on strides.
  const bool direct = self.is_contiguous();
  at::Tensor dense = direct ? self : at::empty_like(self, at::MemoryFormat::Contiguous);
  const DType dtype = dtype_of(self, op);
  const DType p_dtype = d.probabilities.defined() ? dtype_of(d.probabilities, op) : DType::f32;
  const bool wide = dtype == DType::f64 || p_dtype == DType::f64;
  const auto kernel = kernel::random_fill(wide ? DType::f64 : DType::f32);
  const int device = self.device().index();
  TORCH_CHECK_NOT_IMPLEMENTED(!wide || supports(device, kernel.id), op, ": this device has no float64 arithmetic");

  auto& stream = current(self);
  const auto state = runtime::philox_for(generator, device, kDraws);
  TensorArgs args;
  RandomFillParams p{};
  p.dst = args.write(dense);
  p.probabilities = d.probabilities.defined() ? args.read(d.probabilities) : 0;
  p.error = error_address(stream);
  p.n = static_cast<uint64_t>(dense.numel());
  state.put_into(p);
  p.range = d.range;
  p.base = d.base;
  p.a_bits = std::bit_cast<uint64_t>(d.a);
  p.b_bits = std::bit_cast<uint64_t>(d.b);
  p.a = static_cast<float>(d.a);
  p.b = static_cast<float>(d.b);
  p.tag = error_tag(op);
  launch(stream, kernel, {.dtype = dtype, .kind = static_cast<int>(d.kind), .p_dtype = p_dtype}, p, args,
         linear_grid(ceil_div(p.n, kPhiloxElements)));
  if (!direct) self.copy_(dense);
  return self;
}

// Largest integer up to which a dtype holds every integer.
int64_t exact_integers(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return int64_t{1} << 53;
    case at::kFloat: return int64_t{1} << 24;
    case at::kHalf: return int64_t{1} << 11;
    case at::kBFloat16: return int64_t{1} << 8;
    case at::kBool: return 1;
    case at::kByte: return std::numeric_limits<uint8_t>::max();
    case at::kChar: return std::numeric_limits<int8_t>::max();
    case at::kShort: return std::numeric_limits<int16_t>::max();
    case at::kInt: return std::numeric_limits<int32_t>::max();
    default: return std::numeric_limits<int64_t>::max();
  }
}

int64_t lowest_integer(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kByte: return 0;
    case at::kChar: return std::numeric_limits<int8_t>::min();
    case at::kShort: return std::numeric_limits<int16_t>::min();
    case at::kInt: return std::numeric_limits<int32_t>::min();
    case at::kLong: return std::numeric_limits<int64_t>::min();
    case at::kHalf: return -65504;
    default: return std::numeric_limits<int64_t>::min();
  }
}
int64_t highest_integer(at::ScalarType type) {
  if (type == at::kHalf) return 65504;
  return at::isFloatingType(type) ? std::numeric_limits<int64_t>::max() : exact_integers(type);
}

at::Tensor& fill_integers(const char* op, at::Tensor& self, int64_t from, int64_t last,
                          const OptionalGenerator& generator) {
  TORCH_CHECK(from >= lowest_integer(self.scalar_type()) && from <= highest_integer(self.scalar_type()), op,
              ": from is out of bounds for ", self.scalar_type());
  TORCH_CHECK(last >= lowest_integer(self.scalar_type()) && last <= highest_integer(self.scalar_type()), op,
              ": to - 1 is out of bounds for ", self.scalar_type());
  Distribution d{Kind::integer};
  d.base = from;
  d.range = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
  return fill(op, self, d, generator);
}

}  // namespace

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator) {
  const char* op = "uniform_";
  if (self.is_complex()) {
    at::Tensor real = at::view_as_real(self);
    uniform_(real, from, to, generator);
    return self;
  }
  check_floating(op, self);
  TORCH_CHECK(from <= to, op, " expects to return a [from, to) range, but found from=", from, " > to=", to);
  TORCH_CHECK(std::isfinite(to - from), op, " expects to-from to be finite, but found to=", to, " and from=", from);
  return fill(op, self, {Kind::uniform, from, to}, generator);
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  const char* op = "normal_";
  TORCH_CHECK(std >= 0.0, op, " expects std >= 0.0, but found std ", std);
  if (self.is_complex()) {
    // Half of the variance in each part.
    at::Tensor real = at::view_as_real(self);
    normal_(real, mean, std / std::sqrt(2.0), generator);
    return self;
  }
  check_floating(op, self);
  return fill(op, self, {Kind::normal, mean, std}, generator);
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  const char* op = "log_normal_";
  TORCH_CHECK(std > 0.0, op, " expects std > 0.0, but found std=", std);
  check_floating(op, self);
  return fill(op, self, {Kind::log_normal, mean, std}, generator);
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, OptionalGenerator generator) {
  const char* op = "cauchy_";
  TORCH_CHECK(sigma > 0.0, op, " expects sigma > 0.0, but found sigma=", sigma);
  check_floating(op, self);
  return fill(op, self, {Kind::cauchy, median, sigma}, generator);
}

at::Tensor& exponential_(at::Tensor& self, double lambd, OptionalGenerator generator) {
  const char* op = "exponential_";
  TORCH_CHECK(lambd > 0.0, op, " expects lambda > 0.0, but found lambda=", lambd);
  check_floating(op, self);
  return fill(op, self, {Kind::exponential, lambd}, generator);
}

at::Tensor& geometric_(at::Tensor& self, double p, OptionalGenerator generator) {
  const char* op = "geometric_";
  TORCH_CHECK(0 < p && p < 1, op, " expects p to be in (0, 1), but got p=", p);
  return fill(op, self, {Kind::geometric, p, std::log1p(-p)}, generator);
}

at::Tensor& bernoulli_float_(at::Tensor& self, double p, OptionalGenerator generator) {
  const char* op = "bernoulli_";
  TORCH_CHECK(0 <= p && p <= 1, op, " expects p to be in [0, 1], but got p=", p);
  Distribution d{Kind::bernoulli, p};
  d.range = static_cast<uint64_t>(std::round(std::ldexp(p, 32)));
  return fill(op, self, d, generator);
}

at::Tensor& bernoulli_tensor_(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  const char* op = "bernoulli_";
  TORCH_CHECK(p.is_floating_point(), op, ": expected probabilities to have floating type, got ", p.scalar_type());
  at::assert_no_overlap(self, p);
  // A 0-dim CPU tensor is a number.
  const at::Tensor here = p.device() == self.device() ? p : p.to(self.device());
  Distribution d{Kind::bernoulli_tensor};
  d.probabilities = here.expand(self.sizes()).contiguous();
  return fill(op, self, d, generator);
}

at::Tensor& bernoulli_out(const at::Tensor& self, OptionalGenerator generator, at::Tensor& out) {
  check_same_device("bernoulli", {&self, &out});
  at::native::resize_output(out, self.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(),
                              "bernoulli: expected a floating point tensor of probabilities, but got ",
                              self.scalar_type());
  if (!out.is_same(self)) return bernoulli_tensor_(out, self, generator);
  return out.copy_(bernoulli_tensor_(out, self.clone(), generator));
}

at::Tensor& random_(at::Tensor& self, OptionalGenerator generator) {
  return fill_integers("random_", self, 0, exact_integers(self.scalar_type()), generator);
}

at::Tensor& random_to_(at::Tensor& self, int64_t to, OptionalGenerator generator) {
  return random_from_(self, 0, to, generator);
}

at::Tensor& random_from_(at::Tensor& self, int64_t from, std::optional<int64_t> to, OptionalGenerator generator) {
  const char* op = "random_";
  if (to.has_value()) {
    TORCH_CHECK(from < *to, op, " expects 'from' to be less than 'to', but got from=", from, " >= to=", *to);
    return fill_integers(op, self, from, *to - 1, generator);
  }
  return fill_integers(op, self, from, exact_integers(self.scalar_type()), generator);
}

}  // namespace aule::ops
