#include "ops/matmul/long_k.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "ops/matmul/matmul.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// Every kernel takes at least one value of k an iteration. Whole steps of gemm_chunks.comp where they fit.
int64_t slice_of(const Caps& caps) {
  const auto most = static_cast<int64_t>(longest_walk(caps));
  return most >= 128 ? most / 128 * 128 : most;
}

}  // namespace

bool gemm_in_slices(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                    const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  const int64_t k = a.size(2);
  const Caps& caps = caps_of(out);
  if (may_walk(caps, static_cast<uint64_t>(k))) return false;
  const bool halves = out.scalar_type() == at::kHalf || out.scalar_type() == at::kBFloat16;
  const auto wide = [&](const at::Tensor& t) { return halves && t.defined() ? t.to(at::kFloat) : t; };
  const at::Tensor sum = halves ? at::empty(out.sizes(), out.options().dtype(at::kFloat)) : out;
  const int64_t slice = slice_of(caps);
  for (int64_t at = 0; at < k; at += slice) {
    const int64_t count = std::min(slice, k - at);
    gemm(op, wide(a.narrow(2, at, count)), wide(b.narrow(1, at, count)), at == 0 ? wide(c) : sum,
         at == 0 ? beta : at::Scalar(1), alpha, sum);
  }
  if (halves) out.copy_(sum);
  return true;
}

}  // namespace aule::ops
