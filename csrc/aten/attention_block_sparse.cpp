// torch.ops.aule.block_sparse_attn; its gradient and fake kernels are in torch_aule/ops/block_sparse.py.
#include "aten/register.h"
#include "ops/attention/block_sparse.h"

namespace aule {

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

}  // namespace aule
