#include "ops/norm/long_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mean.h>

#include "ops/norm/params.h"
#include "ops/reduce/run.h"

namespace aule::ops {
namespace {

// x[samples, groups, channels, hw], statistics per sample and group, parameters per group and channel.
struct Views {
  explicit Views(const NormRows& s)
      : data{s.rows / s.groups, s.groups, s.channels == 0 ? s.n : s.channels, s.hw},
        stats{data[0], data[1], 1, 1},
        params{1, data[1], data[2], 1} {}
  std::array<int64_t, 4> data, stats, params;
  static constexpr std::array<int64_t, 2> kRow{2, 3};  // the dimensions of a row
};

}  // namespace

void long_norm_forward(const char* name, const NormRows& s, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& b, double eps, const at::Tensor& y, const at::Tensor& mean,
                       const at::Tensor& rstd) {
  const Views v(s);
  const auto type = stat_type(x);
  at::Tensor var = at::empty({s.rows}, x.options().dtype(type)), middle = at::empty({s.rows}, var.options());
  DimMask row;
  row.set(1);
  run_reduction(name, {ReduceOp::var, ReduceKind::moments, 0.0f, false}, x.view({s.rows, s.n}), row, var, middle);
  if (s.is_rms) var.add_(middle.square());  // the mean of the squares
  const at::Tensor scale = var.add_(eps).rsqrt_();
  at::Tensor h = x.view(v.data).to(type);
  h = (s.is_rms ? h : h.sub(middle.view(v.stats))).mul(scale.view(v.stats));
  if (w.defined()) h.mul_(w.view(v.params));
  if (b.defined()) h.add_(b.view(v.params));
  y.view(v.data).copy_(h);
  rstd.copy_(scale.view(rstd.sizes()));
  if (mean.defined()) mean.copy_(middle.view(mean.sizes()));
}

void long_norm_backward(const NormRows& s, const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& dx) {
  const Views v(s);
  const auto type = stat_type(x);
  const at::Tensor scale = rstd.view(v.stats);
  at::Tensor h = x.view(v.data).to(type), u = grad.view(v.data).to(type);
  h = (s.is_rms ? h : h.sub(mean.view(v.stats))).mul(scale);
  if (w.defined()) u = u.mul(w.view(v.params));
  const at::Tensor mean_h = u.mul(h).mean(v.kRow, /*keepdim=*/true);
  h.mul_(mean_h);
  at::Tensor d = u.sub(h);
  if (!s.is_rms) d.sub_(u.mean(v.kRow, /*keepdim=*/true));
  dx.view(v.data).copy_(d.mul_(scale));
}

}  // namespace aule::ops
