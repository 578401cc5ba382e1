// Blocks of reflections are I - V T V^H, which products apply.
#include "ops/linalg/qr.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tril.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels_linalg.gen.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/plan.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

constexpr int64_t kBlock = 32;  // reflections of a T; qr_panel.comp takes no more where it takes a part

DType dtype_in(const at::Tensor& t) { return real_or_complex_dtype_of(t.scalar_type(), "qr"); }

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  gemm("qr", a, b, {}, 0, 1, out);
  return out;
}

// v below the diagonal, 1 on it. `packed` is [batch, rows, count].
at::Tensor vectors_of(const at::Tensor& packed) {
  const at::Tensor v = at::tril(packed, -1);
  v.diagonal(0, 1, 2).fill_(1);
  return v;
}

struct Block {
  at::Tensor v, t;  // [batch, rows, count], [batch, count, count]

  // v: the rows from the block's first on. tau: [batch, count].
  static Block of(const at::Tensor& v, const at::Tensor& tau) {
    const at::Tensor gram = product(v.mH(), v), t = at::empty(gram.sizes(), gram.options());
    TensorArgs args;
    HouseholderTParams p{};
    p.gram = args.read(gram);
    p.tau = args.read(tau);
    p.t = args.write(t);
    p.n = static_cast<uint32_t>(v.size(2));
    p.tau_batch = static_cast<uint32_t>(tau.stride(0));
    p.batches = static_cast<uint32_t>(v.size(0));
    launch(current(v), kernel::householder_t(dtype_in(v)), {}, p, args,
           linear_grid(ceil_div(uint64_t{p.batches} * p.n, HouseholderTParams::kLocal)));
    return {v, t};
  }

  // c = (I - V T V^H) c, with T^H for T where it is the block's inverse.
  void apply_left(const at::Tensor& c, bool inverse) const {
    gemm("qr", v, product(inverse ? t.mH() : t, product(v.mH(), c)), c, 1, -1, c);
  }
  void apply_right(const at::Tensor& c, bool inverse) const {
    gemm("qr", product(product(c, v), inverse ? t.mH() : t), v.mH(), c, 1, -1, c);
  }
};

// Factors the first columns of `a`, as many as a launch takes, and returns how many.
int64_t factor_panel(const at::Tensor& a, const at::Tensor& tau) {
  const uint64_t rows = static_cast<uint64_t>(a.size(1)), columns = static_cast<uint64_t>(a.size(2));
  const DType dtype = dtype_in(a);
  const QrPanelPlan plan = qr_panel_plan(profile_of(a), dtype, rows, columns);
  const at::Tensor panel = a.narrow(2, 0, plan.columns),
                   factors = tau.narrow(1, 0, std::min(rows, uint64_t{plan.columns}));
  TensorArgs args;
  QrPanelParams p{};
  p.a = args.read_write(panel);
  p.tau = args.write(factors);
  p.a_batch = a.stride(0);
  p.tau_batch = static_cast<uint32_t>(tau.stride(0));
  p.a_column = static_cast<uint32_t>(a.stride(2));
  p.rows = static_cast<uint32_t>(rows);
  p.columns = plan.columns;
  const QrPanelSpec spec{.local = static_cast<int>(plan.local),
                         .lanes = static_cast<int>(plan.lanes),
                         .in_shared = plan.in_shared,
                         .elems = static_cast<int>(plan.elems)};
  launch(current(a), kernel::qr_panel(dtype), spec, p, args, linear_grid(static_cast<uint64_t>(a.size(0))));
  return plan.columns;
}

// Calls apply(block, first row) for the reflections' blocks, those of the first columns first if `forward`.
template <class Apply>
void for_each_block(const at::Tensor& vectors, const at::Tensor& tau, bool forward, const Apply& apply) {
  const int64_t count = tau.size(1), blocks = ceil_div(count, kBlock);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t first = (forward ? i : blocks - 1 - i) * kBlock, width = std::min(kBlock, count - first);
    const at::Tensor v = block(vectors, first, vectors.size(1) - first, first, width);
    apply(Block::of(v, tau.narrow(1, first, width)), first);
  }
}

}  // namespace

void geqrf(const at::Tensor& a_in, const at::Tensor& tau_in) {
  if (a_in.numel() == 0) return;
  const at::Tensor a = matrices_of(a_in), tau = tau_in.view({a.size(0), -1});
  const int64_t m = a.size(1), n = a.size(2), count = std::min(m, n);
  for (int64_t k = 0; k < count;) {
    const at::Tensor rest = block(a, k, m - k, k, n - k), factors = tau.narrow(1, k, count - k);
    const int64_t width = factor_panel(rest, factors);
    const int64_t reflections = std::min(width, count - k);
    if (width < n - k) {
      const at::Tensor v = vectors_of(rest.narrow(2, 0, reflections));
      Block::of(v, factors.narrow(1, 0, reflections)).apply_left(rest.narrow(2, width, n - k - width), true);
    }
    k += reflections;
  }
}

at::Tensor& orgqr(at::Tensor& result, const at::Tensor& tau_in) {
  if (result.numel() == 0) return result;
  const at::Tensor q = matrices_of(result);
  const int64_t count = tau_in.size(-1);
  const at::Tensor vectors = count > 0 ? vectors_of(q.narrow(2, 0, count)) : at::Tensor();
  q.zero_();
  q.diagonal(0, 1, 2).fill_(1);
  if (count == 0) return result;
  for_each_block(vectors, tau_in.view({q.size(0), count}), false, [&](const Block& block, int64_t first) {
    block.apply_left(q.narrow(1, first, q.size(1) - first).narrow(2, first, q.size(2) - first), false);
  });
  return result;
}

void ormqr(const at::Tensor& reflections, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose) {
  if (other.numel() == 0 || tau.numel() == 0) return;
  const at::Tensor c = matrices_of(other);
  const at::Tensor vectors = vectors_of(matrices_of(reflections).narrow(2, 0, tau.size(-1)));
  for_each_block(vectors, tau.view({c.size(0), -1}), left == transpose, [&](const Block& block, int64_t first) {
    if (left)
      block.apply_left(c.narrow(1, first, c.size(1) - first), transpose);
    else
      block.apply_right(c.narrow(2, first, c.size(2) - first), transpose);
  });
}

}  // namespace aule::ops
