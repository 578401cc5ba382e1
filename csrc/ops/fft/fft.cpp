#include "ops/fft/fft.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/fft/transform.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using Dims = std::vector<int64_t>;

void check_dtype(const char* op, const at::Tensor& self) {
  const at::ScalarType real = c10::toRealValueType(self.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(real == at::kFloat || real == at::kDouble, op, ": dtype ", self.scalar_type(),
                              " has no transform on device aule");
  TORCH_CHECK_NOT_IMPLEMENTED(real == at::kFloat || profile_of(self).float64, op, ": ", self.scalar_type(),
                              " needs float64, which this device lacks");
}

Dims wrapped(const at::Tensor& self, at::IntArrayRef dim) {
  Dims dims;
  for (const int64_t d : dim) dims.push_back(at::maybe_wrap_dim(d, self.dim()));
  return dims;
}

// All, or all but the last, from the largest stride to the smallest.
void sort_by_stride(const at::Tensor& self, Dims& dims, bool but_last) {
  std::stable_sort(dims.begin(), dims.end() - (but_last ? 1 : 0),
                   [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
}

// As the CPU's results lie, and those of PyTorch's shape inference: `dims` innermost in their order, before them the
// others from the largest stride of `self` to the smallest.
at::Tensor empty_result(const at::Tensor& self, at::IntArrayRef sizes, const Dims& dims, at::ScalarType dtype) {
  Dims order;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  order.insert(order.end(), dims.begin(), dims.end());
  Dims strides(order.size());
  int64_t stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = stride;
    stride *= sizes[*d];
  }
  return at::empty_strided(sizes, strides, self.options().dtype(dtype));
}

double scale_of(int64_t normalization, at::IntArrayRef sizes, const Dims& dims) {
  double n = 1;
  for (const int64_t d : dims) n *= static_cast<double>(sizes[d]);
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(n) : 1 / n;
}

void check_sizes(const char* op, const at::Tensor& self, const Dims& dims) {
  for (const int64_t d : dims)
    TORCH_CHECK(self.size(d) > 0, op, ": expected a signal with elements, but dimension ", d, " has none");
}

// Complex transforms of `from` along `dims`, the first one into `out`.
void transform_all(const at::Tensor& from, const at::Tensor& out, at::ArrayRef<int64_t> dims, bool forward,
                   double scale) {
  for (size_t i = dims.size(); i-- > 0;) {
    const bool is_first = i + 1 == dims.size(), is_last = i == 0;
    transform_along(is_first ? from : out, out, dims[i], FftKind::complex, forward, is_last ? scale : 1);
  }
}

}  // namespace

at::Tensor fft_c2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex(), "_fft_c2c: expected a complex tensor, but got ", self.scalar_type());
  check_dtype("_fft_c2c", self);
  if (dim.empty()) return self.clone();
  Dims dims = wrapped(self, dim);
  check_sizes("_fft_c2c", self, dims);
  sort_by_stride(self, dims, false);
  const at::Tensor out = empty_result(self, self.sizes(), dims, self.scalar_type());
  if (out.numel() > 0) transform_all(self, out, dims, forward, scale_of(normalization, self.sizes(), dims));
  return out;
}

at::Tensor fft_r2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point(), "_fft_r2c: expected a floating point tensor, but got ", self.scalar_type());
  check_dtype("_fft_r2c", self);
  TORCH_CHECK(!dim.empty(), "_fft_r2c: expected a dimension");
  Dims dims = wrapped(self, dim);
  check_sizes("_fft_r2c", self, dims);
  sort_by_stride(self, dims, true);
  const int64_t last = dims.back();
  Dims sizes = self.sizes().vec();
  if (onesided) sizes[last] = sizes[last] / 2 + 1;
  const at::Tensor out = empty_result(self, sizes, dims, c10::toComplexType(self.scalar_type()));
  if (out.numel() == 0) return out;
  const double scale = scale_of(normalization, self.sizes(), dims);
  const at::ArrayRef<int64_t> others(dims.data(), dims.size() - 1);
  transform_along(self, out, last, onesided ? FftKind::real_to_half : FftKind::real_to_full, true,
                  others.empty() ? scale : 1);
  transform_all(out, out, others, true, scale);
  return out;
}

at::Tensor fft_c2r(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  TORCH_CHECK(self.is_complex(), "_fft_c2r: expected a complex tensor, but got ", self.scalar_type());
  check_dtype("_fft_c2r", self);
  TORCH_CHECK(!dim.empty() && last_dim_size > 0, "_fft_c2r: expected a dimension, and a size of the result above 0");
  const Dims dims = wrapped(self, dim);
  const int64_t last = dims.back();
  check_sizes("_fft_c2r", self, dims);
  TORCH_CHECK(self.size(last) == last_dim_size / 2 + 1, "_fft_c2r: expected ", last_dim_size / 2 + 1,
              " elements in dimension ", last, ", but got ", self.size(last));
  // The others first: only what they give is half of a spectrum whose other half follows by symmetry.
  const at::Tensor half =
      dims.size() > 1 ? fft_c2c(self, at::IntArrayRef(dims.data(), dims.size() - 1), 0, false) : self;
  Dims sizes = self.sizes().vec();
  sizes[last] = last_dim_size;
  const at::Tensor out = empty_result(half, sizes, {last}, c10::toRealValueType(self.scalar_type()));
  if (out.numel() > 0)
    transform_along(half, out, last, FftKind::half_to_real, false, scale_of(normalization, sizes, dims));
  return out;
}

at::Tensor& fft_c2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward,
                        at::Tensor& out) {
  check_same_device("_fft_c2c", {&self, &out});
  return hand_over(fft_c2c(self, dim, normalization, forward), out);
}
at::Tensor& fft_r2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided,
                        at::Tensor& out) {
  check_same_device("_fft_r2c", {&self, &out});
  return hand_over(fft_r2c(self, dim, normalization, onesided), out);
}
at::Tensor& fft_c2r_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size,
                        at::Tensor& out) {
  check_same_device("_fft_c2r", {&self, &out});
  return hand_over(fft_c2r(self, dim, normalization, last_dim_size), out);
}

}  // namespace aule::ops
