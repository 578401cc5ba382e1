// A = Z T Z^H in complex numbers: reflections make a Hessenberg matrix, QR iteration a triangular one; its eigenvectors
// are found by substitution, and Z takes them to those of A.
#include "ops/eigen/eig.h"

#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "kernels_eigen.gen.h"
#include "ops/eigen/jacobi.h"
#include "ops/linalg/matrices.h"
#include "ops/eigen/plan.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

constexpr uint64_t kMostSweeps = 30;  // for each eigenvalue, as LAPACK's
EigPlan eig_plan_of(const at::Tensor& a) {
  return eig_plan(profile_of(a), number_dtype("linalg_eig", a), static_cast<uint64_t>(a.size(-1)));
}

void check_size(const char* op, const at::Tensor& a) { check_walk(op, caps_of(a), eig_plan_of(a).walk); }

struct Schur {
  at::Tensor t, z;  // column-major; z undefined: t has the eigenvalues alone
};

void reduce_to_hessenberg(const Schur& s) {
  const uint64_t n = static_cast<uint64_t>(s.t.size(1));
  const EigPlan plan = eig_plan_of(s.t);
  for (uint64_t first = 0; first + 2 < n; first += plan.reflections) {
    TensorArgs args;
    EigHessenbergParams p{};
    p.h = args.read_write(s.t);
    p.z = s.z.defined() ? args.read_write(s.z) : p.h;
    p.n = static_cast<uint32_t>(n);
    p.first = static_cast<uint32_t>(first);
    p.steps = static_cast<uint32_t>(std::min(plan.reflections, n - 2 - first));
    launch(current(s.t), kernel::eig_hessenberg(number_dtype("linalg_eig", s.t)),
           {.local = static_cast<int>(plan.local), .has_vectors = s.z.defined()}, p, args,
           linear_grid(static_cast<uint64_t>(s.t.size(0))));
  }
}

// Returns whether each matrix was left with a block that is not triangular.
at::Tensor iterate(const Schur& s) {
  const uint64_t n = static_cast<uint64_t>(s.t.size(1)), batch = static_cast<uint64_t>(s.t.size(0));
  const DType dtype = number_dtype("linalg_eig", s.t);
  const EigPlan plan = eig_plan_of(s.t);
  const EigSweepSpec spec{.local = static_cast<int>(plan.local),
                          .has_vectors = s.z.defined(),
                          .in_shared = plan.in_shared,
                          .elems = static_cast<int>(plan.elems)};
  const at::Tensor state = at::zeros({s.t.size(0), 2}, s.t.options().dtype(at::kInt));
  state.select(1, 0).fill_(static_cast<int64_t>(n) - 1);
  // The device is asked after as many as most matrices take, then more often.
  uint64_t until_asked = 3 * n;
  for (uint64_t done = 0; done < kMostSweeps * n;) {
    for (uint64_t made = 0; made < until_asked; made += plan.sweeps, done += plan.sweeps) {
      TensorArgs args;
      EigSweepParams p{};
      p.h = args.read_write(s.t);
      p.z = s.z.defined() ? args.read_write(s.z) : p.h;
      p.state = args.read_write(state);
      p.n = static_cast<uint32_t>(n);
      p.sweeps = static_cast<uint32_t>(plan.sweeps);
      launch(current(s.t), kernel::eig_sweep(dtype), spec, p, args, linear_grid(batch));
    }
    until_asked = std::max<uint64_t>(1, n / 2);
    if (state.select(1, 0).max().item().toInt() == 0) break;
  }
  return state.select(1, 0).contiguous();
}

at::Tensor triangular_vectors(const at::Tensor& t) {
  const uint64_t n = static_cast<uint64_t>(t.size(1)), batch = static_cast<uint64_t>(t.size(0));
  const at::Tensor x = at::empty(t.sizes(), t.options());
  const uint64_t rows = eig_plan_of(t).rows;
  for (uint64_t end = n; end > 0; end -= std::min(rows, end)) {
    TensorArgs args;
    EigVectorsParams p{};
    p.t = args.read(t);
    p.x = args.read_write(x);
    p.n = static_cast<uint32_t>(n);
    p.batches = static_cast<uint32_t>(batch);
    p.first = static_cast<uint32_t>(end - std::min(rows, end));
    p.end = static_cast<uint32_t>(end);
    launch(current(t), kernel::eig_vectors(number_dtype("linalg_eig", t)), {}, p, args,
           linear_grid(ceil_div(batch * n, EigVectorsParams::kLocal)));
  }
  return x;
}

// Turned so that the largest element of each column is real.
at::Tensor with_real_largest(const at::Tensor& v) {
  const at::Tensor sizes = v.abs();
  const at::Tensor place = sizes.argmax(1, true);
  return v * (v.gather(1, place) / sizes.gather(1, place)).conj();
}

struct Spectrum {
  at::Tensor values, vectors;
};
Spectrum spectrum_of(const at::Tensor& input, bool has_vectors) {
  const char* name = has_vectors ? "torch.linalg.eig" : "torch.linalg.eigvals";
  const int64_t batch = input.size(0), n = input.size(1);
  const at::Tensor parts = input.is_complex() ? at::view_as_real(input) : input;
  const at::Tensor largest = parts.abs().flatten(1).amax(1);
  TORCH_CHECK(largest.isfinite().all().item().toBool(), name, ": input tensor should not contain infs or NaNs.");
  // A power of two, so that nothing is rounded. 2^-120: its inverse is finite.
  const at::Tensor scale = largest.clamp_min(7.6e-37).log2().floor().exp2().view({batch, 1, 1});
  const c10::ScalarType type = c10::toComplexType(input.scalar_type());
  Schur s;
  s.t = at::empty({batch, n, n}, input.options().dtype(type)).mT();
  s.t.copy_(input.div(scale));
  if (has_vectors) {
    s.z = at::zeros({batch, n, n}, s.t.options()).mT();
    s.z.diagonal(0, 1, 2).fill_(1);
  }
  reduce_to_hessenberg(s);
  at::_linalg_check_errors(iterate(s), name, batch == 1);
  at::Tensor values = s.t.diagonal(0, 1, 2);
  if (!input.is_complex()) {  // What rounding alone gave an imaginary part.
    const double eps = at::native::_get_epsilon(input.scalar_type());
    const at::Tensor i = at::imag(values);
    values = at::complex(at::real(values), at::where(i.abs() <= eps * static_cast<double>(n), 0, i));
  }
  values = values * scale.squeeze(-1);
  if (!has_vectors) return {values, {}};
  const at::Tensor vectors = empty_matrices(s.t, n, n);
  gemm("linalg_eig", s.z, triangular_vectors(s.t), {}, 0, 1, vectors);
  normalize_columns(vectors);
  return {values, with_real_largest(vectors)};
}

Spectrum compute(const at::Tensor& a, bool has_vectors) {
  const char* name = has_vectors ? "linalg_eig" : "linalg_eigvals";
  at::native::squareCheckInputs(a, has_vectors ? "linalg.eig" : "linalg.eigvals");
  number_dtype(name, a);
  check_size(name, a);
  const int64_t n = a.size(-1);
  const at::TensorOptions options = a.options().dtype(c10::toComplexType(a.scalar_type()));
  std::vector<int64_t> values_sizes = with_batch_of(a, {n});
  Spectrum result{at::empty(values_sizes, options), has_vectors ? at::empty(a.sizes(), options).mT() : at::Tensor()};
  if (a.numel() == 0) return result;
  const Spectrum found = spectrum_of(matrices_to_read(a).resolve_conj(), has_vectors);
  result.values.copy_(found.values.view(values_sizes));
  if (has_vectors) result.vectors.copy_(found.vectors.reshape(a.sizes()));
  return result;
}

void check_out(const char* name, const at::Tensor& a, const at::Tensor& out) {
  at::native::checkLinalgCompatibleDtype(name, out.scalar_type(), c10::toComplexType(a.scalar_type()));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> linalg_eig(const at::Tensor& a) {
  const Spectrum s = compute(a, true);
  return {s.values, s.vectors};
}
std::tuple<at::Tensor&, at::Tensor&> linalg_eig_out(const at::Tensor& a, at::Tensor& values, at::Tensor& vectors) {
  check_out("torch.linalg.eig", a, values);
  check_out("torch.linalg.eig", a, vectors);
  const Spectrum s = compute(a, true);
  return {hand_over(s.values, values), hand_over(s.vectors, vectors)};
}
at::Tensor linalg_eigvals(const at::Tensor& a) { return compute(a, false).values; }
at::Tensor& linalg_eigvals_out(const at::Tensor& a, at::Tensor& values) {
  check_out("torch.linalg.eigvals", a, values);
  return hand_over(compute(a, false).values, values);
}

}  // namespace aule::ops
