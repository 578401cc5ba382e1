#include "ops/factory/sequences.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels_factory.gen.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

enum class Kind : int {
#define SEQUENCE_KIND(code, name) name = code,
#include "factory/sequence_kinds.def"
#undef SEQUENCE_KIND
};

struct Sequence {
  Kind kind;
  double start = 0, step = 0, end = 0, base = 1;
  int64_t integer_start = 0, integer_step = 0;
};

float low_part(double x) { return static_cast<float>(x - static_cast<double>(static_cast<float>(x))); }

at::Tensor& write(const char* op, at::Tensor& out, const Sequence& s) {
  if (out.numel() == 0) return out;
  const DType dtype = dtype_of(out, op);
  const int device = out.device().index();
  // With truncation to integers the last digit of a fraction decides. So this is float64, by integer code if the device
  // has none.
  const bool exact = dtype == DType::f64 || (!is_floating(dtype) && s.kind != Kind::integer);
  auto kernel = kernel::sequence(exact ? DType::f64 : DType::f32);
  const bool bits = exact && !supports(device, kernel.id) && s.kind != Kind::power;
  TORCH_CHECK_NOT_IMPLEMENTED(!exact || bits || supports(device, kernel.id), op,
                              ": this device has no float64 arithmetic");
  const bool direct = out.is_contiguous();
  at::Tensor dense = direct ? out : at::empty_like(out, at::MemoryFormat::Contiguous);
  auto& stream = current(out);
  TensorArgs args;
  if (bits) {
    SequenceDoubleBitsParams p{};
    p.dst = args.write(dense);
    p.n = static_cast<uint64_t>(dense.numel());
    p.integer_start = s.integer_start;
    p.integer_step = s.integer_step;
    p.start = std::bit_cast<uint64_t>(s.start);
    p.step = std::bit_cast<uint64_t>(s.step);
    p.end = std::bit_cast<uint64_t>(s.end);
    const SequenceDoubleBitsSpec spec{.dtype = dtype, .kind = static_cast<int>(s.kind)};
    launch(stream, kernel::sequence_double_bits(), spec, p, args,
           linear_grid(ceil_div(p.n, SequenceDoubleBitsParams::kLocal)));
    return direct ? out : out.copy_(dense);
  }
  SequenceParams p{};
  p.dst = args.write(dense);
  p.n = static_cast<uint64_t>(dense.numel());
  p.integer_start = s.integer_start;
  p.integer_step = s.integer_step;
  p.start_bits = std::bit_cast<uint64_t>(s.start);
  p.step_bits = std::bit_cast<uint64_t>(s.step);
  p.end_bits = std::bit_cast<uint64_t>(s.end);
  p.start = static_cast<float>(s.start);
  p.start_low = low_part(s.start);
  p.step = static_cast<float>(s.step);
  p.step_low = low_part(s.step);
  p.end = static_cast<float>(s.end);
  p.end_low = low_part(s.end);
  p.log2_base = static_cast<float>(std::log2(s.base));
  launch(stream, kernel, {.dtype = dtype, .kind = static_cast<int>(s.kind)}, p, args,
         linear_grid(ceil_div(p.n, SequenceParams::kLocal)));
  return direct ? out : out.copy_(dense);
}

void check_range(const char* op, double start, double end, double step) {
  TORCH_CHECK(step > 0 || step < 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(start) && std::isfinite(end), "unsupported range: ", start, " -> ", end);
  TORCH_CHECK((step > 0 && end >= start) || (step < 0 && end <= start), op,
              ": upper bound and lower bound inconsistent with step sign");
}

bool integral(double x) { return std::abs(x) < 9.0e15 && x == std::floor(x); }

// Integer sequences begin and end at integers.
double endpoint(const at::Scalar& value, const at::Tensor& out) {
  return at::isIntegralType(out.scalar_type(), /*includeBool=*/true) ? static_cast<double>(value.to<int64_t>())
                                                                     : value.toDouble();
}

// start + i * step for i in [0, n).
at::Tensor& write_steps(const char* op, int64_t n, const at::Scalar& start, const at::Scalar& step, at::Tensor& out) {
  at::native::resize_output(out, {n});
  Sequence s{Kind::real, start.toDouble(), step.toDouble()};
  const bool integers = at::isIntegralType(out.scalar_type(), /*includeBool=*/true);
  if (integers || (integral(s.start) && integral(s.step))) {
    s.kind = Kind::integer;
    s.integer_start = start.toLong();
    s.integer_step = step.toLong();
  }
  return write(op, out, s);
}

// The real and the imaginary parts are sequences of their own.
at::Tensor& complex_linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  at::native::resize_output(out, {steps});
  const auto first = start.toComplexDouble(), last = end.toComplexDouble();
  const at::Tensor parts = at::view_as_real(out);
  at::Tensor real = parts.select(-1, 0), imaginary = parts.select(-1, 1);
  linspace_out(first.real(), last.real(), steps, real);
  linspace_out(first.imag(), last.imag(), steps, imaginary);
  return out;
}

}  // namespace

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const char* op = "arange";
  check_range(op, start.toDouble(), end.toDouble(), step.toDouble());
  double count;
  if (out.scalar_type() == at::kLong) {
    // Beyond 2^53 a double would miscount.
    const int64_t first = start.toLong(), last = end.toLong(), by = step.toLong();
    TORCH_CHECK_VALUE(by != 0, "step must be nonzero");
    const int64_t sign = (by > 0) - (by < 0);
    count = std::ceil(static_cast<double>((last - first + by - sign) / by));
  } else {
    count = std::ceil((end.toDouble() - start.toDouble()) / step.toDouble());
  }
  TORCH_CHECK(count >= 0 && count < 9.2e18, op, ": invalid size, possible overflow?");
  return write_steps(op, static_cast<int64_t>(count), start, step, out);
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const char* op = "range";
  check_range(op, start.toDouble(), end.toDouble(), step.toDouble());
  const double count = std::floor((end.toDouble() - start.toDouble()) / step.toDouble()) + 1;
  TORCH_CHECK(count >= 0 && count < 9.2e18, op, ": invalid size, possible overflow?");
  return write_steps(op, static_cast<int64_t>(count), start, step, out);
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  const char* op = "linspace";
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.is_complex()) return complex_linspace_out(start, end, steps, out);
  at::native::resize_output(out, {steps});
  Sequence s{Kind::linear, endpoint(start, out), 0, endpoint(end, out)};
  if (steps == 1)
    s.end = s.start;
  else
    s.step = (s.end - s.start) / static_cast<double>(steps - 1);
  return write(op, out, s);
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  const char* op = "logspace";
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  at::native::resize_output(out, {steps});
  if (out.is_complex()) {
    at::Tensor exponents = at::empty({steps}, out.options());
    ops::linspace_out(start, end, steps, exponents);
    return at::pow_out(out, base, exponents);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(base > 0, op, ": bases up to 0 are not supported on aule");
  const bool integers = at::isIntegralType(out.scalar_type(), /*includeBool=*/true);
  if ((integers || out.scalar_type() == at::kDouble) && caps_of(out).float64) {
    at::Tensor exponents = at::empty({steps}, out.options().dtype(at::kDouble));
    ops::linspace_out(endpoint(start, out), endpoint(end, out), steps, exponents);
    at::Tensor powers = at::pow(base, exponents);
    if (integers) {
      // A power that differs from a whole number by rounding only is that number, and is not truncated below it.
      const at::Tensor whole = powers.round();
      powers = at::where(powers.sub(whole).abs().le(whole.abs().mul(1e-14)), whole, powers);
    }
    return out.copy_(powers);
  }
  Sequence s{Kind::power, endpoint(start, out), 0, endpoint(end, out), base};
  if (steps == 1)
    s.end = s.start;
  else
    s.step = (s.end - s.start) / static_cast<double>(steps - 1);
  return write(op, out, s);
}

at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  at::native::resize_output(out, {n, m});
  out.zero_();
  if (out.numel() > 0) out.diagonal().fill_(1);
  return out;
}

namespace {

// Elements at or below the diagonal in all rows (the shader's lower_count with r = rows).
int64_t lower_count(int64_t rows, int64_t columns, int64_t offset) {
  const int64_t first = std::clamp<int64_t>(-offset, 0, rows);
  const int64_t full = std::clamp<int64_t>(columns - offset - 1, first, rows);
  const int64_t k = full - first;
  return k * (first + offset + 1) + k * (k - 1) / 2 + (rows - full) * columns;
}

at::Tensor triangle(const char* op, bool upper, int64_t row, int64_t col, int64_t offset,
                    std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                    std::optional<at::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(row >= 0, op, ": row must be non-negative, got ", row);
  TORCH_CHECK(col >= 0, op, ": col must be non-negative, got ", col);
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, op, ": only layout=torch.strided is supported, got ",
              *layout);
  const int64_t n = upper ? row * col - lower_count(row, col, offset - 1) : lower_count(row, col, offset);
  at::Tensor out =
      at::empty({2, n}, at::TensorOptions().dtype(dtype.value_or(at::kLong)).device(device).pinned_memory(pin_memory));
  if (n == 0) return out;
  auto& stream = current(out);
  TensorArgs args;
  TriangleIndicesParams p{};
  p.dst = args.write(out);
  p.n = n;
  p.rows = row;
  p.columns = col;
  p.offset = offset;
  launch(stream, kernel::triangle_indices(), {.dtype = dtype_of(out, op), .upper = upper}, p, args,
         linear_grid(ceil_div(n, TriangleIndicesParams::kLocal)));
  return out;
}

}  // namespace

at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pin_memory) {
  return triangle("tril_indices", false, row, col, offset, dtype, layout, device, pin_memory);
}

at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pin_memory) {
  return triangle("triu_indices", true, row, col, offset, dtype, layout, device, pin_memory);
}

}  // namespace aule::ops
