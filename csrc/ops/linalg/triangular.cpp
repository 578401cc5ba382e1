#include "ops/linalg/triangular.h"

#include <ATen/ops/linalg_solve_triangular_native.h>
#include <ATen/ops/triangular_solve_native.h>

#include "kernels_linalg.gen.h"
#include "ops/linalg/matrices.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/structured.h"
#include "ops/matmul/matmul.h"

namespace aule::ops {
namespace {

constexpr int64_t kTriangleCut = 32;  // where triangles are cut

// By one launch of triangular_solve.comp.
void solve_block(const Triangle& t, const TrianglePlan& plan, const at::Tensor& x) {
  const DType dtype = number_dtype("triangular_solve", x);
  const int64_t n = t.matrices.size(1), columns = x.size(2), batches = x.size(0);
  const at::Tensor& l = t.matrices;
  // An upper triangle is read from its last element, backwards.
  const int64_t sign = t.is_upper ? -1 : 1, bytes = x.element_size();
  TensorArgs args;
  TriangularSolveParams p{};
  p.l = args.read(l);
  p.x = args.read_write(x);
  if (t.is_upper) {
    p.l += static_cast<uint64_t>((n - 1) * (l.stride(1) + l.stride(2)) * bytes);
    p.x += static_cast<uint64_t>((n - 1) * x.stride(1) * bytes);
  }
  p.l_batch = l.stride(0);
  p.x_batch = x.stride(0);
  p.l_row = sign * l.stride(1);
  p.l_col = sign * l.stride(2);
  p.x_row = sign * x.stride(1);
  p.x_col = x.stride(2);
  p.n = static_cast<uint32_t>(n);
  p.columns = static_cast<uint32_t>(columns);
  p.batches = static_cast<uint32_t>(batches);
  p.conjugates = l.is_conj();
  p.is_unit = t.is_unit;

  launch(current(x), kernel::triangular_solve(dtype),
         {.staged = plan.in_shared,
          .most = static_cast<int>(plan.most),
          .local = plan.local,
          .shares = static_cast<int>(plan.shares)},
         p, args, linear_grid(plan.groups));
}

}  // namespace

void solve_left(const Triangle& t, const at::Tensor& x) {
  const int64_t n = t.matrices.size(1), columns = x.size(2);
  if (x.numel() == 0) return;
  const TrianglePlan plan =
      triangle_plan(profile_of(x), number_dtype("triangular_solve", x), x.size(1), columns, x.size(0));
  if (plan.at_once) return solve_block(t, plan, x);
  const int64_t first = first_half(n, kTriangleCut), rest = n - first;
  const at::Tensor above = x.narrow(1, 0, first), below = x.narrow(1, first, rest);
  const Triangle top{block(t.matrices, 0, first, 0, first), t.is_upper, t.is_unit};
  const Triangle bottom{block(t.matrices, first, rest, first, rest), t.is_upper, t.is_unit};
  if (columns == 0) return;
  if (t.is_upper) {
    solve_left(bottom, below);
    gemm("triangular_solve", block(t.matrices, 0, first, first, rest), below, above, 1, -1, above);
    solve_left(top, above);
  } else {
    solve_left(top, above);
    gemm("triangular_solve", block(t.matrices, first, rest, 0, first), above, below, 1, -1, below);
    solve_left(bottom, below);
  }
}

void triangular_solve(const at::Tensor& a, const at::Tensor& b, bool left, bool upper,
                      at::native::TransposeType transpose, bool unitriangular) {
  Triangle t{matrices_to_read(as_columns(a)), upper, unitriangular};
  if (transpose == at::native::TransposeType::Transpose) t = t.transposed();
  if (transpose == at::native::TransposeType::ConjTranspose) t = t.adjoint();
  at::Tensor x = matrices_of(as_columns(b));
  if (!left) {  // x op(a) = b is op(a)^T x^T = b^T
    t = t.transposed();
    x = x.mT();
  }
  solve_left(t, x);
}

at::Tensor linalg_solve_triangular(const at::Tensor& self, const at::Tensor& b, bool upper, bool left,
                                   bool unitriangular) {
  number_dtype("linalg_solve_triangular", self);
  return at::native::linalg_solve_triangular(self, b, upper, left, unitriangular);
}
at::Tensor& linalg_solve_triangular_out(const at::Tensor& self, const at::Tensor& b, bool upper, bool left,
                                        bool unitriangular, at::Tensor& out) {
  number_dtype("linalg_solve_triangular", self);
  return at::native::linalg_solve_triangular_out(self, b, upper, left, unitriangular, out);
}
std::tuple<at::Tensor&, at::Tensor&> triangular_solve_out(const at::Tensor& self, const at::Tensor& a, bool upper,
                                                          bool transpose, bool unitriangular, at::Tensor& x,
                                                          at::Tensor& m) {
  number_dtype("triangular_solve", self);
  Structured<at::native::structured_triangular_solve_out, 2> op({&x, &m});
  op.run(self, a, upper, transpose, unitriangular);
  return {x, m};
}

}  // namespace aule::ops
