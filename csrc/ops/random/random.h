// Random numbers by Philox. A draw depends on seed, offset and position only.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace aule::ops {

// Elements of a workgroup: 128 invocations draw 4 each.
constexpr uint64_t kPhiloxElements = 512;

using OptionalGenerator = std::optional<at::Generator>;

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator);
at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator);
at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator);
at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, OptionalGenerator generator);
at::Tensor& exponential_(at::Tensor& self, double lambd, OptionalGenerator generator);
at::Tensor& geometric_(at::Tensor& self, double p, OptionalGenerator generator);
at::Tensor& bernoulli_float_(at::Tensor& self, double p, OptionalGenerator generator);
at::Tensor& bernoulli_tensor_(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator);
at::Tensor& bernoulli_out(const at::Tensor& self, OptionalGenerator generator, at::Tensor& out);
at::Tensor& random_(at::Tensor& self, OptionalGenerator generator);
at::Tensor& random_to_(at::Tensor& self, int64_t to, OptionalGenerator generator);
at::Tensor& random_from_(at::Tensor& self, int64_t from, std::optional<int64_t> to, OptionalGenerator generator);

// random/compose.cpp
at::Tensor normal_tensor_float(const at::Tensor& mean, double std, OptionalGenerator generator);
at::Tensor normal_float_tensor(double mean, const at::Tensor& std, OptionalGenerator generator);
at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator);
at::Tensor& normal_tensor_float_out(const at::Tensor& mean, double std, OptionalGenerator generator, at::Tensor& out);
at::Tensor& normal_float_tensor_out(double mean, const at::Tensor& std, OptionalGenerator generator, at::Tensor& out);
at::Tensor& normal_tensor_tensor_out(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator,
                                     at::Tensor& out);
at::Tensor& randperm_out(int64_t n, OptionalGenerator generator, at::Tensor& out);
at::Tensor multinomial(const at::Tensor& self, int64_t num_samples, bool replacement, OptionalGenerator generator);
at::Tensor& multinomial_out(const at::Tensor& self, int64_t num_samples, bool replacement, OptionalGenerator generator,
                            at::Tensor& out);

at::Tensor poisson(const at::Tensor& self, OptionalGenerator generator);

// random/sample.cpp. Tensors of one number for all rows, or of one for each: float32, top_k int32. counts [rows, n] of
// int32: how often each token came before.
struct SampleOptions {
  std::optional<at::Tensor> temperature, top_k, top_p, min_p, counts, repetition, presence, frequency;
};
// A token of each row of logits [rows, n], int64, and its log probability among those that could be drawn, float32.
std::tuple<at::Tensor, at::Tensor> sample(const at::Tensor& logits, const SampleOptions& options,
                                          OptionalGenerator generator);

// random/gamma.cpp; draws are float32, and widened for float64
at::Tensor standard_gamma(const at::Tensor& self, OptionalGenerator generator);
at::Tensor standard_gamma_grad(const at::Tensor& self, const at::Tensor& output);
at::Tensor sample_dirichlet(const at::Tensor& self, OptionalGenerator generator);
at::Tensor dirichlet_grad(const at::Tensor& x, const at::Tensor& alpha, const at::Tensor& total);
at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, OptionalGenerator generator);

}  // namespace aule::ops
