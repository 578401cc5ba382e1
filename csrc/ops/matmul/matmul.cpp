#include "ops/matmul/matmul.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "ops/matmul/complex.h"
#include "ops/matmul/kernels/bf16x3.h"
#include "ops/matmul/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

MatrixView view_of(const at::Tensor& t, uint64_t address) { return {address, t.stride(0), t.stride(1), t.stride(2)}; }

bool strides_fit_i32(const at::Tensor& t) {
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  return t.stride(1) <= kMax && t.stride(2) <= kMax;
}

// Set by torch.backends.fp32_precision or torch.set_float32_matmul_precision; the second leaves the first alone.
Float32Precision float32_precision() {
  if (const auto asked = asked_float32_precision()) return *asked;
  try {
    switch (at::globalContext().float32MatmulPrecision()) {
      case at::Float32MatmulPrecision::HIGH: return Float32Precision::high;
      case at::Float32MatmulPrecision::MEDIUM: return Float32Precision::medium;
      default: break;
    }
  } catch (const c10::Error&) {  // settings of other backends contradict each other: nothing was asked of this one
  }
  return Float32Precision::highest;
}

bool is_zero(const at::Scalar& s) { return s.isIntegral(true) ? s.toLong() == 0 : s.toComplexDouble() == 0.0; }
bool is_one(const at::Scalar& s) { return s.isIntegral(true) ? s.toLong() == 1 : s.toFloat() == 1.0f; }

void check_dtypes(const char* op, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected both matrices to have the same dtype, but got ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() != at::kBool, op, ": expected a numeric dtype, but got Bool");
}

// Declines a dtype that no kernel multiplies.
void check_multiplied(const char* op, const at::Tensor& t, const GemmEpilogue& epilogue) {
  if (!t.is_complex()) {
    dtype_of(t, op);
    return;
  }
  const bool is_double = t.scalar_type() == at::kComplexDouble;
  const bool served = t.scalar_type() == at::kComplexFloat || (is_double && caps_of(t).float64);
  const bool plain = epilogue.activation == Activation::none && !epilogue.residual.defined();
  TORCH_CHECK_NOT_IMPLEMENTED(served && plain, op, ": not implemented for ", t.scalar_type(), " on this device");
}

// `t`, or a copy where it overlaps `out`.
at::Tensor apart_from(const at::Tensor& out, const at::Tensor& t) {
  return t.is_alias_of(out) && at::get_overlap_status(t, out) != at::MemOverlapStatus::No ? t.clone() : t;
}

// Whether every element of `c` lies where the element of `out` does that it is added to.
bool is_in_place(const at::Tensor& c, const at::Tensor& out) {
  return c.is_alias_of(out) && c.storage_offset() == out.storage_offset() && c.sizes() == out.sizes() &&
         c.strides() == out.strides() && c.is_conj() == out.is_conj();
}

void check_dim(const char* op, const char* argument, const at::Tensor& t, int64_t dim) {
  TORCH_CHECK(t.dim() == dim, op, ": expected ", argument, " to be ", dim, "-D, but got ", t.dim(), "-D with sizes ",
              t.sizes());
}

// A 2-D or 1-D result as the batch of one that gemm wants.
at::Tensor batch_of(const at::Tensor& t) { return t.unsqueeze(0); }

// The matrix that is added to a result of these sizes; where `out` itself is, and is about to grow, as it was.
at::Tensor addend(const at::Tensor& self, at::IntArrayRef sizes, const at::Tensor& out) {
  if (!self.defined()) return self;
  return (self.is_same(out) && self.sizes() != sizes ? self.clone() : self).expand(sizes);
}

at::Tensor& product(const char* op, const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                    const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out,
                    const GemmEpilogue& epilogue = {}) {
  check_dim(op, "mat1", mat1, 2);
  check_dim(op, "mat2", mat2, 2);
  TORCH_CHECK(mat1.size(1) == mat2.size(0), op, ": mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  const at::Tensor added = addend(self, {mat1.size(0), mat2.size(1)}, out);
  at::native::resize_output(out, {mat1.size(0), mat2.size(1)});
  gemm(op, batch_of(mat1), batch_of(mat2), added.defined() ? batch_of(added) : added, beta, alpha, batch_of(out),
       epilogue);
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
          const at::Scalar& alpha, const at::Tensor& out, const GemmEpilogue& epilogue) {
  check_same_device(op, {&a_in, &b_in, &c, &out});
  check_dtypes(op, a_in, b_in);
  at::assert_no_internal_overlap(out);
  if (out.numel() == 0) return;
  check_multiplied(op, a_in, epilogue);
  // In place on an operand is an error on other devices or gives garbage; here it costs a copy.
  at::Tensor a = apart_from(out, a_in), b = apart_from(out, b_in);
  if (!strides_fit_i32(a)) a = a.contiguous();
  if (!strides_fit_i32(b)) b = b.contiguous();

  const bool has_c = c.defined() && !is_zero(beta);
  if (has_c)
    TORCH_CHECK(c.scalar_type() == out.scalar_type(), op, ": expected the added tensor to have dtype ",
                out.scalar_type(), ", but got ", c.scalar_type());
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  for (int64_t size : {out.size(0), out.size(1), out.size(2), a.size(2)})
    TORCH_CHECK(size < kMax, op, ": expected every size below 2^31, but got ", a.sizes(), " @ ", b.sizes());
  // If c is out itself, some kernels read each element before they write it; for others, below, it is copied.
  const bool in_place = has_c && is_in_place(c, out);
  at::Tensor added = !has_c ? at::Tensor() : in_place ? c : apart_from(out, c);

  if (a.size(2) == 0) {  // nothing to multiply, and no address to read
    if (has_c)
      out.copy_(at::mul(added, beta));
    else
      out.zero_();
    apply_epilogue(out, epilogue, Results::in_place);
    return;
  }
  if (a.is_complex()) return complex_gemm(op, a, b, added, beta, alpha, out);

  GemmProblem g;
  g.in = dtype_of(a, op);
  g.result = dtype_of(out, op);
  g.has_c = has_c;
  TensorArgs args;
  g.batches = static_cast<uint32_t>(out.size(0));
  g.m = static_cast<uint32_t>(out.size(1));
  g.n = static_cast<uint32_t>(out.size(2));
  g.k = static_cast<uint32_t>(a.size(2));
  g.a = view_of(a, args.read(a));
  g.b = view_of(b, args.read(b));
  g.out = view_of(out, args.write(out));
  if (g.has_c) g.c = in_place ? g.out : view_of(added, args.read(added));

  TORCH_INTERNAL_ASSERT(g.result == g.in || g.result == DType::f32 || !is_floating(g.in), op, ": no kernel makes ",
                        out.scalar_type(), " of ", a.scalar_type());
  g.alpha_is_one = is_one(alpha);
  if (g.in == DType::f32 && may_take_bf16x3(caps_of(out))) g.precision = float32_precision();

  // Kernels find the residual where they write the result.
  GemmEpilogue after = epilogue;
  g.activation = after.activation;
  g.has_residual = after.residual.defined();
  if (g.has_residual) {
    at::Tensor& r = after.residual;
    if (r.scalar_type() != out.scalar_type() || r.strides() != out.strides() || r.is_alias_of(out))
      r = at::empty_strided(out.sizes(), out.strides(), out.options()).copy_(r);
    g.residual = args.read(r);
  }
  std::optional<GemmPlan> planned;
  if (in_place) planned = plan_of(out, g);
  if (planned && !planned->reads_before_it_writes()) {
    added = c.clone();
    g.c = view_of(added, args.read(added));
    planned.reset();  // c lies elsewhere now
  }
  multiply(op, g, beta, alpha, a, b, added, out, after, args, std::move(planned));
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
  const GemmEpilogue epilogue{use_gelu ? Activation::gelu : Activation::relu, {}};
  return product("_addmm_activation", self, mat1, mat2, beta, alpha, out, epilogue);
}

at::Tensor& baddbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return batch_product("baddbmm", self, batch1, batch2, beta, alpha, out);
}

at::Tensor& addbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                       const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_dim("addbmm", "batch1", batch1, 3);
  check_dim("addbmm", "batch2", batch2, 3);
  check_multiplied("addbmm", batch1, {});  // declines before the copies below are recorded
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
  const int64_t longest = self.scalar_type() == at::kComplexDouble ? 64 : 4096;  // the kernel for it has one column
  if (self.size(0) > longest && self.element_size() >= 4) return at::sum(at::mul(self, tensor), self.scalar_type());
  at::Tensor out = at::empty({}, self.options());
  gemm("dot", self.unsqueeze(0).unsqueeze(0), tensor.unsqueeze(0).unsqueeze(2), {}, 0, 1, out.view({1, 1, 1}));
  return out;
}

at::Tensor vdot(const at::Tensor& self, const at::Tensor& other) { return ops::dot(self.conj(), other); }

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
