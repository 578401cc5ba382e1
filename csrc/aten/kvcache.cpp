// torch.ops.aule.reshape_and_cache, kv_cache_append, accept_tokens and accept_likeliest; their fake kernels are in
// torch_aule/ops/attention.py.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "aten/register.h"
#include "ops/decoding/accept_tokens.h"
#include "ops/kvcache/cache_write.h"

namespace aule::aten {

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def(
      "reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping) "
      "-> ()");
  m.def(
      "kv_cache_append(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor lengths, Tensor? "
      "block_table=None, Tensor? query=None, Tensor? cos=None, Tensor? sin=None, bool interleaved=False, Tensor(c!)? "
      "key_scale=None, Tensor(d!)? value_scale=None) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def(
      "accept_tokens(Tensor drawn, Tensor? guesses, Tensor active, Tensor(a!) accepted, Tensor(b!) tokens, Tensor(c!) "
      "lengths) -> ()");
  m.def(
      "accept_likeliest(Tensor logits, Tensor? guesses, Tensor active, Tensor(a!) accepted, Tensor(b!) tokens, "
      "Tensor(c!) lengths) -> ()");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("accept_likeliest", GUARDED(ops::accept_likeliest));
  m.impl("accept_tokens", GUARDED(ops::accept_tokens));
  m.impl("reshape_and_cache", GUARDED(ops::reshape_and_cache));
  m.impl("kv_cache_append", GUARDED(ops::kv_cache_append));
}
TORCH_LIBRARY_IMPL(aule, Autograd, m) {
  m.impl("accept_likeliest", torch::autograd::autogradNotImplementedFallback());
  m.impl("accept_tokens", torch::autograd::autogradNotImplementedFallback());
  m.impl("reshape_and_cache", torch::autograd::autogradNotImplementedFallback());
  m.impl("kv_cache_append", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace aule::aten
