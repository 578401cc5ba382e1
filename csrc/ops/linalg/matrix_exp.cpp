// exp(A) = exp(A / 2^s)^(2^s), by a Taylor polynomial of degree 4, 9 or 16 whose backward error is a rounding where the
// 1-norm is at most its bound, in Paterson's and Stockmeyer's form: with A^q, polynomials of degree q - 1 are its
// coefficients. s is each matrix's own, the degree that of the largest norm.
#include "ops/linalg/matrix_exp.h"

#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <cmath>
#include <vector>

#include "ops/linalg/matrices.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {
namespace {

constexpr const char* kMatrixExp = "linalg_matrix_exp";

struct Taylor {
  int64_t power;  // q; the degree is q times the number of products after those of the powers, plus one
  int64_t blocks;
  double bound_float, bound_double;
};
// Bounds: where the series of log(exp(-x) T(x)) / x, of magnitudes, reaches 2^-24 and 2^-53.
constexpr std::array<Taylor, 3> kTaylors = {{{2, 2, 5.116619363445086e-2, 3.397168839976962e-4},
                                             {3, 3, 7.795113374358031e-1, 8.957760203223343e-2},
                                             {4, 4, 2.4782808775219713, 7.802874256626574e-1}}};

double bound_of(const Taylor& taylor, const at::Tensor& a) {
  return c10::toRealValueType(a.scalar_type()) == at::kDouble ? taylor.bound_double : taylor.bound_float;
}

// [batch, n, n]
at::Tensor polynomial(const Taylor& taylor, const at::Tensor& a) {
  const int64_t q = taylor.power, batch = a.size(0), n = a.size(1);
  const at::Tensor powers = at::empty({q + 1, batch, n, n}, a.options());
  powers[0].zero_().diagonal(0, 1, 2).fill_(1);
  powers[1].copy_(a);
  for (int64_t i = 2; i <= q; ++i) gemm(kMatrixExp, powers[i - 1], a, {}, 0, 1, powers[i]);
  std::vector<double> coefficients;
  double factorial = 1;
  for (int64_t i = 0; i <= q * taylor.blocks; ++i) {
    factorial *= i > 0 ? static_cast<double>(i) : 1.0;
    coefficients.push_back(1 / factorial);
  }
  const double highest = coefficients.back();
  coefficients.pop_back();
  const at::Tensor table = at::tensor(coefficients).to(a.options()).view({taylor.blocks, q});
  const at::Tensor blocks = compute_linear_combination(powers.narrow(0, 0, q), table);
  at::Tensor sum = blocks[taylor.blocks - 1].add_(powers[q], highest);
  for (int64_t i = taylor.blocks - 2; i >= 0; --i) {
    const at::Tensor next = at::empty(sum.sizes(), sum.options());
    gemm(kMatrixExp, sum, powers[q], blocks[i], 1, 1, next);
    sum = next;
  }
  return sum;
}

at::Tensor exponentials(const at::Tensor& a) {
  const at::Tensor norms = a.abs().sum(1).amax(1);
  const double largest = norms.max().item().toDouble();
  for (const Taylor& taylor : kTaylors)
    if (largest <= bound_of(taylor, a)) return polynomial(taylor, a);
  const double bound = bound_of(kTaylors.back(), a);
  // A NaN, or infinity, makes its own matrix NaN, and is not scaled.
  const at::Tensor halvings = (norms / bound).log2().ceil().clamp_min(0);
  const at::Tensor squarings = at::where(norms.isfinite(), halvings, 0).view({-1, 1, 1});
  at::Tensor result = polynomial(kTaylors.back(), a * (-squarings).exp2());
  const int64_t most = squarings.max().item().toLong();
  for (int64_t i = 0; i < most; ++i) {
    const at::Tensor square = at::empty(result.sizes(), result.options());
    gemm(kMatrixExp, result, result, {}, 0, 1, square);
    result = a.size(0) == 1 ? square : at::where(squarings > i, square, result);
  }
  return result;
}

}  // namespace

at::Tensor linalg_matrix_exp(const at::Tensor& a) {
  at::native::squareCheckInputs(a, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(a, "linalg.matrix_exp");
  const bool is_half = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  if (!is_half) number_dtype(kMatrixExp, a);
  if (a.numel() == 0) return at::empty(a.sizes(), a.options());
  if (a.size(-1) == 1) return at::exp(a);
  const at::Tensor wide = matrices_to_read(is_half ? a.to(at::kFloat) : a).resolve_conj();
  return exponentials(wide).view(a.sizes()).to(a.scalar_type());
}
at::Tensor& linalg_matrix_exp_out(const at::Tensor& a, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == a.scalar_type(), "linalg.matrix_exp: Expected out to have the dtype ",
              a.scalar_type(), ", but got ", out.scalar_type());
  return hand_over(linalg_matrix_exp(a), out);
}

at::Tensor compute_linear_combination(const at::Tensor& input, const at::Tensor& coefficients) {
  TORCH_CHECK(coefficients.dim() == 2 && input.dim() > 0 && coefficients.size(1) == input.size(0),
              "_compute_linear_combination: coefficients of ", coefficients.sizes(), " for ", input.sizes());
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes[0] = coefficients.size(0);
  const at::Tensor out = at::empty(sizes, input.options());
  if (out.numel() == 0) return out;
  const int64_t terms = input.size(0), each = out.numel() / sizes[0];
  if (terms == 0) return out.zero_();
  gemm("_compute_linear_combination", coefficients.unsqueeze(0), input.reshape({1, terms, each}), {}, 0, 1,
       out.view({1, sizes[0], each}));
  return out;
}
at::Tensor& compute_linear_combination_out(const at::Tensor& input, const at::Tensor& coefficients, at::Tensor& out) {
  return hand_over(compute_linear_combination(input, coefficients), out);
}

}  // namespace aule::ops
