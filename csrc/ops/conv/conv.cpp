#include "ops/conv/conv.h"

#include <ATen/Context.h>
#include <c10/util/accumulate.h>

#include "ops/conv/columns.h"
#include "ops/conv/extent.h"
#include "ops/conv/launch.h"
#include "ops/matmul/kernels/bf16x3.h"
#include "ops/matmul/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using Extent = ConvGeometry::Extent;

// Only columns and products serve these dtypes, in groups too.
bool is_wide(const at::Tensor& t) { return t.scalar_type() == at::kDouble || !t.is_floating_point(); }

at::Tensor sum_of_channels(const at::Tensor& gy) {
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < gy.dim(); ++d) dims.push_back(d);
  return gy.sum(dims);
}

void check_inputs(const char* op, const at::Tensor& input, const at::Tensor& weight) {
  check_same_device(op, {&input, &weight});
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), op, ": expected input and weight of one dtype, got ",
              input.scalar_type(), " and ", weight.scalar_type());
  const auto type = input.scalar_type();
  const bool is_double = c10::toRealValueType(type) == at::kDouble;
  const bool serves = input.is_complex() ? type != at::kComplexHalf : has_dtype(type) && type != at::kBool;
  TORCH_CHECK_NOT_IMPLEMENTED(serves && (!is_double || caps_of(input).float64), op, ": dtype ", type,
                              " has no kernel on this device");
  TORCH_CHECK_NOT_IMPLEMENTED(input.dim() >= 3 && input.dim() <= 5, op,
                              ": expected 1 to 3 spatial dimensions, got input of shape ", input.sizes());
}

// The memory format of results, as on PyTorch's own devices; torch_aule/ops/convolution.py tells the compiler.
at::MemoryFormat format_of(const at::Tensor& x, const at::Tensor& w) {
  const auto own = x.suggest_memory_format();
  return own == at::MemoryFormat::Contiguous ? w.suggest_memory_format() : own;
}

// PyTorch's setting for convolutions alone (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.conv.fp32_precision),
// whose default is TF32.
Float32Precision convolutions_precision() {
  return at::globalContext().allowTF32CuDNN(at::Float32Op::CONV) ? Float32Precision::high : Float32Precision::highest;
}

// Values that all passes of a convolution share. `image` and `places` say sizes; one of them may be a result that is
// not made.
struct Convolution {
  ConvGeometry g;
  at::IntArrayRef image, places;  // sizes
  int64_t groups = 1;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  bool transposed = false;

  // A pass over these operands, of which the result is undefined.
  ConvCall call(ConvPass pass, const at::Tensor& image_, const at::Tensor& weight, const at::Tensor& places_,
                at::IntArrayRef result_sizes) const {
    const at::Tensor& one = image_.defined() ? image_ : places_;
    ConvProblem p{.g = g, .pass = pass, .only_columns = is_wide(one)};
    p.is_empty = c10::multiply_integers(image) == 0 || c10::multiply_integers(places) == 0;
    p.images = image[0];
    p.channels = image[1];
    p.out_channels = places[1];
    p.groups = groups;
    if (!p.only_columns) {
      p.dtype = dtype_of(one, "convolution");
      p.channels_last = format == at::MemoryFormat::ChannelsLast;
      if (groups != 1)
        for (const at::Tensor* t : {&image_, &places_})
          if (t->defined() && t->is_contiguous(format)) p.addresses |= address_of(*t);
      if (p.dtype == DType::f32 && groups == 1 && may_take_bf16x3(caps_of(one)))
        p.precision = asked_float32_precision().value_or(convolutions_precision());
    }
    return {.problem = p,
            .image = image_,
            .weight = weight,
            .places = places_,
            .bias = {},
            .result_sizes = result_sizes,
            .result_type = one.scalar_type(),
            .format = format,
            .transposed = transposed};
  }
};

ConvPlan plan_of(const ConvCall& call) {
  const at::Tensor& t = call.operand();
  const Overrides& own = overrides();
  const auto device = static_cast<int>(t.get_device());
  ConvUnits units{matrix_units(device, multiplied_dtype(call.problem, own)), {}};
  if (call.problem.dtype == DType::f32 && call.problem.precision == Float32Precision::high)
    units.of_halves = matrix_units(device, DType::f16);
  return conv_route(profile_of(t), units, call.problem, own);
}

}  // namespace

at::Tensor convolution_overrideable(const at::Tensor& input, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                    at::IntArrayRef output_padding, int64_t groups) {
  check_inputs("convolution", input, weight);
  const int64_t spatial = input.dim() - 2;
  const at::Tensor &x = input, &w = weight;
  const Extent kernel = extent(w.sizes().slice(2), spatial, 1), s = extent(stride, spatial, 1),
               pad = extent(padding, spatial, 0), dil = extent(dilation, spatial, 1),
               extra = extent(output_padding, spatial, 0), size = extent(x.sizes().slice(2), spatial, 1);
  Extent result{};
  std::vector<int64_t> shape{x.size(0), transposed ? w.size(1) * groups : w.size(0)};
  for (size_t d = 0; d < 3; ++d) {
    const int32_t reach = dil[d] * (kernel[d] - 1);
    result[d] = transposed ? (size[d] - 1) * s[d] - 2 * pad[d] + reach + 1 + extra[d]
                           : (size[d] + 2 * pad[d] - reach - 1) / s[d] + 1;
    if (static_cast<int64_t>(d) >= 3 - spatial) shape.push_back(result[d]);
  }
  // A transposed convolution is the input gradient of the convolution that maps its result to `x`.
  const Convolution conv{.g = transposed ? ConvGeometry{result, size, kernel, s, pad, dil}
                                         : ConvGeometry{size, result, kernel, s, pad, dil},
                         .image = transposed ? at::IntArrayRef(shape) : x.sizes(),
                         .places = transposed ? x.sizes() : at::IntArrayRef(shape),
                         .groups = groups,
                         .format = format_of(x, w),
                         .transposed = transposed};
  ConvCall call =
      transposed ? conv.call(ConvPass::input, {}, w, x, shape) : conv.call(ConvPass::forward, x, w, {}, shape);
  const ConvPlan plan = plan_of(call);
  const bool has_bias = bias.has_value() && bias->defined();
  const bool in_kernel =
      has_bias && plan.adds_bias() && bias->is_contiguous() && bias->scalar_type() == x.scalar_type();
  if (in_kernel) call.bias = *bias;
  // Columns leave their sums unrounded until the bias is added.
  if (has_bias && std::holds_alternative<ColumnsPlan>(plan.kernel) && groups == 1)
    call.result_type = sum_type(x.scalar_type());
  at::Tensor out = launch_plan(call, plan);
  if (has_bias && !in_kernel) {
    std::vector<int64_t> per_channel(static_cast<size_t>(out.dim()), 1);
    per_channel[1] = -1;
    out.add_(bias->view(per_channel));
  }
  return out.to(x.scalar_type()).contiguous(conv.format);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef, int64_t groups,
    std::array<bool, 3> output_mask) {
  check_inputs("convolution_backward", input, weight);
  const int64_t spatial = input.dim() - 2;
  const at::Tensor &x = input, &gy = grad_output;
  const Extent kernel = extent(weight.sizes().slice(2), spatial, 1), s = extent(stride, spatial, 1),
               pad = extent(padding, spatial, 0), dil = extent(dilation, spatial, 1),
               x_size = extent(x.sizes().slice(2), spatial, 1), y_size = extent(gy.sizes().slice(2), spatial, 1);
  // A transposed convolution is described by the one that maps gy to x.
  const at::Tensor &image = transposed ? gy : x, &places = transposed ? x : gy;
  const Convolution conv{.g = transposed ? ConvGeometry{y_size, x_size, kernel, s, pad, dil}
                                         : ConvGeometry{x_size, y_size, kernel, s, pad, dil},
                         .image = image.sizes(),
                         .places = places.sizes(),
                         .groups = groups,
                         .format = format_of(x, weight),
                         .transposed = transposed};
  at::Tensor gx, gw, gb;
  std::optional<ConvCall> of_input, of_weight;
  if (output_mask[0]) {
    const at::Tensor w = weight.is_complex() ? weight.conj() : weight;
    of_input = transposed ? conv.call(ConvPass::forward, gy, w, {}, x.sizes())
                          : conv.call(ConvPass::input, {}, w, gy, x.sizes());
  }
  if (output_mask[1]) of_weight = conv.call(ConvPass::weight, image, {}, places, weight.sizes());
  SharedOperand shared{.tensor = gy};
  const auto run = [&](ConvCall& call) {
    const ConvPlan plan = plan_of(call);
    call.shared = &shared;
    if (plan.reads_contiguous()) {
      if (!shared.contiguous.defined()) shared.contiguous = gy.contiguous();
      at::Tensor& operand = transposed ? call.image : call.places;
      operand = shared.contiguous;
    }
    return launch_plan(call, plan).contiguous(conv.format);
  };
  if (of_input) gx = run(*of_input);
  if (of_weight) gw = run(*of_weight);
  if (output_mask[2]) gb = sum_of_channels(gy);
  return {gx, gw, gb};
}

}  // namespace aule::ops
