// scatter, scatter_add, scatter_reduce, index_add, index_reduce.
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "ops/indexing/common.h"
#include "ops/indexing/indexing.h"

namespace aule::ops {
namespace {

void check_scatter(const char* op, const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                   const at::Tensor& out) {
  check_same_device(op, {&self, &index, &src, &out});
  if (index.numel() > 0) check_index_dtype(op, index);  // an empty one may have any dtype, as on the CPU
  check_same_dtype(op, self, "src", src);
  check_same_dtype(op, self, "out", out);
  check_index_fits(op, index, self, dim, "self");
  check_index_fits(op, index, src, -1, "src");
}

// out = self, then a call that writes src into it; empty when there is nothing to write.
IndexCall start_scatter(const char* op, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                        const at::Tensor& src, at::Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_scatter(op, self, dim, index, src, out);
  start_from(self, out);
  if (index.numel() == 0) {  // of any number of dimensions
    IndexCall nothing{op, src, out, {}, {}, false};
    nothing.space.dims.push_back({.size = 0});
    return nothing;
  }
  check_not_overlapping(out, {&index, &src});
  IndexCall call = call_along_dim(op, src, out, dim, index, /*line=*/false, /*wrap=*/false);
  check_bound(op, call);
  return call;
}

// A scalar with the shape of the index, all strides 0.
at::Tensor spread(const at::Tensor& self, const at::Tensor& index, const at::Scalar& value) {
  return at::full({}, value, self.options()).expand(index.sizes());
}

Combine legacy_reduce(c10::string_view reduce) {
  TORCH_CHECK(reduce == "add" || reduce == "multiply", "reduce argument must be either add or multiply.");
  return reduce == "add" ? Combine::add : Combine::mul;
}

struct Reduce {
  Combine op;
  bool mean = false;
};

Reduce parse_reduce(const char* op, c10::string_view reduce) {
  if (reduce == "sum") return {Combine::add};
  if (reduce == "mean") return {Combine::add, true};
  if (reduce == "prod") return {Combine::mul};
  if (reduce == "amax") return {Combine::max};
  if (reduce == "amin") return {Combine::min};
  TORCH_CHECK(false, op, "(): reduce argument must be either sum, prod, mean, amax or amin, got ", reduce, ".");
}

template <class Int>
at::Scalar extreme(bool lowest) {
  return static_cast<int64_t>(lowest ? std::numeric_limits<Int>::lowest() : std::numeric_limits<Int>::max());
}

at::Scalar identity(Combine op, at::ScalarType type) {
  if (op == Combine::add) return 0;
  if (op == Combine::mul) return 1;
  const bool lowest = op == Combine::max;
  switch (type) {
    case at::kBool: return !lowest;
    case at::kByte: return extreme<uint8_t>(lowest);
    case at::kChar: return extreme<int8_t>(lowest);
    case at::kShort: return extreme<int16_t>(lowest);
    case at::kInt: return extreme<int32_t>(lowest);
    case at::kLong: return extreme<int64_t>(lowest);
    default: return lowest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
}

// `to(plain, target)` is the call that writes `plain` (shaped like the source) into `target` (shaped like out).
template <class To>
void reduce_into(at::Tensor& out, const at::Tensor& source, const at::Tensor& shape_like, Reduce reduce,
                 bool include_self, To to) {
  if (!include_self) run_put(to(spread(out, shape_like, identity(reduce.op, out.scalar_type())), out));
  run_combine(to(source, out), reduce.op);
  if (!reduce.mean) return;
  const auto real = out.options().dtype(c10::toRealValueType(out.scalar_type()));
  at::Tensor count = include_self ? at::ones_like(out, real) : at::zeros_like(out, real);
  run_combine(to(spread(count, shape_like, 1), count), Combine::add);
  count.clamp_(1);
  if (out.is_floating_point() || out.is_complex()) {
    out.div_(count);
  } else {
    out.div_(count, "floor");
  }
}

}  // namespace

at::Tensor& scatter_src_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                            at::Tensor& out) {
  run_put(start_scatter("scatter", self, dim, index, src, out));
  return out;
}

at::Tensor& scatter_value_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                              at::Tensor& out) {
  run_put(start_scatter("scatter", self, dim, index, spread(self, index, value), out));
  return out;
}

at::Tensor& scatter_reduce_src_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                                   c10::string_view reduce, at::Tensor& out) {
  const Combine op = legacy_reduce(reduce);
  run_combine(start_scatter("scatter", self, dim, index, src, out), op);
  return out;
}

at::Tensor& scatter_reduce_value_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                     const at::Scalar& value, c10::string_view reduce, at::Tensor& out) {
  const Combine op = legacy_reduce(reduce);
  run_combine(start_scatter("scatter", self, dim, index, spread(self, index, value), out), op);
  return out;
}

at::Tensor& scatter_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                            at::Tensor& out) {
  run_combine(start_scatter("scatter_add", self, dim, index, src, out), Combine::add);
  return out;
}

at::Tensor& scatter_reduce_two_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                                   c10::string_view reduce, bool include_self, at::Tensor& out) {
  const char* op = "scatter_reduce";
  const Reduce how = parse_reduce(op, reduce);
  start_scatter(op, self, dim, index, src, out);
  if (index.numel() == 0) return out;
  dim = at::maybe_wrap_dim(dim, self.dim());
  reduce_into(out, src, index, how, include_self, [&](const at::Tensor& plain, const at::Tensor& target) {
    return call_along_dim(op, plain, target, dim, index, /*line=*/false, /*wrap=*/false);
  });
  return out;
}

namespace {
int64_t check_index_line(const char* op, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                         const at::Tensor& source, const at::Tensor& out) {
  check_same_device(op, {&self, &index, &source, &out});
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, op, "(): Index is supposed to be a vector");
  check_index_dtype(op, index);
  check_same_dtype(op, self, "source", source);
  check_same_dtype(op, self, "out", out);
  TORCH_CHECK(dim == 0 || dim < source.dim(), op, "(): Indexing dim ", dim, " is out of bounds of tensor");
  TORCH_CHECK(index.numel() == size_or_one(source, dim), op, "(): Number of indices (", index.numel(),
              ") should be equal to source.size(dim): (", size_or_one(source, dim), "), for dim: ", dim);
  auto self_sizes = self.sizes().vec(), source_sizes = source.sizes().vec();
  if (!self_sizes.empty()) self_sizes.erase(self_sizes.begin() + dim);
  if (!source_sizes.empty()) source_sizes.erase(source_sizes.begin() + dim);
  TORCH_CHECK(
      self_sizes == source_sizes, op,
      "(): source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
      self.sizes(), " source.shape = ", source.sizes());
  return dim;
}
}  // namespace

at::Tensor& index_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                          const at::Scalar& alpha, at::Tensor& out) {
  const char* op = "index_add";
  dim = check_index_line(op, self, dim, index, source, out);
  start_from(self, out);
  if (source.numel() == 0) return out;
  check_not_overlapping(out, {&index, &source});
  // The kernel's alpha is a real number of 32 bits.
  const bool is_double = c10::toRealValueType(self.scalar_type()) == at::kDouble;
  const bool inexact =
      alpha.isComplex() ||
      (is_double ? static_cast<double>(static_cast<float>(alpha.toDouble())) != alpha.toDouble()
                 : self.scalar_type() == at::kLong && static_cast<int32_t>(alpha.toLong()) != alpha.toLong());
  if (inexact) return ops::index_add_out(out, dim, index, source.mul(alpha), 1, out);
  IndexCall call = call_along_dim(op, source, out, dim, index, /*line=*/true, /*wrap=*/false);
  check_bound(op, call);
  run_combine(std::move(call), Combine::add, alpha);
  return out;
}

at::Tensor& index_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                             c10::string_view reduce, bool include_self, at::Tensor& out) {
  const char* op = "index_reduce";
  TORCH_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin", op,
              "(): Expected reduce to be one of prod, mean, amax or amin but got ", reduce, ".");
  const Reduce how = parse_reduce(op, reduce);
  dim = check_index_line(op, self, dim, index, source, out);
  start_from(self, out);
  if (source.numel() == 0) return out;
  check_not_overlapping(out, {&index, &source});
  check_bound(op, call_along_dim(op, source, out, dim, index, /*line=*/true, /*wrap=*/false));
  reduce_into(out, source, source, how, include_self, [&](const at::Tensor& plain, const at::Tensor& target) {
    return call_along_dim(op, plain, target, dim, index, /*line=*/true, /*wrap=*/false);
  });
  return out;
}

at::Tensor& index_copy_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                           at::Tensor& out) {
  const char* op = "index_copy";
  if (source.dim() == 0 && self.dim() > 0) {
    // A scalar source is one element of a vector.
    at::Tensor line = source.unsqueeze(0);
    dim = check_index_line(op, self, dim, index, line, out);
    return index_copy_out(self, dim, index, line, out);
  }
  dim = check_index_line(op, self, dim, index, source, out);
  start_from(self, out);
  if (source.numel() == 0) return out;
  check_not_overlapping(out, {&index, &source});
  IndexCall call = call_along_dim(op, source, out, dim, index, /*line=*/true, /*wrap=*/false);
  check_bound(op, call);
  run_put(std::move(call));
  return out;
}

}  // namespace aule::ops
