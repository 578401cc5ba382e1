// Rows: interpolation, sampling at the positions of a grid, and edge padding.
#include "ops/resample/resample.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include "aten/register.h"
#include "ops/resample/antialias.h"
#include "ops/resample/grid_sample.h"

namespace aule::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using ops::EdgePad;
using ops::Interpolation;
using ops::Scale;

// One set of rows per number of spatial axes; linear and cubic take align_corners, nearest does not.
template <Interpolation mode>
struct Nearest {
  static Tensor& out1(const Tensor& self, IntArrayRef size, Scale w, Tensor& out) {
    ops::upsample(mode, self, size, false, {w}, out);
    return out;
  }
  static Tensor& out2(const Tensor& self, IntArrayRef size, Scale h, Scale w, Tensor& out) {
    ops::upsample(mode, self, size, false, {h, w}, out);
    return out;
  }
  static Tensor& out3(const Tensor& self, IntArrayRef size, Scale d, Scale h, Scale w, Tensor& out) {
    ops::upsample(mode, self, size, false, {d, h, w}, out);
    return out;
  }
  static Tensor& grad1(const Tensor& g, IntArrayRef size, IntArrayRef in, Scale w, Tensor& out) {
    ops::upsample_backward(mode, g, size, in, false, {w}, out);
    return out;
  }
  static Tensor& grad2(const Tensor& g, IntArrayRef size, IntArrayRef in, Scale h, Scale w, Tensor& out) {
    ops::upsample_backward(mode, g, size, in, false, {h, w}, out);
    return out;
  }
  static Tensor& grad3(const Tensor& g, IntArrayRef size, IntArrayRef in, Scale d, Scale h, Scale w, Tensor& out) {
    ops::upsample_backward(mode, g, size, in, false, {d, h, w}, out);
    return out;
  }
};
template <Interpolation mode>
struct Smooth {
  static Tensor& out1(const Tensor& self, IntArrayRef size, bool align, Scale w, Tensor& out) {
    ops::upsample(mode, self, size, align, {w}, out);
    return out;
  }
  static Tensor& out2(const Tensor& self, IntArrayRef size, bool align, Scale h, Scale w, Tensor& out) {
    ops::upsample(mode, self, size, align, {h, w}, out);
    return out;
  }
  static Tensor& out3(const Tensor& self, IntArrayRef size, bool align, Scale d, Scale h, Scale w, Tensor& out) {
    ops::upsample(mode, self, size, align, {d, h, w}, out);
    return out;
  }
  static Tensor& grad1(const Tensor& g, IntArrayRef size, IntArrayRef in, bool align, Scale w, Tensor& out) {
    ops::upsample_backward(mode, g, size, in, align, {w}, out);
    return out;
  }
  static Tensor& grad2(const Tensor& g, IntArrayRef size, IntArrayRef in, bool align, Scale h, Scale w, Tensor& out) {
    ops::upsample_backward(mode, g, size, in, align, {h, w}, out);
    return out;
  }
  static Tensor& grad3(const Tensor& g, IntArrayRef size, IntArrayRef in, bool align, Scale d, Scale h, Scale w,
                       Tensor& out) {
    ops::upsample_backward(mode, g, size, in, align, {d, h, w}, out);
    return out;
  }
};
template <ops::Antialias filter>
struct Antialiased {
  static Tensor& out(const Tensor& self, IntArrayRef size, bool align, Scale h, Scale w, Tensor& result) {
    ops::upsample_antialias(filter, self, size, align, {h, w}, result);
    return result;
  }
  static Tensor& grad(const Tensor& g, IntArrayRef size, IntArrayRef in, bool align, Scale h, Scale w, Tensor& result) {
    ops::upsample_antialias_backward(filter, g, size, in, align, {h, w}, result);
    return result;
  }
};
template <EdgePad mode, int dims>
struct Pad {
  static Tensor& out(const Tensor& self, IntArrayRef padding, Tensor& result) {
    ops::edge_pad(mode, dims, self, padding, result);
    return result;
  }
  static Tensor functional(const Tensor& self, IntArrayRef padding) {
    Tensor result = at::empty({0}, self.options());
    return out(self, padding, result);
  }
  static Tensor& grad_input(const Tensor& g, const Tensor& self, IntArrayRef padding, Tensor& result) {
    ops::edge_pad_backward(mode, dims, g, self, padding, result);
    return result;
  }
  static Tensor backward(const Tensor& g, const Tensor& self, IntArrayRef padding) {
    Tensor result = at::empty({0}, g.options());
    return grad_input(g, self, padding, result);
  }
};
using Near = Nearest<Interpolation::nearest>;
using Exact = Nearest<Interpolation::nearest_exact>;
using Linear = Smooth<Interpolation::linear>;
using Cubic = Smooth<Interpolation::cubic>;
template <int dims>
using Reflect = Pad<EdgePad::reflection, dims>;
template <int dims>
using Replicate = Pad<EdgePad::replication, dims>;

// PyTorch 2.11 has no such operator: its kernel would be left without a schema.
bool has_lanczos() {
  return c10::Dispatcher::singleton().findSchema({"aten::_upsample_lanczos2d_aa", "out"}).has_value();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("upsample_nearest1d.out", Near::out1));
  m.impl(ROW("upsample_nearest2d.out", Near::out2));
  m.impl(ROW("upsample_nearest3d.out", Near::out3));
  m.impl(ROW("upsample_nearest1d_backward.grad_input", Near::grad1));
  m.impl(ROW("upsample_nearest2d_backward.grad_input", Near::grad2));
  m.impl(ROW("upsample_nearest3d_backward.grad_input", Near::grad3));
  m.impl(ROW("_upsample_nearest_exact1d.out", Exact::out1));
  m.impl(ROW("_upsample_nearest_exact2d.out", Exact::out2));
  m.impl(ROW("_upsample_nearest_exact3d.out", Exact::out3));
  m.impl(ROW("_upsample_nearest_exact1d_backward.grad_input", Exact::grad1));
  m.impl(ROW("_upsample_nearest_exact2d_backward.grad_input", Exact::grad2));
  m.impl(ROW("_upsample_nearest_exact3d_backward.grad_input", Exact::grad3));
  m.impl(ROW("upsample_linear1d.out", Linear::out1));
  m.impl(ROW("upsample_bilinear2d.out", Linear::out2));
  m.impl(ROW("upsample_trilinear3d.out", Linear::out3));
  m.impl(ROW("upsample_linear1d_backward.grad_input", Linear::grad1));
  m.impl(ROW("upsample_bilinear2d_backward.grad_input", Linear::grad2));
  m.impl(ROW("upsample_trilinear3d_backward.grad_input", Linear::grad3));
  m.impl(ROW("upsample_bicubic2d.out", Cubic::out2));
  m.impl(ROW("upsample_bicubic2d_backward.grad_input", Cubic::grad2));

  using ops::Antialias;
  m.impl(ROW("_upsample_bilinear2d_aa.out", Antialiased<Antialias::linear>::out));
  m.impl(ROW("_upsample_bilinear2d_aa_backward.grad_input", Antialiased<Antialias::linear>::grad));
  m.impl(ROW("_upsample_bicubic2d_aa.out", Antialiased<Antialias::cubic>::out));
  m.impl(ROW("_upsample_bicubic2d_aa_backward.grad_input", Antialiased<Antialias::cubic>::grad));
  if (has_lanczos()) {
    m.impl(ROW("_upsample_lanczos2d_aa.out", Antialiased<Antialias::lanczos>::out));
    m.impl(ROW("_upsample_lanczos2d_aa_backward.grad_input", Antialiased<Antialias::lanczos>::grad));
  }

  m.impl(ROW("grid_sampler_2d", ops::grid_sampler_2d));
  m.impl(ROW("grid_sampler_2d_backward", ops::grid_sampler_2d_backward));
  m.impl(ROW("grid_sampler_3d", ops::grid_sampler_3d));
  m.impl(ROW("grid_sampler_3d_backward", ops::grid_sampler_3d_backward));

  m.impl(ROW("reflection_pad1d.out", Reflect<1>::out));
  m.impl(ROW("reflection_pad1d_backward.grad_input", Reflect<1>::grad_input));
  m.impl(ROW("reflection_pad2d", Reflect<2>::functional));
  m.impl(ROW("reflection_pad2d.out", Reflect<2>::out));
  m.impl(ROW("reflection_pad2d_backward", Reflect<2>::backward));
  m.impl(ROW("reflection_pad2d_backward.grad_input", Reflect<2>::grad_input));
  m.impl(ROW("reflection_pad3d.out", Reflect<3>::out));
  m.impl(ROW("reflection_pad3d_backward.grad_input", Reflect<3>::grad_input));
  m.impl(ROW("replication_pad1d.out", Replicate<1>::out));
  m.impl(ROW("replication_pad1d_backward.grad_input", Replicate<1>::grad_input));
  m.impl(ROW("replication_pad2d.out", Replicate<2>::out));
  m.impl(ROW("replication_pad2d_backward", Replicate<2>::backward));
  m.impl(ROW("replication_pad2d_backward.grad_input", Replicate<2>::grad_input));
  m.impl(ROW("replication_pad3d.out", Replicate<3>::out));
  m.impl(ROW("replication_pad3d_backward", Replicate<3>::backward));
  m.impl(ROW("replication_pad3d_backward.grad_input", Replicate<3>::grad_input));
}
}  // namespace aule::aten
