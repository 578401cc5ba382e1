#include "ops/random.h"

#include "aten/register.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", GUARDED(ops::uniform_));
  m.impl("normal_", GUARDED(ops::normal_));
  m.impl("normal.Tensor_float", GUARDED(ops::normal_tensor_float));
  m.impl("normal.float_Tensor", GUARDED(ops::normal_float_tensor));
  m.impl("normal.Tensor_Tensor", GUARDED(ops::normal_tensor_tensor));
  m.impl("normal.Tensor_float_out", GUARDED(ops::normal_tensor_float_out));
  m.impl("normal.float_Tensor_out", GUARDED(ops::normal_float_tensor_out));
  m.impl("normal.Tensor_Tensor_out", GUARDED(ops::normal_tensor_tensor_out));
  m.impl("log_normal_", GUARDED(ops::log_normal_));
  m.impl("cauchy_", GUARDED(ops::cauchy_));
  m.impl("exponential_", GUARDED(ops::exponential_));
  m.impl("geometric_", GUARDED(ops::geometric_));
  m.impl("bernoulli_.float", GUARDED(ops::bernoulli_float_));
  m.impl("bernoulli_.Tensor", GUARDED(ops::bernoulli_tensor_));
  m.impl("bernoulli.out", GUARDED(ops::bernoulli_out));
  m.impl("random_", GUARDED(ops::random_));
  m.impl("random_.to", GUARDED(ops::random_to_));
  m.impl("random_.from", GUARDED(ops::random_from_));
  m.impl("randperm.generator_out", GUARDED(ops::randperm_out));
  m.impl("multinomial", GUARDED(ops::multinomial));
  m.impl("multinomial.out", GUARDED(ops::multinomial_out));
  m.impl("poisson", GUARDED(ops::poisson));
}
}  // namespace aule
