#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "aten/register.h"
#include "ops/attention/attention.h"
#include "ops/attention/entry/block_sparse.h"
#include "ops/attention/entry/kv_cache.h"
#include "ops/attention/entry/modules.h"
#include "ops/attention/entry/rotary.h"
#include "ops/attention/entry/varlen.h"

// Attention: PyTorch's SDPA hooks, and our own ops torch.ops.aule.flash_attn_{fwd,bwd}. Their autograd formula and
// fake kernels are in torch_aule/ops/attention.py.
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &aule::ops::fused_sdp_choice)
}

namespace aule::aten {
namespace {

// PyTorch's flash ops grow arguments from release to release: 0 where there is no such op.
size_t arguments_of(const char* name) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  return op.has_value() ? op->schema().arguments().size() : 0;
}

// Arguments that forward and backward share. Names and defaults are written here alone; the fake kernels read the
// schemas.
#define AULE_ATTENTION_OPTIONS                                                                                 \
  "Tensor? attn_bias=None, float dropout_p=0.0, bool is_causal=False, float? scale=None, int window_left=-1, " \
  "int window_right=-1, float softcap=0.0, bool causal_bottom_right=False"

#define AULE_VARLEN_OPTIONS                                                                                 \
  "Tensor cum_seq_q, Tensor cum_seq_k, int max_q, int max_k, bool is_causal=False, float? scale=None, int " \
  "window_left="                                                                                            \
  "-1, int window_right=-1, Tensor? alibi_slopes=None"

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def("flash_attn_fwd(Tensor query, Tensor key, Tensor value, " AULE_ATTENTION_OPTIONS
        ", Tensor? alibi_slopes=None) -> (Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset)");
  // It returns nothing, as torch.compile wants it of an operator that writes to an argument.
  m.def("flash_attn_fwd.out(Tensor query, Tensor key, Tensor value, " AULE_ATTENTION_OPTIONS
        ", Tensor? alibi_slopes=None, *, Tensor(a!) out) -> ()");
  m.def(
      "flash_attn_bwd(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, "
      "Tensor philox_seed, Tensor philox_offset, " AULE_ATTENTION_OPTIONS
      ", bool bias_requires_grad=False, Tensor? grad_logsumexp=None, Tensor? alibi_slopes=None) -> (Tensor dq, "
      "Tensor dk, Tensor dv, Tensor dbias)");
  m.def(
      "flash_attn_decode(Tensor query, Tensor key_cache, Tensor value_cache, Tensor? seqused_k=None, Tensor? "
      "block_table=None, bool is_causal=False, float? scale=None, int window_left=-1, int window_right=-1, float "
      "softcap=0.0, int num_splits=0, Tensor? alibi_slopes=None, bool check=True, Tensor? key_scale=None, Tensor? "
      "value_scale=None) -> (Tensor out, Tensor logsumexp)");
  m.def(
      "paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor context_lens, "
      "float? scale=None, bool is_causal=True, int window_left=-1, int window_right=-1, float softcap=0.0, Tensor? "
      "alibi_slopes=None) -> Tensor");
  m.def("varlen_attn(Tensor query, Tensor key, Tensor value, " AULE_VARLEN_OPTIONS
        ") -> (Tensor out, Tensor logsumexp)");
  m.def(
      "varlen_attn_bwd(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor "
      "logsumexp, " AULE_VARLEN_OPTIONS ") -> (Tensor dq, Tensor dk, Tensor dv)");
  m.def("_attention_variants(int head_dim, int v_dim, int device, int q_len=1024) -> str[]",
        TORCH_FN(ops::attention_variants));
}

TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("flash_attn_fwd", GUARDED(ops::flash_attn_fwd));
  m.impl("flash_attn_fwd.out", GUARDED(ops::flash_attn_fwd_out));
  m.impl("flash_attn_bwd", GUARDED(ops::flash_attn_bwd));
  m.impl("flash_attn_decode", GUARDED(ops::flash_attn_decode));
  m.impl("paged_attention", GUARDED(ops::paged_attention));
  m.impl("varlen_attn", GUARDED(ops::varlen_attn));
  m.impl("varlen_attn_bwd", GUARDED(ops::varlen_attn_bwd));
}

TORCH_LIBRARY_IMPL(aule, Autograd, m) {  // inference only
  m.impl("flash_attn_fwd.out", torch::autograd::autogradNotImplementedFallback());
  m.impl("flash_attn_decode", torch::autograd::autogradNotImplementedFallback());
  m.impl("paged_attention", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", GUARDED(ops::fused_sdp_choice));
  m.impl("_scaled_dot_product_fused_attention_overrideable",
         GUARDED(ops::_scaled_dot_product_fused_attention_overrideable));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward",
         GUARDED(ops::_scaled_dot_product_fused_attention_overrideable_backward));
  m.impl(ROW("_native_multi_head_attention", ops::_native_multi_head_attention));
  m.impl(ROW("_transformer_encoder_layer_fwd", ops::_transformer_encoder_layer_fwd));
  m.impl("_nested_tensor_from_mask_left_aligned", GUARDED(ops::_nested_tensor_from_mask_left_aligned));
  m.impl("_flash_attention_backward", GUARDED(ops::_flash_attention_backward));
  if (arguments_of("aten::_flash_attention_forward") == 17)
    m.impl("_flash_attention_forward", GUARDED(ops::_flash_attention_forward));
  if (arguments_of("aten::_flash_attention_forward") == 15)
    m.impl("_flash_attention_forward", GUARDED(ops::_flash_attention_forward_unpaged));
  if (arguments_of("aten::_flash_attention_forward_no_dropout_inplace") == 18)
    m.impl("_flash_attention_forward_no_dropout_inplace", GUARDED(ops::_flash_attention_forward_no_dropout_inplace));
}

}  // namespace
}  // namespace aule::aten

// torch.ops.aule.block_sparse_attn; its gradient and fake kernels are in torch_aule/ops/block_sparse.py.
namespace aule::aten {

#define AULE_BLOCKS "Tensor block_mask, int block_q, int block_k, bool is_causal=False, float? scale=None"

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def("block_sparse_attn(Tensor query, Tensor key, Tensor value, " AULE_BLOCKS ") -> (Tensor out, Tensor logsumexp)");
  m.def(
      "block_sparse_attn_bwd(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor "
      "logsumexp, " AULE_BLOCKS ", Tensor? grad_logsumexp=None) -> (Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("block_sparse_attn", GUARDED(ops::block_sparse_attn));
  m.impl("block_sparse_attn_bwd", GUARDED(ops::block_sparse_attn_bwd));
}

}  // namespace aule::aten

// torch.ops.aule.rotary_embedding; its gradient and fake kernel are in torch_aule/ops/rotary.py.
namespace aule::aten {

#define AULE_ROTARY "Tensor cos, Tensor sin, Tensor? positions=None, bool interleaved=False, bool inverse=False"

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def("rotary_embedding(Tensor x, " AULE_ROTARY ") -> Tensor");
  m.def("rotary_embedding_(Tensor(a!) x, " AULE_ROTARY ") -> ()");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("rotary_embedding", GUARDED(ops::rotary_embedding));
  m.impl("rotary_embedding_", GUARDED(ops::rotary_embedding_));
}

}  // namespace aule::aten
