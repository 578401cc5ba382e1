#include "ops/matmul/complex.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels_matmul.gen.h"
#include "ops/matmul/launch.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

using Number = c10::complex<double>;

struct ComplexCall {
  const char* op;
  at::Tensor a, b, c;  // c undefined: none
  Number beta, alpha;
  at::Tensor out;

  // out^T = b^T a^T
  ComplexCall transposed() const { return {op, b.mT(), a.mT(), c.defined() ? c.mT() : c, beta, alpha, out.mT()}; }
};

// The stored numbers, whatever the bits of `t` say of them.
at::Tensor stored(const at::Tensor& t) { return t.is_conj() ? t.conj() : t; }

// A matrix of pairs along the last dimension.
bool has_rows(const at::Tensor& t) { return t.stride(2) == 1 || t.size(2) == 1; }

at::Tensor pairs_of(const at::Tensor& t) {
  return at::view_as_real(stored(t)).as_strided({t.size(0), t.size(1), 2 * t.size(2)},
                                                {2 * t.stride(0), 2 * t.stride(1), 1});
}

// A batch's matrices, of which all batches may share one.
at::Tensor distinct(const at::Tensor& t) { return t.stride(0) == 0 ? t.narrow(0, 0, 1) : t; }

// The same numbers in rows, without bits.
at::Tensor in_rows(const at::Tensor& t) {
  const at::Tensor own = distinct(t);
  return at::empty(own.sizes(), own.options()).copy_(own).expand(t.sizes());
}

bool complex_strides_fit_i32(const at::Tensor& t) {
  return std::max(t.stride(1), t.stride(2)) <= std::numeric_limits<int>::max();
}

// By gemm_complex.comp, whose neighbours are along n.
void launch_complex(const ComplexCall& given) {
  constexpr int64_t kLanes = 32;
  const int64_t m = given.out.size(1), n = given.out.size(2);
  const ComplexCall call = n < kLanes && m > n ? given.transposed() : given;
  if (!complex_strides_fit_i32(call.out)) {
    const at::Tensor dense = at::empty(call.out.sizes(), call.out.options());
    launch_complex({call.op, call.a, call.b, call.c, call.beta, call.alpha, dense});
    call.out.copy_(dense);
    return;
  }
  const at::Tensor c = call.c.defined() && !complex_strides_fit_i32(call.c) ? in_rows(call.c) : call.c;
  const bool is_double = call.out.scalar_type() == at::kComplexDouble;
  const auto bits = [&](double x) -> uint64_t {
    return is_double ? std::bit_cast<uint64_t>(x) : std::bit_cast<uint32_t>(static_cast<float>(x));
  };
  const auto view = [](const at::Tensor& t, uint64_t address) {
    return MatrixView{address, t.stride(0), t.stride(1), t.stride(2)};
  };
  TensorArgs args;
  GemmProblem g;
  g.batches = static_cast<uint32_t>(call.out.size(0));
  g.m = static_cast<uint32_t>(call.out.size(1));
  g.n = static_cast<uint32_t>(call.out.size(2));
  g.k = static_cast<uint32_t>(call.a.size(2));
  g.a = view(call.a, args.read(call.a));
  g.b = view(call.b, args.read(call.b));
  if (c.defined()) g.c = view(c, args.read(c));
  g.out = view(call.out, args.write(call.out));
  auto p = operands_of<GemmComplexParams>(g);
  p.alpha_re = bits(call.alpha.real());
  p.alpha_im = bits(call.alpha.imag());
  p.beta_re = bits(call.beta.real());
  p.beta_im = bits(call.beta.imag());
  p.conj_a = call.a.is_conj();
  p.conj_b = call.b.is_conj();
  p.conj_c = c.defined() && c.is_conj();
  p.has_c = c.defined();
  launch(current(call.out), kernel::gemm_complex(is_double ? DType::c128 : DType::c64), {}, p, args,
         linear_grid(uint64_t{ceil_div(g.m, 4)} * ceil_div(g.n, 32) * g.batches));
}

// b as a real matrix [batches, 2k, 2n], times `scale`.
at::Tensor embedded(const at::Tensor& b, bool other_is_conj, Number scale) {
  const at::Tensor own = distinct(b);
  const int64_t batches = own.size(0), k = own.size(1), n = own.size(2);
  const bool k_inner = n == 1 || (k > 1 && own.stride(1) < own.stride(2));
  const int64_t inner = k_inner ? k : n, outer = k_inner ? n : k;
  const at::Tensor real = at::empty({batches, 2 * outer, 2 * inner}, own.options().dtype(at::kFloat));
  GemmComplexEmbedParams p{};
  TensorArgs args;
  p.src = args.read(own);
  p.dst = args.write(real);
  p.src_batch = own.stride(0);
  p.src_outer = own.stride(k_inner ? 2 : 1);
  p.src_inner = own.stride(k_inner ? 1 : 2);
  p.inner = static_cast<uint32_t>(inner);
  p.outer = static_cast<uint32_t>(outer);
  p.batches = static_cast<uint32_t>(batches);
  p.scale_re = static_cast<float>(scale.real());
  p.scale_im = static_cast<float>(scale.imag());
  p.conj_src = own.is_conj();
  p.conj_other = other_is_conj;
  launch(current(real), kernel::gemm_complex_embed(), {.k_inner = k_inner}, p, args,
         linear_grid(ceil_div(static_cast<uint64_t>(own.numel()), GemmComplexEmbedParams::kLocal)));
  return (k_inner ? real.mT() : real).expand({b.size(0), 2 * k, 2 * n});
}

// The cost of the operands of a real product: an embedding is four numbers of two, a copy reads and writes two.
int64_t elements_moved(const ComplexCall& call) {
  return 6 * distinct(call.b).numel() + (has_rows(call.a) ? 0 : 4 * distinct(call.a).numel());
}

// Rows of a and of the result are pairs of real numbers in memory. The result is written where it belongs.
void multiply_as_real(const ComplexCall& given) {
  const bool rows = has_rows(given.out), columns = has_rows(given.out.mT());
  if (!rows && !columns) {
    const at::Tensor dense = at::empty(given.out.sizes(), given.out.options());
    multiply_as_real({given.op, given.a, given.b, given.c, given.beta, given.alpha, dense});
    given.out.copy_(dense);
    return;
  }
  const ComplexCall turned = given.transposed();
  const bool turn = !rows || (columns && elements_moved(turned) < elements_moved(given));
  const ComplexCall& call = turn ? turned : given;

  const at::Tensor a = has_rows(call.a) ? call.a : in_rows(call.a);
  const bool real_alpha = call.alpha.imag() == 0, real_beta = call.beta.imag() == 0;
  at::Tensor c = call.c;
  if (c.defined()) {
    if (!real_beta) c = at::mul(c, at::Scalar(call.beta));
    c = has_rows(c) && !c.is_conj() ? pairs_of(c) : pairs_of(in_rows(c));
  }
  const at::Tensor b = embedded(call.b, a.is_conj(), real_alpha ? Number(1) : call.alpha);
  gemm(call.op, pairs_of(a), b, c, real_beta ? call.beta.real() : 1.0, real_alpha ? call.alpha.real() : 1.0,
       pairs_of(call.out));
}

// For a small matrix the embedding takes longer than the product. For double numbers there is no faster real kernel.
bool is_direct(const ComplexCall& call) {
  constexpr int64_t kSmall = 32;
  constexpr int64_t kMostEmbedded = std::numeric_limits<int>::max() / 2;  // elements, and real sizes
  const int64_t batches = call.out.size(0), m = call.out.size(1), n = call.out.size(2), k = call.a.size(2);
  if (call.out.scalar_type() == at::kComplexDouble || std::max({m, n, k}) <= kSmall) return true;
  return std::max(batches * k * std::max(m, n), m * n) > kMostEmbedded;
}

void multiply(const ComplexCall& call) {
  const Caps& caps = caps_of(call.out);
  const int64_t k = call.a.size(2);
  if (!is_direct(call)) return multiply_as_real(call);
  if (may_walk(caps, static_cast<uint64_t>(k))) return launch_complex(call);
  const auto slice = static_cast<int64_t>(longest_walk(caps));
  at::Tensor sum = call.c;
  for (int64_t at = 0; at < k; at += slice) {
    const int64_t count = std::min(slice, k - at);
    const at::Tensor to = at + count == k ? call.out : at::empty(call.out.sizes(), call.out.options());
    launch_complex({call.op, call.a.narrow(2, at, count), call.b.narrow(1, at, count), sum,
                    at == 0 ? call.beta : Number(1), call.alpha, to});
    sum = to;
  }
}

}  // namespace

void complex_gemm(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Scalar& beta,
                  const at::Scalar& alpha, const at::Tensor& out) {
  const ComplexCall call{op, a, b, c, beta.toComplexDouble(), alpha.toComplexDouble(), out};
  if (!out.is_conj()) return multiply(call);
  multiply(
      {op, a.conj(), b.conj(), c.defined() ? c.conj() : c, std::conj(call.beta), std::conj(call.alpha), out.conj()});
}

}  // namespace aule::ops
