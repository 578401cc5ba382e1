#include "ops/matmul/scaled_mm.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "ops/matmul/matmul.h"
#include "ops/matmul/out_dtype.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool is_float8(const at::Tensor& t) { return t.is_floating_point() && t.element_size() == 1; }

void check(const char* op, const at::Tensor& a, const at::Tensor& b) {
  check_same_device(op, {&a, &b});
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, op, ": expected two matrices, got shapes ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
              b.size(0), "x", b.size(1), ")");
  TORCH_CHECK_NOT_IMPLEMENTED(is_float8(a) && is_float8(b), op, ": expected float8 matrices, got ", a.scalar_type(),
                              " and ", b.scalar_type());
}

// A scale for every element of a matrix [rows, columns] that has blocks of them, or one for what broadcasts.
at::Tensor spread(const char* op, const at::Tensor& scale, int64_t rows, int64_t columns) {
  if (scale.numel() == 1) return scale.reshape({1, 1});
  TORCH_CHECK(scale.dim() == 2, op, ": expected a scale of one element or two dimensions, got shape ", scale.sizes());
  at::Tensor wide = scale;
  for (int64_t d = 0; d < 2; ++d) {
    const int64_t size = d == 0 ? rows : columns, parts = wide.size(d);
    if (parts == 1 || parts == size) continue;
    constexpr int64_t kBlock = 128;
    TORCH_CHECK(parts == static_cast<int64_t>(ceil_div(static_cast<uint64_t>(size), static_cast<uint64_t>(kBlock))), op,
                ": expected scales for each element, each ", kBlock, " or all of ", size, ", got shape ",
                scale.sizes());
    wide = wide.repeat_interleave(kBlock, d).narrow(d, 0, size);
  }
  return wide;
}

void run(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
         const OptionalTensor& bias, at::Tensor& out) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const at::Tensor sa = spread(op, scale_a.to(at::kFloat), m, k), sb = spread(op, scale_b.to(at::kFloat), k, n);
  at::Tensor result;
  if (sa.size(1) == 1 && sb.size(0) == 1) {
    // Scales that do not depend on k are factors of the result, and bfloat16 has all numbers of float8.
    result = mm_dtype(a.to(at::kBFloat16), b.to(at::kBFloat16), at::kFloat).mul_(sa).mul_(sb);
  } else {
    result = at::empty({m, n}, a.options().dtype(at::kFloat));
    const at::Tensor x = a.to(at::kFloat).mul_(sa), y = b.to(at::kFloat).mul_(sb);
    gemm(op, x.unsqueeze(0), y.unsqueeze(0), {}, 0, 1, result.unsqueeze(0));
  }
  if (bias && bias->defined()) result.add_(*bias);
  at::native::resize_output(out, {m, n});
  // e4m3fn has no infinity: numbers beyond the largest are that one, as in cuBLAS. Conversions of PyTorch before 2.13
  // make NaN of them.
  if (out.scalar_type() == at::kFloat8_e4m3fn) result.clamp_(-448, 448);
  out.copy_(result);
}

at::Tensor empty_result(const at::Tensor& a, std::optional<c10::ScalarType> out_dtype) {
  return at::empty({0}, a.options().dtype(out_dtype.value_or(a.scalar_type())));
}

// One operand's lists of _scaled_mm_v2.
const at::Tensor& one_scale(const char* op, Scales scales, at::IntArrayRef recipes, at::IntArrayRef swizzles,
                            at::IntArrayRef per_row) {
  constexpr int64_t kTensorWise = 0, kRowWise = 1;  // torch.nn.functional.ScalingType
  TORCH_CHECK(scales.size() == recipes.size() && scales.size() != 0, op, ": expected a recipe for each scale, got ",
              scales.size(), " and ", recipes.size());
  TORCH_CHECK_NOT_IMPLEMENTED(scales.size() == 1 && (recipes[0] == kTensorWise || recipes[0] == kRowWise), op,
                              ": device aule has scales of a matrix and of its rows only");
  for (const int64_t swizzle : swizzles)
    TORCH_CHECK_NOT_IMPLEMENTED(swizzle == 0, op, ": device aule has no swizzled scales");
  const at::Tensor& scale = *scales.begin();
  TORCH_CHECK(recipes[0] == kTensorWise ? scale.numel() == 1 : scale.sizes() == per_row, op,
              ": expected one scale, or of rows those of shape ", per_row, ", got shape ", scale.sizes());
  return scale;
}

}  // namespace

at::Tensor& scaled_mm_out(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const OptionalTensor& bias, const OptionalTensor& scale_result,
                          std::optional<c10::ScalarType> out_dtype, bool, at::Tensor& out) {
  const char* op = "_scaled_mm";
  check(op, a, b);
  TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(), op, ": expected out of dtype ",
              out_dtype.value_or(out.scalar_type()), ", got ", out.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat, op,
                              ": expected float32 scales, got ", scale_a.scalar_type(), " and ", scale_b.scalar_type());
  // It is for float8 results, of which PyTorch's CPU leaves it out and CUDA does not.
  TORCH_CHECK_NOT_IMPLEMENTED(!scale_result || !scale_result->defined() || !is_float8(out), op,
                              ": device aule has no scale_result");
  run(op, a, b, scale_a, scale_b, bias, out);
  return out;
}
at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                     const OptionalTensor& bias, const OptionalTensor& scale_result,
                     std::optional<c10::ScalarType> out_dtype, bool use_fast_accum) {
  at::Tensor out = empty_result(a, out_dtype);
  return scaled_mm_out(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, out);
}

at::Tensor& scaled_mm_v2_out(const at::Tensor& a, const at::Tensor& b, Scales scale_a, at::IntArrayRef recipe_a,
                             at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b,
                             at::IntArrayRef swizzle_b, const OptionalTensor& bias,
                             std::optional<c10::ScalarType> out_dtype, at::IntArrayRef contraction_dim, bool,
                             at::Tensor& out) {
  const char* op = "_scaled_mm_v2";
  check(op, a, b);
  TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(), op, ": expected out of dtype ",
              out_dtype.value_or(out.scalar_type()), ", got ", out.scalar_type());
  const auto is = [](int64_t given, int64_t wanted) { return given == wanted || given + 2 == wanted; };
  TORCH_CHECK(contraction_dim.empty() ||
                  (contraction_dim.size() == 2 && is(contraction_dim[0], 1) && is(contraction_dim[1], 0)),
              op, ": expected contraction_dim [1, 0], got ", contraction_dim);
  const at::Tensor& sa = one_scale(op, scale_a, recipe_a, swizzle_a, {a.size(0), 1});
  const at::Tensor& sb = one_scale(op, scale_b, recipe_b, swizzle_b, {1, b.size(1)});
  run(op, a, b, sa, sb, bias, out);
  return out;
}
at::Tensor scaled_mm_v2(const at::Tensor& a, const at::Tensor& b, Scales scale_a, at::IntArrayRef recipe_a,
                        at::IntArrayRef swizzle_a, Scales scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                        const OptionalTensor& bias, std::optional<c10::ScalarType> out_dtype,
                        at::IntArrayRef contraction_dim, bool use_fast_accum) {
  at::Tensor out = empty_result(a, out_dtype);
  return scaled_mm_v2_out(a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype,
                          contraction_dim, use_fast_accum, out);
}

}  // namespace aule::ops
