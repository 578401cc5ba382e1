// F.scaled_dot_product_attention: which backend serves a call, and the fused ops behind backend `overrideable`.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <torch/headeronly/version.h>

#include "ops/attention/call.h"

namespace aule::ops {
namespace {

// PyTorch checks little before it asks (shapes may be anything, key heads may not fit); a call refused here goes to
// the math path, which raises the usual error or serves the odd case. Sizes may be symbolic.
bool shapes_fit(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool enable_gqa) {
  const int64_t dims = query.dim();
  if ((dims != 3 && dims != 4) || key.dim() != dims || value.dim() != dims) return false;
  if (dims == 4 && (query.sym_size(0) != key.sym_size(0) || query.sym_size(0) != value.sym_size(0))) return false;
  if (query.sym_size(-1) != key.sym_size(-1) || key.sym_size(-2) != value.sym_size(-2)) return false;
  const auto heads = query.sym_size(-3), kv_heads = key.sym_size(-3);
  if (kv_heads != value.sym_size(-3)) return false;
  return heads == kv_heads || (enable_gqa && kv_heads > 0 && heads % kv_heads == 0);
}

bool bias_fits(const at::Tensor& bias, const at::Tensor& query, const at::Tensor& key) {
  const auto dtype = bias.scalar_type();
  if (dtype != at::kBool && dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16) return false;
  if (bias.device() != query.device() || bias.dim() > query.dim() || bias.is_nested()) return false;
  for (int64_t i = 1; i <= bias.dim(); ++i) {
    const auto full = i == 1 ? key.sym_size(-2) : query.sym_size(-i);
    if (bias.sym_size(-i) != 1 && bias.sym_size(-i) != (i == 2 ? query.sym_size(-2) : full)) return false;
  }
  return true;
}

// PyTorch before 2.13 has shapes of the fused operator's results for four dimensions alone: traced, three are composed.
bool traceable(const at::Tensor& query) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  return query.dim() == 4 || !query.key_set().has(c10::DispatchKey::Python);
#else
  return query.defined();
#endif
}

}  // namespace

bool sdpa_supported(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const OptionalTensor& attn_mask, bool is_causal, bool enable_gqa) {
  for (const at::Tensor* t : {&query, &key, &value}) {
    if (t->is_nested() || t->layout() != at::kStrided || t->device() != query.device()) return false;
    const auto dtype = t->scalar_type();
    if (dtype != query.scalar_type() || (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16))
      return false;
  }
  if (query.device().type() != c10::DeviceType::PrivateUse1 || !shapes_fit(query, key, value, enable_gqa)) return false;
  if (attn_mask.has_value() && attn_mask->defined()) {
    if (is_causal || !bias_fits(*attn_mask, query, key)) return false;
  }
  return servable(query.sym_size(-1).guard_int(__FILE__, __LINE__), value.sym_size(-1).guard_int(__FILE__, __LINE__));
}

std::vector<std::string> attention_variants(int64_t head_dim, int64_t v_dim, int64_t device, int64_t q_len) {
  AttentionProblem problem;
  problem.batch = problem.heads = problem.kv_heads = 8;
  problem.q_len = q_len;
  problem.k_len = 1024;
  problem.fits_i32 = true;
  problem.head_dim = head_dim;
  problem.v_dim = v_dim;
  problem.dtype = DType::f16;
  problem.layout = matrix_layout(static_cast<int>(device), DType::f16);  // creates the device
  const DeviceProfile& profile = profile_of(static_cast<int>(device));
  std::vector<std::string> names;
  for (const auto& [name, pass] :
       {std::pair{"forward", AttentionPass::forward}, {"dq", AttentionPass::dq}, {"dkdv", AttentionPass::dkdv}}) {
    const auto plan = plan_attention(profile, problem, pass, overrides());
    names.push_back(std::string(name) + "=" + (plan ? family_name(*plan) : "none"));
  }
  return names;
}

// sdpa_kernel(...) contexts: FLASH_ATTENTION, EFFICIENT_ATTENTION and OVERRIDEABLE all mean our kernel, MATH the math
// path.
int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const OptionalTensor& attn_mask, double /*dropout_p*/, bool is_causal,
                         std::optional<double> /*scale*/, bool enable_gqa) {
  auto& context = at::globalContext();
  const bool fused =
      (context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP() || context.userEnabledOverrideableSDP()) &&
      sdpa_supported(query, key, value, attn_mask, is_causal, enable_gqa) && traceable(query);
  for (const auto backend : context.sDPPriorityOrder()) {
    bool enabled = false;
    switch (backend) {
      case at::SDPBackend::math:
        if (context.userEnabledMathSDP()) return static_cast<int64_t>(at::SDPBackend::math);
        break;
      case at::SDPBackend::flash_attention: enabled = context.userEnabledFlashSDP(); break;
      case at::SDPBackend::efficient_attention: enabled = context.userEnabledMemEfficientSDP(); break;
      case at::SDPBackend::overrideable: enabled = context.userEnabledOverrideableSDP(); break;
      default: break;
    }
    if (enabled && fused) return static_cast<int64_t>(at::SDPBackend::overrideable);
  }
  return static_cast<int64_t>(at::SDPBackend::error);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_fused_attention_overrideable(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const OptionalTensor& attn_bias,
                                                 double dropout_p, bool is_causal, bool return_debug_mask,
                                                 std::optional<double> scale) {
  const char* op = "scaled_dot_product_attention";
  TORCH_CHECK(!is_causal || !attn_bias.has_value() || !attn_bias->defined(), op,
              ": expected attn_mask to be None when is_causal is set");
  TORCH_CHECK(!return_debug_mask, op, ": return_debug_mask is not supported on device aule");
  auto [out, logsumexp, seed, offset] =
      flash_attn_fwd(query, key, value, attn_bias, dropout_p, is_causal, scale, -1, -1, 0.0, false, std::nullopt);
  return {out,  logsumexp, at::Tensor(), at::Tensor(), c10::SymInt(query.size(-2)), c10::SymInt(key.size(-2)),
          seed, offset,    at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_fused_attention_overrideable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const at::Tensor& out,
    const at::Tensor& logsumexp, const at::Tensor& /*cum_seq_q*/, const at::Tensor& /*cum_seq_k*/, int64_t /*max_q*/,
    int64_t /*max_k*/, double dropout_p, bool is_causal, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    std::optional<double> scale) {
  const bool has_bias = attn_bias.defined();
  auto [grad_query, grad_key, grad_value, grad_bias] =
      flash_attn_bwd(grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset,
                     has_bias ? OptionalTensor(attn_bias) : std::nullopt, dropout_p, is_causal, scale, -1, -1, 0.0,
                     false, has_bias && grad_input_mask[3], std::nullopt, std::nullopt);
  if (!has_bias || !grad_input_mask[3]) grad_bias = at::Tensor();
  return {grad_query, grad_key, grad_value, grad_bias};
}

}  // namespace aule::ops
