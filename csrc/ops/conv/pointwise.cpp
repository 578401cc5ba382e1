// Convolutions of one tap: matrix products, of the rows of channels-last images or of planes as they lie.
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "ops/conv/channels_last.h"
#include "ops/conv/launch.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

constexpr int64_t kLeastPlane = 64;  // smaller planes fill no tile

int64_t area_of(const at::Tensor& t) { return t.numel() / (t.size(0) * t.size(1)); }

// Every place of the image is one of the result's, and its planes are rows that products load in wide accesses.
bool lies_in_planes(const ConvGeometry& g, const at::Tensor& t) {
  const int64_t area = area_of(t);
  return g.is_identity() && t.is_contiguous() && area >= kLeastPlane && area % 4 == 0;
}
at::Tensor planes_of(const at::Tensor& t) { return t.view({t.size(0), t.size(1), area_of(t)}); }
std::vector<int64_t> sizes_with(const at::Tensor& t, int64_t channels) {
  std::vector<int64_t> sizes = t.sizes().vec();
  sizes[1] = channels;
  return sizes;
}

// matrix [channels, channels of t] times each image.
at::Tensor times_planes(const at::Tensor& matrix, const at::Tensor& t, const at::Tensor& bias) {
  at::Tensor out = at::empty(sizes_with(t, matrix.size(0)), t.options());
  const at::Tensor planes = planes_of(out);
  const at::Tensor added = bias.defined() ? bias.view({1, -1, 1}).expand(planes.sizes()) : at::Tensor();
  gemm("convolution", matrix.unsqueeze(0).expand({t.size(0), -1, -1}), planes_of(t), added, 1, 1, planes);
  return out;
}

// [images, depth, height, width, channels] at every stride-th place.
at::Tensor at_strides(const ConvGeometry& g, const at::Tensor& image) {
  at::Tensor t = image;
  for (size_t d = 0; d < 3; ++d) {
    if (g.stride[d] != 1) t = t.slice(static_cast<int64_t>(d) + 1, 0, std::nullopt, g.stride[d]);
  }
  return t;
}
at::Tensor rows_of(const at::Tensor& image, int64_t channels) {
  return image.contiguous().view({-1, image.size(4)}).narrow(1, 0, channels);
}
at::Tensor matrix_of(const at::Tensor& weight) { return weight.reshape({weight.size(0), weight.size(1)}); }
at::Tensor times(const at::Tensor& rows, const at::Tensor& matrix, const at::Tensor& bias) {
  return bias.defined() ? at::addmm(bias, rows, matrix) : at::mm(rows, matrix);
}

// Results are contiguous where the images are read as planes, else channels-last. The bias may be undefined.
at::Tensor pointwise_forward(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) {
  const at::Tensor w = matrix_of(weight);
  if (lies_in_planes(g, x)) return times_planes(w, x, bias);
  const at::Tensor out = times(rows_of(at_strides(g, channels_last(x)), w.size(1)), w.t(), bias);
  return channels_first(out.view({x.size(0), g.out_size[0], g.out_size[1], g.out_size[2], w.size(0)}), x.dim());
}

at::Tensor pointwise_backward_input(const ConvGeometry& g, const at::Tensor& weight, const at::Tensor& grad,
                                    const at::Tensor& bias, SharedOperand* shared) {
  const at::Tensor w = matrix_of(weight);
  if (lies_in_planes(g, grad)) return times_planes(w.t(), grad, bias);
  const int64_t images = grad.size(0), channels = w.size(1);
  const at::Tensor out = times(rows_of(channels_last(grad, shared), w.size(0)), w, bias)
                             .view({images, g.out_size[0], g.out_size[1], g.out_size[2], channels});
  if (g.stride == ConvGeometry::Extent{1, 1, 1}) return channels_first(out, grad.dim());
  const at::Tensor all = at::empty({images, g.size[0], g.size[1], g.size[2], channels}, grad.options());
  bias.defined() ? all.copy_(bias) : all.zero_();
  at_strides(g, all).copy_(out);
  return channels_first(all, grad.dim());
}

at::Tensor pointwise_backward_weight(const ConvGeometry& g, const at::Tensor& x, const at::Tensor& grad,
                                     SharedOperand* shared) {
  const int64_t images = x.size(0), channels = x.size(1), out_channels = grad.size(1);
  at::Tensor out;
  // A product for each image is written and added in float32: in planes while that is less than the images themselves.
  const int64_t products = images * out_channels * channels * 4,
                operands = (x.numel() + grad.numel()) * x.element_size();
  if (lies_in_planes(g, x) && grad.is_contiguous() && products <= operands) {
    const at::Tensor sums = at::empty({images, out_channels, channels}, x.options().dtype(at::kFloat));
    gemm("convolution_backward", planes_of(grad), planes_of(x).transpose(1, 2), {}, 0, 1, sums);
    out = (images == 1 ? sums[0] : at::sum(sums, at::IntArrayRef{0})).to(x.scalar_type());
  } else {
    out = at::mm(rows_of(channels_last(grad, shared), out_channels).t(),
                 rows_of(at_strides(g, channels_last(x)), channels));
  }
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[0] = out_channels;
  sizes[1] = channels;
  return out.view(sizes);
}

}  // namespace

at::Tensor launch_pointwise(const ConvCall& call) {
  const ConvGeometry& g = call.problem.g;
  switch (call.problem.pass) {
    case ConvPass::forward: return pointwise_forward(g, call.image, call.weight, call.bias);
    case ConvPass::input:
      return pointwise_backward_input(g, call.weight.contiguous(), call.places, call.bias, call.shared);
    case ConvPass::weight: break;
  }
  return pointwise_backward_weight(g, call.image, call.places, call.shared);
}

}  // namespace aule::ops
