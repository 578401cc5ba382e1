#include "ops/sort/search.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "kernels_sort.gen.h"
#include "ops/sort/plan.h"
#include "ops/sort/unique_rows.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

void search(const char* name, const at::Tensor& bounds, const at::Tensor& values, bool right,
            const OptionalTensor& sorter, const at::Tensor& out) {
  const bool has_sorter = sorter.has_value() && sorter->defined();
  check_same_device(name, {&bounds, &values, &out});
  TORCH_CHECK(bounds.dim() > 0, name, ": expected the boundaries to have at least one dimension");
  TORCH_CHECK(bounds.dim() == 1 || (bounds.dim() == values.dim() && bounds.sizes().slice(0, bounds.dim() - 1) ==
                                                                        values.sizes().slice(0, values.dim() - 1)),
              name,
              ": expected boundaries of one dimension, or all but the last dimension equal to the values', but got ",
              bounds.sizes(), " and ", values.sizes());
  TORCH_CHECK(!has_sorter || (sorter->sizes() == bounds.sizes() && sorter->scalar_type() == at::kLong), name,
              ": expected a sorter of dtype Long and the boundaries' shape");
  if (out.numel() == 0) return;
  const int64_t m = bounds.size(-1);
  if (m == 0) {
    out.zero_();
    return;
  }
  const at::Tensor b = bounds.contiguous(), v = values.contiguous(),
                   s = has_sorter ? sorter->contiguous() : at::Tensor();
  const at::Tensor dense = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const DType db = dtype_of(b, name), dv = dtype_of(v, name);
  const DType c = db == DType::f64 || dv == DType::f64 ? DType::f64
                  : is_floating(db) || is_floating(dv) ? DType::f32
                                                       : DType::i64;
  TensorArgs args;
  SearchsortedParams p{};
  p.bounds = args.read(b);
  if (has_sorter) p.sorter = args.read(s);
  p.values = args.read(v);
  p.out_ = args.write(dense);
  p.error = error_address(current(v));
  p.tag = error_tag("searchsorted sorter");
  p.numel = v.numel();
  p.m = m;
  p.n = b.dim() == 1 ? 0 : v.size(-1);
  const uint32_t local = search_local(profile_of(v));
  SearchsortedSpec spec{.bounds_dtype = db,
                        .values_dtype = dv,
                        .out_dtype = dtype_of(dense, name),
                        .is_right = right,
                        .has_sorter = has_sorter,
                        .local = local};
  launch(current(v), kernel::searchsorted(c), spec, p, args, linear_grid(ceil_div(p.numel, local)));
  if (!dense.is_same(out)) out.copy_(dense);
}

bool right_side(bool right, std::optional<std::string_view> side) {
  if (!side.has_value()) return right;
  TORCH_CHECK(*side == "left" || *side == "right", "searchsorted: expected side 'left' or 'right', but got ",
              std::string(*side));
  TORCH_CHECK(!(right && *side == "left"), "searchsorted: side is 'left' but right is true");
  return *side == "right";
}

at::Tensor index_result(const at::Tensor& like, at::IntArrayRef shape, bool out_int32) {
  return at::empty(shape, like.options().dtype(out_int32 ? at::kInt : at::kLong));
}

at::Tensor scalar_like(const at::Scalar& value, const at::Tensor& t) { return at::full({}, value, t.options()); }

// Inclusive running count of true elements of `flags` (bool, flat).
at::Tensor running_count(const at::Tensor& flags) {
  return at::cumsum(flags, 0, flags.numel() < (int64_t{1} << 31) ? at::kInt : at::kLong);
}

void write_nonzero(const at::Tensor& flags, const at::Tensor& before, at::IntArrayRef sizes, const at::Tensor& out) {
  NonzeroWriteParams p{};
  TORCH_CHECK(sizes.size() <= std::size(p.sizes), "nonzero: expected at most ", std::size(p.sizes),
              " dimensions, but got ", sizes.size());
  TensorArgs args;
  p.flags = args.read(flags);
  p.before = args.read(before);
  p.out_ = args.write(out);
  p.numel = flags.numel();
  p.limit = out.size(0);
  p.dims = static_cast<uint32_t>(sizes.size());
  p.by_columns = !out.is_contiguous();
  for (size_t d = 0; d < sizes.size(); ++d) p.sizes[d] = sizes[d];
  if (p.numel == 0 || out.numel() == 0) return;
  const uint32_t local = search_local(profile_of(flags));
  launch(current(flags), kernel::nonzero_write(), {.before_dtype = dtype_of(before, "nonzero"), .local = local}, p,
         args, linear_grid(ceil_div(p.numel, local)));
}

// Flat positions of the true elements of a flat bool tensor.
at::Tensor true_positions(const at::Tensor& flags) {
  const auto options = flags.options().dtype(at::kLong);
  if (flags.numel() == 0) return at::empty({0}, options);
  at::Tensor before = running_count(flags);
  at::Tensor out = at::empty({before[-1].item<int64_t>(), 1}, options);
  write_nonzero(flags, before, {flags.numel()}, out);
  return out.view({-1});
}

at::Tensor nonzero_of(const at::Tensor& self) {
  const auto options = self.options().dtype(at::kLong);
  if (self.numel() == 0) return at::empty({0, self.dim()}, options);
  at::Tensor flags = self.to(at::kBool).contiguous().view({-1});
  at::Tensor before = running_count(flags);
  // Stored column by column, as on PyTorch's own devices, because indexing takes the columns one by one.
  at::Tensor out = at::empty({self.dim(), before[-1].item<int64_t>()}, options).t();
  write_nonzero(flags, before, self.sizes(), out);
  return out;
}

// Distinct neighbours of a flat tensor. `order` has its elements' positions before sorting, or is undefined.
ThreeTensors distinct(const at::Tensor& flat, const at::Tensor& order, at::IntArrayRef shape, bool inverse,
                      bool counts) {
  const int64_t n = flat.numel();
  const auto longs = flat.options().dtype(at::kLong);
  if (n == 0)
    return {at::empty({0}, flat.options()), at::empty(inverse ? shape : at::IntArrayRef{0}, longs),
            at::empty({0}, longs)};
  at::Tensor first =
      at::cat({at::ones({1}, flat.options().dtype(at::kBool)), flat.narrow(0, 1, n - 1).ne(flat.narrow(0, 0, n - 1))});
  at::Tensor starts = true_positions(first);
  at::Tensor inv = at::empty({0}, longs), count = at::empty({0}, longs);
  if (inverse) {
    at::Tensor group = at::cumsum(first, 0).sub(1);
    inv = (order.defined() ? at::empty({n}, longs).scatter_(0, order, group) : group).view(shape);
  }
  if (counts) {
    at::Tensor ends = at::cat({starts.narrow(0, 1, starts.numel() - 1), at::full({1}, n, longs)});
    count = ends.sub(starts);
  }
  return {flat.index_select(0, starts), inv, count};
}

}  // namespace

at::Tensor searchsorted(const at::Tensor& sequence, const at::Tensor& self, bool out_int32, bool right,
                        std::optional<std::string_view> side, const OptionalTensor& sorter) {
  at::Tensor out = index_result(self, self.sizes(), out_int32);
  search("searchsorted", sequence, self, right_side(right, side), sorter, out);
  return out;
}
at::Tensor& searchsorted_out(const at::Tensor& sequence, const at::Tensor& self, bool out_int32, bool right,
                             std::optional<std::string_view> side, const OptionalTensor& sorter, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == (out_int32 ? at::kInt : at::kLong), "searchsorted: expected out of dtype ",
              out_int32 ? at::kInt : at::kLong, ", but got ", out.scalar_type());
  at::native::resize_output(out, self.sizes());
  search("searchsorted", sequence, self, right_side(right, side), sorter, out);
  return out;
}
at::Tensor searchsorted_scalar(const at::Tensor& sequence, const at::Scalar& self, bool out_int32, bool right,
                               std::optional<std::string_view> side, const OptionalTensor& sorter) {
  return ops::searchsorted(sequence, scalar_like(self, sequence), out_int32, right, side, sorter);
}
at::Tensor& searchsorted_scalar_out(const at::Tensor& sequence, const at::Scalar& self, bool out_int32, bool right,
                                    std::optional<std::string_view> side, const OptionalTensor& sorter,
                                    at::Tensor& out) {
  return ops::searchsorted_out(sequence, scalar_like(self, sequence), out_int32, right, side, sorter, out);
}
at::Tensor bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize: expected boundaries of one dimension, but got ", boundaries.dim());
  return ops::searchsorted(boundaries, self, out_int32, right, std::nullopt, std::nullopt);
}
at::Tensor& bucketize_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right,
                          at::Tensor& out) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize: expected boundaries of one dimension, but got ", boundaries.dim());
  return ops::searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}
at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  return ops::bucketize(scalar_like(self, boundaries), boundaries, out_int32, right);
}

at::Tensor& isin_out(const at::Tensor& elements, const at::Tensor& tests, bool, bool invert, at::Tensor& out) {
  check_same_device("isin", {&elements, &tests, &out});
  at::native::resize_output(out, elements.sizes());
  if (elements.numel() == 0) return out;
  if (tests.numel() == 0) {
    out.fill_(invert);
    return out;
  }
  const auto type = at::result_type(elements, tests);
  at::Tensor e = elements.to(type), sorted = std::get<0>(at::sort(tests.reshape({-1}).to(type)));
  at::Tensor at_ = ops::searchsorted(sorted, e, false, false, std::nullopt, std::nullopt).clamp_max(sorted.numel() - 1);
  at::Tensor found = sorted.index_select(0, at_.view({-1})).view(e.sizes());
  out.copy_(invert ? found.ne(e) : found.eq(e));
  return out;
}
at::Tensor& isin_tensor_scalar_out(const at::Tensor& elements, const at::Scalar& test, bool, bool invert,
                                   at::Tensor& out) {
  at::native::resize_output(out, elements.sizes());
  out.copy_(invert ? elements.ne(test) : elements.eq(test));
  return out;
}
at::Tensor& isin_scalar_tensor_out(const at::Scalar& element, const at::Tensor& tests, bool, bool invert,
                                   at::Tensor& out) {
  at::native::resize_output(out, {});
  at::Tensor found = tests.eq(element).any();
  out.copy_(invert ? found.logical_not() : found);
  return out;
}

TwoTensors unique(const at::Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = ops::unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}
ThreeTensors unique2(const at::Tensor& self, bool, bool return_inverse, bool return_counts) {
  auto [sorted, order] = at::sort(self.reshape({-1}));
  return distinct(sorted, order, self.sizes(), return_inverse, return_counts);
}
ThreeTensors unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts,
                                std::optional<int64_t> dim) {
  if (dim.has_value() && self.dim() != 1) return ops::unique_dim_consecutive(self, *dim, return_inverse, return_counts);
  return distinct(self.reshape({-1}), {}, self.sizes(), return_inverse, return_counts);
}

at::Tensor nonzero(const at::Tensor& self) { return nonzero_of(self); }
at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: expected out of dtype Long, but got ", out.scalar_type());
  at::Tensor result = nonzero_of(self);
  return hand_over(result, out);
}
at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: expected a size of at least 0, but got ", size);
  at::Tensor out = at::full({size, self.dim()}, fill_value, self.options().dtype(at::kLong));
  if (self.numel() == 0 || out.numel() == 0) return out;
  at::Tensor flags = self.to(at::kBool).contiguous().view({-1});
  write_nonzero(flags, running_count(flags), self.sizes(), out);
  return out;
}

namespace {

// For integers, which CUDA serves and the CPU does not: integer arithmetic for the bins, counts in the input's dtype.
at::Tensor histc_of_integers(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  int64_t low = min.to<int64_t>(), high = max.to<int64_t>();
  at::Tensor flat = self.reshape({-1}).to(at::kLong);
  if (low == high && flat.numel() > 0) {
    auto [a, b] = at::aminmax(flat);
    low = a.item<int64_t>();
    high = b.item<int64_t>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(low < high, "histc: expected max to be larger than min");
  // One more bin collects values out of range.
  at::Tensor bin = flat.sub(low).mul(bins).floor_divide(at::Scalar(high - low)).clamp_max(bins - 1);
  at::Tensor inside = flat.ge(low).logical_and(flat.le(high));
  at::Tensor index = at::where(inside, bin, at::full({}, bins, bin.options()));
  return at::zeros({bins + 1}, index.options())
      .scatter_add_(0, index, at::ones_like(index))
      .narrow(0, 0, bins)
      .to(self.scalar_type());
}

}  // namespace

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  TORCH_CHECK(bins > 0, "histc: expected bins of at least 1, but got ", bins);
  if (at::isIntegralType(self.scalar_type(), /*includeBool=*/false)) return histc_of_integers(self, bins, min, max);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "histc: not implemented for ", self.scalar_type(),
                              " on device aule");
  double low = min.to<double>(), high = max.to<double>();
  at::Tensor flat = self.reshape({-1});
  if (low == high && flat.numel() > 0) {
    auto [a, b] = at::aminmax(flat);
    low = a.item<double>();
    high = b.item<double>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "histc: range of [", low, ", ", high, "] is not finite");
  TORCH_CHECK(low < high, "histc: expected max to be larger than min");
  // One more bin collects values out of range.
  at::Tensor bin = flat.sub(low).mul(bins / (high - low)).floor().clamp_max(bins - 1);
  at::Tensor inside = flat.ge(low).logical_and(flat.le(high));
  at::Tensor index = at::where(inside, bin, at::full({}, bins, bin.options())).to(at::kLong);
  // Counted as integers: float32 has no 2^24 + 1.
  const auto counts = self.options().dtype(flat.numel() < (int64_t{1} << 31) ? at::kInt : at::kLong);
  return at::zeros({bins + 1}, counts)
      .scatter_add_(0, index, at::ones({}, counts).expand_as(flat))
      .narrow(0, 0, bins)
      .to(self.scalar_type());
}
at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max,
                      at::Tensor& out) {
  return hand_over(ops::histc(self, bins, min, max), out);
}

}  // namespace aule::ops
