#include <utility>

#include "aten/register.h"
#include "ops/random/dropout.h"
#include "ops/random/random.h"

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("uniform_", ops::uniform_));
  m.impl(ROW("normal_", ops::normal_));
  m.impl(ROW("normal.Tensor_float", ops::normal_tensor_float));
  m.impl(ROW("normal.float_Tensor", ops::normal_float_tensor));
  m.impl(ROW("normal.Tensor_Tensor", ops::normal_tensor_tensor));
  m.impl(ROW("normal.Tensor_float_out", ops::normal_tensor_float_out));
  m.impl(ROW("normal.float_Tensor_out", ops::normal_float_tensor_out));
  m.impl(ROW("normal.Tensor_Tensor_out", ops::normal_tensor_tensor_out));
  m.impl(ROW("log_normal_", ops::log_normal_));
  m.impl(ROW("cauchy_", ops::cauchy_));
  m.impl(ROW("exponential_", ops::exponential_));
  m.impl(ROW("geometric_", ops::geometric_));
  m.impl(ROW("bernoulli_.float", ops::bernoulli_float_));
  m.impl(ROW("bernoulli_.Tensor", ops::bernoulli_tensor_));
  m.impl(ROW("bernoulli.out", ops::bernoulli_out));
  m.impl(ROW("random_", ops::random_));
  m.impl(ROW("random_.to", ops::random_to_));
  m.impl(ROW("random_.from", ops::random_from_));
  m.impl(ROW("randperm.generator_out", ops::randperm_out));
  m.impl(ROW("multinomial", ops::multinomial));
  m.impl(ROW("multinomial.out", ops::multinomial_out));
  m.impl(ROW("poisson", ops::poisson));
  m.impl(ROW("_standard_gamma", ops::standard_gamma));
  m.impl(ROW("_standard_gamma_grad", ops::standard_gamma_grad));
  m.impl(ROW("_sample_dirichlet", ops::sample_dirichlet));
  m.impl(ROW("_dirichlet_grad", ops::dirichlet_grad));
  m.impl(ROW("binomial", ops::binomial));
}

namespace {

std::tuple<at::Tensor, at::Tensor> sample(
    const at::Tensor& logits, const std::optional<at::Tensor>& temperature, const std::optional<at::Tensor>& top_k,
    const std::optional<at::Tensor>& top_p, const std::optional<at::Tensor>& min_p,
    const std::optional<at::Tensor>& counts, const std::optional<at::Tensor>& repetition_penalty,
    const std::optional<at::Tensor>& presence_penalty, const std::optional<at::Tensor>& frequency_penalty,
    ops::OptionalGenerator generator) {
  return ops::sample(
      logits, {temperature, top_k, top_p, min_p, counts, repetition_penalty, presence_penalty, frequency_penalty},
      std::move(generator));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def(
      "sample(Tensor logits, Tensor? temperature=None, Tensor? top_k=None, Tensor? top_p=None, Tensor? min_p=None, "
      "Tensor? counts=None, Tensor? repetition_penalty=None, Tensor? presence_penalty=None, Tensor? "
      "frequency_penalty=None, Generator? generator=None) -> (Tensor, Tensor)",
      {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) { m.impl("sample", GUARDED(sample)); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("native_dropout", ops::native_dropout));
  m.impl(ROW("native_dropout_backward", ops::native_dropout_backward));
}

}  // namespace aule::aten
