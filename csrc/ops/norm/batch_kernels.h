// The kernels of the operators of batch norm: kernels over the channels of a batch.
#pragma once
#include "ops/norm/norm.h"
#include "ops/norm/params.h"
#include "ops/reduce/plan.h"

namespace aule::ops {

// A batch as kernels see it, contiguous [samples, channels, hw]. A channels-last one is [samples * hw, channels, 1].
struct BatchShape {
  int64_t samples = 0, channels = 0, hw = 1;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  int64_t count() const { return samples * hw; }  // elements of a channel
};
BatchShape batch_shape(const char* name, const at::Tensor& input);
// `t`, a tensor of the input's sizes, in that form: a view where its layout is that of the input, else of a copy.
at::Tensor dense_batch(const BatchShape& shape, const at::Tensor& t);
// An operator's result, of the input's sizes and layout; dense_batch() of it is a view.
at::Tensor empty_batch(const BatchShape& shape, const at::Tensor& input);

bool is_given(const OptionalTensor& t);
at::Tensor empty_channels(const BatchShape& shape, const at::Tensor& input, at::ScalarType type);
// A tensor of an element for each channel, contiguous: statistics in their `type`, parameters in theirs, which is at
// most as wide as `type`. Undefined stays undefined.
at::Tensor statistic(const char* name, const char* what, const OptionalTensor& t, at::ScalarType type,
                     int64_t channels);
at::Tensor parameter(const char* name, const char* what, const OptionalTensor& t, at::ScalarType type,
                     int64_t channels);

// Mean and, by `op`, variance or invstd of each channel of dense `x`. `eps` is rounded to float32.
void batch_moments(const char* name, ReduceOp op, double eps, const at::Tensor& x, const at::Tensor& spread,
                   const at::Tensor& mean);

// Statistics of a batch from those of its parts (batch_norm_stats.comp). What is undefined is left out.
struct BatchStats {
  bool from_variance = false;  // `spread` is the variance of the only part; else 1 / sqrt(var + eps)
  at::Tensor mean, spread;     // [parts, channels], contiguous
  at::Tensor counts{};         // of each part; undefined: all have `count`
  int64_t count = 0;
  double eps = 0, momentum = 0;
  OptionalTensor running_mean{}, running_var{};
  at::Tensor mean_out{}, invstd_out{};
};
void combine_statistics(const char* name, const BatchStats& stats);

// batch_norm.comp. Tensors of a batch are dense, those of channels come from statistic() and parameter().
enum class BatchMode : int { forward, training_grad, evaluation_grad, synchronized_grad };
struct BatchElements {
  BatchMode mode;
  at::Tensor x{}, grad{}, mean{}, invstd{}, w{}, b{}, sum_g{}, sum_gh{}, counts{};
};
void batch_elements(const char* name, const BatchShape& shape, const BatchElements& v, const at::Tensor& out);

// Sums of g and of g (x - mean), with `invstd` if it is defined times that. `grad` and `x` are dense.
void sum_channels(const char* name, const BatchShape& shape, const at::Tensor& grad, const at::Tensor& x,
                  const at::Tensor& mean, const at::Tensor& invstd, const PartSums& sums);

}  // namespace aule::ops
