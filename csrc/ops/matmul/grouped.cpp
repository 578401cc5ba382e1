#include "ops/matmul/grouped.h"

#include <ATen/ops/empty_strided.h>

#include <limits>
#include <utility>
#include <vector>

#include "kernels_matmul.gen.h"
#include "ops/matmul/matmul.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kOp = "_grouped_mm";
constexpr uint32_t kTile = 64, kStep = 16;  // of gemm_grouped.comp

bool is_served(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

// Rows start at multiples of 16 bytes, as those of PyTorch and of its compiler do.
at::Tensor result_for(const at::Tensor& self, at::IntArrayRef sizes) {
  const int64_t line = 16 / static_cast<int64_t>(self.element_size());
  const int64_t pitch = round_up(sizes.back(), line);
  std::vector<int64_t> strides{pitch, 1};
  if (sizes.size() == 3) strides.insert(strides.begin(), sizes[1] * pitch);
  return at::empty_strided(sizes, strides, self.options());
}

at::Tensor with_small_strides(const at::Tensor& t) {
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  return t.stride(-1) <= kMax && t.stride(-2) <= kMax ? t : t.contiguous();
}

// Groups of rows, or of k. `a` and `out` are 2-D and `b` 3-D, or `a` and `b` 2-D and `out` 3-D.
void launch_groups(const at::Tensor& a_in, const at::Tensor& b_in, const at::Tensor& offs, const at::Tensor& out) {
  const at::Tensor a = with_small_strides(a_in), b = with_small_strides(b_in), ends = offs.contiguous();
  const DeviceProfile& profile = profile_of(a);
  const bool k_groups = b.dim() == 2;
  TensorArgs args;
  GemmGroupedParams p{};
  if (a.numel() > 0) p.a = args.read(a);
  if (b.numel() > 0) p.b = args.read(b);
  if (ends.numel() > 0) p.offs = args.read(ends);
  p.out_ = args.write(out);
  p.group = k_groups ? out.stride(0) : b.stride(0);
  p.a_m = static_cast<int>(a.stride(0));
  p.a_k = static_cast<int>(a.stride(1));
  p.b_k = static_cast<int>(b.stride(-2));
  p.b_n = static_cast<int>(b.stride(-1));
  p.out_m = static_cast<int>(out.stride(-2));
  p.out_n = static_cast<int>(out.stride(-1));
  p.m = static_cast<uint32_t>(a.size(0));
  p.n = static_cast<uint32_t>(b.size(-1));
  p.k = static_cast<uint32_t>(a.size(1));
  p.groups = static_cast<uint32_t>(ends.size(0));
  const bool staged = !profile.software_simd() || !may_walk(profile, p.k + uint64_t{kTile});
  if (staged) check_walk(kOp, profile, p.k / kStep + uint64_t{kTile});
  const uint64_t row_tiles =
      k_groups ? uint64_t{ceil_div(p.m, kTile)} * p.groups : uint64_t{p.m} / kTile + p.groups + 1;
  launch(current(out), kernel::gemm_grouped(),
         {.dtype = dtype_of(a, kOp),
          .k_groups = k_groups,
          .staged = staged,
          .a_k_major = p.a_k <= p.a_m,
          .b_k_major = p.b_k < p.b_n},
         p, args, linear_grid(row_tiles * ceil_div(p.n, kTile)));
}

void check(const at::Tensor& self, const at::Tensor& mat2, const std::optional<at::Tensor>& offs,
           const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype) {
  TORCH_CHECK(is_served(self.scalar_type()) && self.scalar_type() == mat2.scalar_type(), kOp,
              ": expected two matrices of Float, Half or BFloat16, but got ", self.scalar_type(), " and ",
              mat2.scalar_type());
  for (const auto& [name, t] : {std::pair{"self", &self}, {"mat2", &mat2}})
    TORCH_CHECK(t->dim() == 2 || t->dim() == 3, kOp, ": expected ", name, " to be 2-D or 3-D, but got ", t->dim(),
                "-D");
  const bool has_groups = self.dim() == 2 || mat2.dim() == 2;
  TORCH_CHECK(offs.has_value() == has_groups, kOp, ": expected offs if, and only if, there is a 2-D matrix");
  TORCH_CHECK(self.size(-1) == mat2.size(-2), kOp, ": expected mat2 to have ", self.size(-1), " rows, but got sizes ",
              mat2.sizes());
  if (offs.has_value()) {
    TORCH_CHECK(offs->dim() == 1 && offs->scalar_type() == at::kInt, kOp, ": expected offs to be 1-D of Int, but got ",
                offs->dim(), "-D of ", offs->scalar_type());
    check_same_device(kOp, {&self, &mat2, &*offs});
  }
  TORCH_CHECK(!bias.has_value() || !bias->defined(), kOp, ": expected no bias: it is not supported");
  TORCH_CHECK(out_dtype.value_or(self.scalar_type()) == self.scalar_type(), kOp,
              ": expected out_dtype to be the matrices' dtype ", self.scalar_type(), ", but got ", *out_dtype);
  for (const at::Tensor* t : {&self, &mat2})
    for (const int64_t size : t->sizes())
      TORCH_CHECK(size < std::numeric_limits<int>::max(), kOp, ": expected every size below 2^31, but got ",
                  t->sizes());
}

}  // namespace

at::Tensor grouped_mm(const at::Tensor& self, const at::Tensor& mat2, const std::optional<at::Tensor>& offs,
                      const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype) {
  check(self, mat2, offs, bias, out_dtype);
  const at::Tensor& batched = self.dim() == 3 ? self : mat2;
  const int64_t groups = offs.has_value() ? offs->size(0) : batched.size(0);
  for (const at::Tensor* t : {&self, &mat2})
    TORCH_CHECK(t->dim() == 2 || t->size(0) == groups, kOp, ": expected a matrix for each of ", groups,
                " groups, but got sizes ", t->sizes());
  const int64_t m = self.size(-2), n = mat2.size(-1);
  std::vector<int64_t> sizes{m, n};
  if (self.dim() == mat2.dim()) sizes.insert(sizes.begin(), groups);
  const at::Tensor out = result_for(self, sizes);
  if (out.numel() == 0) return out;
  if (!offs.has_value()) {
    gemm(kOp, self, mat2, {}, 0, 1, out);
  } else if (self.dim() == 2) {
    launch_groups(self, mat2, *offs, out);
  } else {  // out^T = mat2^T self^T, whose rows are grouped
    launch_groups(mat2.t(), self.transpose(1, 2), *offs, out.t());
  }
  return out;
}

}  // namespace aule::ops
