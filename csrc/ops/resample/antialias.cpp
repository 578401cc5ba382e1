#include "ops/resample/antialias.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "kernels_resample.gen.h"
#include "ops/resample/resample.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kOp = "upsample (antialias)";

double filtered(Antialias filter, double x) {
  x = std::abs(x);
  const auto sinc = [](double y) { return y == 0 ? 1 : std::sin(std::numbers::pi * y) / (std::numbers::pi * y); };
  switch (filter) {
    case Antialias::linear: return x < 1 ? 1 - x : 0;
    case Antialias::lanczos: return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    default: return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
  }
}

struct Axis {
  Antialias filter;
  int64_t inputs, outputs;
  double scale;  // inputs per output

  double support() const { return (static_cast<double>(filter) + 1) * std::max(scale, 1.0); }
  int64_t taps() const { return std::min(inputs, 2 * static_cast<int64_t>(std::ceil(support())) + 1); }
  uint64_t outputs_of_input() const {
    return scale <= 0 ? static_cast<uint64_t>(outputs)
                      : std::min(static_cast<uint64_t>(outputs), static_cast<uint64_t>(2 * support() / scale) + 8);
  }
  // Binary places of integer weights, so that the largest fits 16 bits: images of 8 bits are compared exactly.
  int bits() const {
    double largest = 0;
    const double shrink = 1 / std::max(scale, 1.0);
    for (int64_t o = 0; o < outputs; ++o) {
      const double center = scale * (static_cast<double>(o) + 0.5);
      const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support() + 0.5), 0);
      const int64_t last = std::min<int64_t>(static_cast<int64_t>(center + support() + 0.5), inputs);
      double most = 0, total = 0;
      for (int64_t i = first; i < last; ++i) {
        const double w = filtered(filter, (static_cast<double>(i) - center + 0.5) * shrink);
        total += w;
        most = std::max(most, w);
      }
      if (total != 0) largest = std::max(largest, most / total);
    }
    int bits = 0;
    while (bits < 22 && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < 1 << 15) ++bits;
    return std::max(bits, 1);
  }
};

Axis axis_of(Antialias filter, int64_t inputs, int64_t outputs, bool align_corners, const Scale& scale) {
  const auto in = static_cast<double>(inputs), out = static_cast<double>(outputs);
  if (align_corners) return {filter, inputs, outputs, outputs > 1 ? (in - 1) / (out - 1) : 0.0};
  return {filter, inputs, outputs, scale.has_value() && *scale > 0 ? 1.0 / *scale : in / out};
}

struct Table {
  at::Tensor ranges, weights;
  int bits = 0;
};

Table table_of(const Axis& axis, at::ScalarType type, const at::Tensor& like) {
  const bool integer = type == at::kByte;
  const int device = like.device().index();
  // Integer weights are rounded from double where the device has it, as the CPU's are.
  const bool wide = integer ? supports(device, kernel::antialias_weights(DType::f64).id) : type == at::kDouble;
  const auto kernel = kernel::antialias_weights(wide ? DType::f64 : DType::f32);
  TORCH_CHECK_NOT_IMPLEMENTED(supports(device, kernel.id), kOp, ": this device has no float64 arithmetic");
  const int64_t taps = axis.taps();
  check_walk(kOp, caps_of(like), static_cast<uint64_t>(2 * taps) * (axis.filter == Antialias::lanczos ? 21 : 1));
  Table table{at::empty({axis.outputs, 2}, like.options().dtype(at::kInt)),
              at::empty({axis.outputs, taps}, like.options().dtype(integer ? at::kInt
                                                                   : wide  ? at::kDouble
                                                                           : at::kFloat)),
              integer ? axis.bits() : 0};
  TensorArgs args;
  AntialiasWeightsParams p{};
  p.ranges = args.write(table.ranges);
  p.weights = args.write(table.weights);
  p.scale_bits = std::bit_cast<uint64_t>(axis.scale);
  p.scale = static_cast<float>(axis.scale);
  p.inputs = static_cast<int>(axis.inputs);
  p.outputs = static_cast<int>(axis.outputs);
  p.taps = static_cast<int>(taps);
  p.bits = table.bits;
  launch(current(like), kernel, {.filter = static_cast<int>(axis.filter), .integer = integer}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(axis.outputs), AntialiasWeightsParams::kLocal)));
  return table;
}

// `type` is that of the images and decides the arithmetic. `in` and `out` are contiguous, of one axis with `inner`
// behind it.
void run(const Axis& axis, bool backward, at::ScalarType type, int64_t inner, const at::Tensor& in,
         const at::Tensor& out) {
  const auto kernel = kernel::antialias(type == at::kDouble ? DType::f64 : DType::f32);
  const Table table = table_of(axis, type, in);
  if (backward) check_walk(kOp, caps_of(in), axis.outputs_of_input());
  TensorArgs args;
  AntialiasParams p{};
  p.in_ = args.read(in);
  p.out_ = args.write(out);
  p.ranges = args.read(table.ranges);
  p.weights = args.read(table.weights);
  p.n = static_cast<uint64_t>(out.numel());
  p.inner = static_cast<uint64_t>(inner);
  p.inputs = static_cast<int>(axis.inputs);
  p.outputs = static_cast<int>(axis.outputs);
  p.taps = static_cast<int>(axis.taps());
  p.bits = table.bits;
  p.scale = static_cast<float>(axis.scale);
  p.reach = static_cast<float>(axis.support() + 1);
  launch(current(in), kernel, {.in_dtype = dtype_of(in, kOp), .out_dtype = dtype_of(out, kOp), .backward = backward}, p,
         args, linear_grid(ceil_div(p.n, AntialiasParams::kLocal)));
}

// Between the passes floats are not rounded to 16 bits; bytes are, as on the CPU.
at::ScalarType between(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type; }

void check_images(const at::Tensor& t, bool bytes) {
  const at::ScalarType type = t.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kHalf || type == at::kBFloat16 || type == at::kDouble ||
                                  (bytes && type == at::kByte),
                              kOp, ": no kernel for ", type);
  TORCH_CHECK(t.dim() == 4, kOp, ": expected a 4-D tensor, got shape ", t.sizes());
}

}  // namespace

void upsample_antialias(Antialias filter, const at::Tensor& self, at::IntArrayRef output_size, bool align_corners,
                        std::array<Scale, 2> scales, const at::Tensor& out) {
  check_images(self, true);
  at::native::resize_output(out, {self.size(0), self.size(1), output_size[0], output_size[1]});
  const at::Tensor x = self.contiguous();
  into(out, [&](const at::Tensor& o) {
    const Axis height = axis_of(filter, x.size(2), o.size(2), align_corners, scales[0]);
    const Axis width = axis_of(filter, x.size(3), o.size(3), align_corners, scales[1]);
    const at::ScalarType type = x.scalar_type();
    const at::Tensor rows = at::empty({x.size(0), x.size(1), x.size(2), o.size(3)}, x.options().dtype(between(type)));
    run(width, false, type, 1, x, rows);
    run(height, false, type, o.size(3), rows, o);
  });
}

void upsample_antialias_backward(Antialias filter, const at::Tensor& grad_output, at::IntArrayRef,
                                 at::IntArrayRef input_size, bool align_corners, std::array<Scale, 2> scales,
                                 const at::Tensor& grad_input) {
  check_images(grad_output, false);
  at::native::resize_output(grad_input, input_size);
  const at::Tensor g = grad_output.contiguous();
  into(grad_input, [&](const at::Tensor& o) {
    const Axis height = axis_of(filter, o.size(2), g.size(2), align_corners, scales[0]);
    const Axis width = axis_of(filter, o.size(3), g.size(3), align_corners, scales[1]);
    const at::ScalarType type = g.scalar_type();
    const at::Tensor rows = at::empty({g.size(0), g.size(1), o.size(2), g.size(3)}, g.options().dtype(between(type)));
    run(height, true, type, g.size(3), g, rows);
    run(width, true, type, 1, rows, o);
  });
}

}  // namespace aule::ops
