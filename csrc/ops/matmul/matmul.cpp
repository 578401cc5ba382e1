#include "ops/matmul/matmul.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sum.h>

#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "kernels_matmul.gen.h"
#include "ops/matmul/bf16x3.h"
#include "ops/matmul/coopmat.h"
#include "ops/matmul/int8.h"
#include "ops/matmul/long_k.h"
#include "ops/matmul/params.h"
#include "ops/matmul/plan.h"
#include "ops/matmul/simt.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

MatrixView view_of(const at::Tensor& t, uint64_t address) { return {address, t.stride(0), t.stride(1), t.stride(2)}; }

bool narrow_enough(const at::Tensor& t) {
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  return t.stride(1) <= kMax && t.stride(2) <= kMax;
}

uint64_t scalar_bits(const at::Scalar& s, DType type) {
  return type == DType::f64 ? std::bit_cast<uint64_t>(s.toDouble()) : std::bit_cast<uint64_t>(s.toLong());
}

void launch_gemm(CommandStream& stream, const Caps& caps, GemmProblem g, const at::Scalar& beta,
                 const at::Scalar& alpha, const Args& args);

void advance(MatrixView& v, int64_t rows, int64_t cols, DType type) {
  v.address += static_cast<uint64_t>(rows * v.row + cols * v.col) * dtype_size(type);
}

// Columns and values of k past the multiples go to another kernel first; each launch then adds its part of k to out.
void launch_chunks(CommandStream& stream, const Caps& caps, const GemmPlan& plan, GemmProblem g, const at::Scalar& beta,
                   const at::Scalar& alpha, const Args& args) {
  g.n -= plan.n_rest;
  if (plan.n_rest != 0) {
    GemmProblem rest = g;
    rest.n = plan.n_rest;
    for (MatrixView* v : {&rest.b, &rest.c, &rest.out}) advance(*v, 0, g.n, g.in);
    launch_gemm(stream, caps, rest, beta, alpha, args);
  }
  if (plan.k_rest != 0) {
    GemmProblem rest = g;
    rest.k = plan.k_rest;
    launch_gemm(stream, caps, rest, beta, alpha, args);
    advance(g.a, 0, plan.k_rest, g.in);
    advance(g.b, plan.k_rest, 0, g.in);
  }
  auto p = fill<GemmChunksParams>(g);
  p.alpha = alpha.toFloat();
  p.beta = g.has_c ? beta.toFloat() : 0.0f;
  for (uint32_t i = 0; i < 8; ++i) p.digits[i] = i;
  bool started = plan.k_rest != 0;
  for (uint32_t k = plan.k_rest; k < g.k; k += plan.step) {
    if (started || !g.has_c) {
      p.c = p.out_;
      p.c_batch = p.out_batch;
      p.c_m = p.out_m;
      p.c_n = p.out_n;
      p.beta = started ? 1.0f : 0.0f;
    }
    launch(stream, kernel::gemm_chunks(),
           {.r = plan.rows,
            .step = plan.step,
            .a_unit = plan.a_pair,
            .b_unit = plan.b_pair,
            .out_pair = plan.out_pair,
            .batched = g.batches > 1},
           p, args, plan.grid);
    started = true;
    p.a += uint64_t{plan.step} * p.a_k * dtype_size(g.in);
    p.b += uint64_t{plan.step} * p.b_k * dtype_size(g.in);
  }
}

void launch_gemm(CommandStream& stream, const Caps& caps, GemmProblem g, const at::Scalar& beta,
                 const at::Scalar& alpha, const Args& args) {
  const GemmPlan plan = gemm_plan(g, caps);
  if (plan.swap) g = g.transposed();
  const int has_c = g.has_c ? 1 : 0;
  switch (plan.kernel) {
    case GemmPlan::Kernel::scalar: {
      auto p = fill<GemmScalarParams>(g);
      p.alpha_bits = scalar_bits(alpha, g.in);
      p.beta_bits = g.has_c ? scalar_bits(beta, g.in) : 0;
      const auto kernel = kernel::gemm_scalar(g.in == DType::f64 ? DType::f64 : DType::i64);
      launch(stream, kernel, {.dtype = g.in, .out_dtype = g.result, .has_c = has_c}, p, args, plan.grid);
      break;
    }
    case GemmPlan::Kernel::lanes: {
      auto p = fill<GemmLanesParams>(g);
      p.alpha = alpha.toFloat();
      p.beta = g.has_c ? beta.toFloat() : 0.0f;
      launch(stream, kernel::gemm_lanes(),
             {.dtype = g.in,
              .r = plan.rows,
              .c = plan.cols / 8,
              .a_pair = plan.a_pair,
              .b_pair = plan.b_pair,
              .has_c = has_c},
             p, args, plan.grid);
      break;
    }
    case GemmPlan::Kernel::chunks: launch_chunks(stream, caps, plan, g, beta, alpha, args); break;
    case GemmPlan::Kernel::vector: {
      auto p = fill<GemvParams>(g);
      p.alpha = alpha.toFloat();
      p.beta = g.has_c ? beta.toFloat() : 0.0f;
      launch(stream, kernel::gemv(), {.dtype = g.in, .rows = g.m, .b_along_k = plan.b_pair, .has_c = has_c}, p, args,
             plan.grid);
      break;
    }
    case GemmPlan::Kernel::tiles: {
      auto p = fill<GemmParams>(g);
      p.alpha = alpha.toFloat();
      p.beta = g.has_c ? beta.toFloat() : 0.0f;
      const int a_along_k = g.a.col <= g.a.row ? 1 : 0, b_along_k = g.b.row < g.b.col ? 1 : 0;
      launch(stream, kernel::gemm(), {.dtype = g.in, .a_along_k = a_along_k, .b_along_k = b_along_k, .has_c = has_c}, p,
             args, plan.grid);
      break;
    }
  }
}

void check_dtypes(const char* op, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected both matrices to have the same dtype, but got ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() != at::kBool, op, ": expected a numeric dtype, but got Bool");
}

void check_dim(const char* op, const char* argument, const at::Tensor& t, int64_t dim) {
  TORCH_CHECK(t.dim() == dim, op, ": expected ", argument, " to be ", dim, "-D, but got ", t.dim(), "-D with sizes ",
              t.sizes());
}

// A 2-D or 1-D result as the batch of one that gemm wants.
at::Tensor batch_of(const at::Tensor& t) { return t.unsqueeze(0); }

// What is added to a result of these sizes; where `out` itself is, and is about to grow, as it was.
at::Tensor addend(const at::Tensor& self, at::IntArrayRef sizes, const at::Tensor& out) {
  if (!self.defined()) return self;
  return (self.is_same(out) && self.sizes() != sizes ? self.clone() : self).expand(sizes);
}

at::Tensor& product(const char* op, const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                    const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_dim(op, "mat1", mat1, 2);
  check_dim(op, "mat2", mat2, 2);
  TORCH_CHECK(mat1.size(1) == mat2.size(0), op, ": mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  const at::Tensor added = addend(self, {mat1.size(0), mat2.size(1)}, out);
  at::native::resize_output(out, {mat1.size(0), mat2.size(1)});
  gemm(op, batch_of(mat1), batch_of(mat2), added.defined() ? batch_of(added) : added, beta, alpha, batch_of(out));
  return out;
}

at::Tensor& batch_product(const char* op, const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                          const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_dim(op, "batch1", batch1, 3);
  check_dim(op, "batch2", batch2, 3);
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1), op,
              ": expected batch2 to have sizes [", batch1.size(0), ", ", batch1.size(2), ", *], but got ",
              batch2.sizes());
  const std::array<int64_t, 3> sizes{batch1.size(0), batch1.size(1), batch2.size(2)};
  const at::Tensor added = addend(self, sizes, out);
  at::native::resize_output(out, sizes);
  gemm(op, batch1, batch2, added, beta, alpha, out);
  return out;
}

}  // namespace

void gemm(const char* op, const at::Tensor& a_in, const at::Tensor& b_in, const at::Tensor& c, const at::Scalar& beta,
          const at::Scalar& alpha, const at::Tensor& out) {
  check_same_device(op, {&a_in, &b_in, &c, &out});
  check_dtypes(op, a_in, b_in);
  at::assert_no_internal_overlap(out);
  if (out.numel() == 0) return;
  // In place on an operand is an error on other devices or gives garbage; here it costs a copy.
  at::Tensor a =
      a_in.is_alias_of(out) && at::get_overlap_status(a_in, out) != at::MemOverlapStatus::No ? a_in.clone() : a_in;
  at::Tensor b =
      b_in.is_alias_of(out) && at::get_overlap_status(b_in, out) != at::MemOverlapStatus::No ? b_in.clone() : b_in;
  if (!narrow_enough(a)) a = a.contiguous();
  if (!narrow_enough(b)) b = b.contiguous();

  GemmProblem g;
  g.in = dtype_of(a, op);
  g.result = dtype_of(out, op);
  g.has_c = c.defined() && !(beta.isIntegral(true) ? beta.toLong() == 0 : beta.toDouble() == 0.0);
  if (g.has_c)
    TORCH_CHECK(c.scalar_type() == out.scalar_type(), op, ": expected the added tensor to have dtype ",
                out.scalar_type(), ", but got ", c.scalar_type());
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  for (int64_t size : {out.size(0), out.size(1), out.size(2), a.size(2)})
    TORCH_CHECK(size < kMax, op, ": expected every size below 2^31, but got ", a.sizes(), " @ ", b.sizes());
  // No kernel promises to read c before it writes out.
  at::Tensor added = c;
  if (g.has_c && c.is_alias_of(out) && at::get_overlap_status(c, out) != at::MemOverlapStatus::No) added = c.clone();

  if (a.size(2) == 0) {  // nothing to multiply, and no address to read
    if (g.has_c)
      out.copy_(at::mul(added, beta));
    else
      out.zero_();
    return;
  }

  if (gemm_in_slices(op, a, b, g.has_c ? added : at::Tensor(), beta, alpha, out)) return;
  // A result with strides past 31 bits goes through a temporary.
  if (!narrow_enough(out) || (g.has_c && !narrow_enough(added))) {
    at::Tensor dense = at::empty(out.sizes(), out.options());
    gemm(op, a, b, g.has_c ? added.contiguous() : at::Tensor(), beta, alpha, dense);
    out.copy_(dense);
    return;
  }

  TensorArgs args;
  g.batches = static_cast<uint32_t>(out.size(0));
  g.m = static_cast<uint32_t>(out.size(1));
  g.n = static_cast<uint32_t>(out.size(2));
  g.k = static_cast<uint32_t>(a.size(2));
  g.a = view_of(a, args.read(a));
  g.b = view_of(b, args.read(b));
  if (g.has_c) g.c = view_of(added, args.read(added));
  g.out = view_of(out, args.write(out));

  if (g.result != g.in && g.result == DType::f32) {  // which of the kernels of 16-bit matrices only one writes
    if (gemm_on_matrices(g, beta, alpha, args, out)) return;
    return gemm(op, a.to(at::kFloat), b.to(at::kFloat), g.has_c ? added : at::Tensor(), beta, alpha, out);
  }
  TORCH_INTERNAL_ASSERT(g.result == g.in || !is_floating(g.in), op, ": no kernel makes ", out.scalar_type(), " of ",
                        a.scalar_type());

  if (alpha.isIntegral(true) && alpha.toLong() == 1 && gemm_of_int8(g, args, out)) return;
  if (gemm_of_few_rows(g, beta, alpha, args, out) || gemm_on_matrices(g, beta, alpha, args, out)) return;
  if (gemm_of_pieces(g, beta, alpha, a, b, added, out)) return;
  if (!gemm_in_large_tiles(g, beta, alpha, args, out)) launch_gemm(current(out), caps_of(out), g, beta, alpha, args);
}

at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return product("mm", {}, self, mat2, 0, 1, out);
}

at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return batch_product("bmm", {}, self, mat2, 0, 1, out);
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  return product("addmm", self, mat1, mat2, beta, alpha, out);
}

at::Tensor& addmm_activation_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu, at::Tensor& out) {
  product("_addmm_activation", self, mat1, mat2, beta, alpha, out);
  out.copy_(use_gelu ? at::gelu(out) : at::relu(out));
  return out;
}

at::Tensor& baddbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return batch_product("baddbmm", self, batch1, batch2, beta, alpha, out);
}

at::Tensor& addbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                       const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_dim("addbmm", "batch1", batch1, 3);
  check_dim("addbmm", "batch2", batch2, 3);
  dtype_of(batch1, "addbmm");  // declines before the copies below are recorded
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1),
              "addbmm: expected batch2 to have sizes [", batch1.size(0), ", ", batch1.size(2), ", *], but got ",
              batch2.sizes());
  // Summing over the batch is one product over batch and k together.
  const int64_t k = batch1.size(0) * batch1.size(2);
  return product("addbmm", self, batch1.permute({1, 0, 2}).reshape({batch1.size(1), k}),
                 batch2.reshape({k, batch2.size(2)}), beta, alpha, out);
}

at::Tensor addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  at::Tensor out = at::empty({0}, self.options());
  addbmm_out(self, batch1, batch2, beta, alpha, out);
  return out;
}

at::Tensor& addbmm_(at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                    const at::Scalar& alpha) {
  return addbmm_out(self, batch1, batch2, beta, alpha, self);
}

at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  check_dim("addmv", "mat", mat, 2);
  check_dim("addmv", "vec", vec, 1);
  TORCH_CHECK(mat.size(1) == vec.size(0), "addmv: expected vec to have ", mat.size(1), " elements, but got ",
              vec.size(0));
  const at::Tensor added = addend(self, {mat.size(0)}, out);
  at::native::resize_output(out, {mat.size(0)});
  gemm("addmv", batch_of(mat), vec.unsqueeze(0).unsqueeze(2), added.unsqueeze(0).unsqueeze(2), beta, alpha,
       out.unsqueeze(0).unsqueeze(2));
  return out;
}

at::Tensor dot(const at::Tensor& self, const at::Tensor& tensor) {
  check_dim("dot", "self", self, 1);
  check_dim("dot", "tensor", tensor, 1);
  TORCH_CHECK(self.size(0) == tensor.size(0), "dot: expected vectors of one length, but got ", self.size(0), " and ",
              tensor.size(0));
  check_dtypes("dot", self, tensor);
  // One output is one workgroup's work: a long vector is a reduction. 16-bit products must not be rounded before the
  // sum.
  if (self.size(0) > 4096 && self.element_size() >= 4) return at::sum(at::mul(self, tensor), self.scalar_type());
  at::Tensor out = at::empty({}, self.options());
  gemm("dot", self.unsqueeze(0).unsqueeze(0), tensor.unsqueeze(0).unsqueeze(2), {}, 0, 1, out.view({1, 1, 1}));
  return out;
}

at::Tensor& int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == at::kChar && out.scalar_type() == at::kInt,
              "_int_mm: expected Char matrices and an Int result, but got ", self.scalar_type(), " and ",
              out.scalar_type());
  return product("_int_mm", {}, self, mat2, 0, 1, out);
}

at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kInt));
  int_mm_out(self, mat2, out);
  return out;
}

}  // namespace aule::ops
