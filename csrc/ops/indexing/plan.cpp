#include "ops/indexing/plan.h"

#include <ATen/Context.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels_indexing.gen.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

using Dim = IndexPlan::Dim;

bool mergeable(const Dim& outer, const Dim& inner, size_t indices) {
  if (outer.meets != inner.meets) return false;
  if (outer.plain_stride != inner.plain_stride * inner.size) return false;
  if (outer.indexed_stride != inner.indexed_stride * inner.size) return false;
  for (size_t k = 0; k < indices; ++k)
    if (outer.index_stride[k] != inner.index_stride[k] * inner.size) return false;
  return true;
}

// Drops dimensions of size 1 and merges neighbours. With `ordered`, dimensions along which destinations may be equal
// become the last. Returns how many dimensions each invocation loops over.
size_t merge_dims(IndexPlan& plan, bool ordered) {
  auto& dims = plan.dims;
  dims.erase(std::remove_if(dims.begin(), dims.end(), [](const Dim& d) { return d.size == 1; }), dims.end());
  if (ordered) {
    std::stable_partition(dims.begin(), dims.end(), [](const Dim& d) { return !d.meets; });
  } else {
    for (auto& d : dims) d.meets = false;
  }
  size_t kept = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (kept > 0 && mergeable(dims[kept - 1], dims[i], plan.index.size())) {
      const int64_t size = dims[kept - 1].size * dims[i].size;
      dims[kept - 1] = dims[i];
      dims[kept - 1].size = size;
    } else {
      dims[kept++] = dims[i];
    }
  }
  dims.resize(kept);
  return static_cast<size_t>(std::count_if(dims.begin(), dims.end(), [](const Dim& d) { return d.meets; }));
}

// Moves whole rows in elements of up to 16 bytes, if the innermost dimension is dense on both sides and all other
// strides and both addresses are multiples of the wider element.
DType widen(IndexPlan& plan) {
  const int64_t bytes = static_cast<int64_t>(plan.plain.element_size());
  const DType narrow = raw_dtype_of(plan.plain);
  if (plan.dims.empty() || plan.dims.back().meets) return narrow;
  Dim& row = plan.dims.back();
  if (row.plain_stride != 1 || row.indexed_stride != 1) return narrow;
  for (size_t k = 0; k < plan.index.size(); ++k)
    if (row.index_stride[k] != 0) return narrow;
  for (const int64_t wide : {16, 8, 4, 2}) {
    if (wide <= bytes) break;
    const int64_t ratio = wide / bytes;
    bool fits = row.size % ratio == 0 && (address_of(plan.plain) | address_of(plan.indexed)) % wide == 0;
    for (size_t d = 0; d + 1 < plan.dims.size(); ++d)
      fits = fits && plan.dims[d].plain_stride % ratio == 0 && plan.dims[d].indexed_stride % ratio == 0;
    for (const int64_t s : plan.step) fits = fits && s % ratio == 0;
    if (!fits) continue;
    row.size /= ratio;
    for (size_t d = 0; d + 1 < plan.dims.size(); ++d) {
      plan.dims[d].plain_stride /= ratio;
      plan.dims[d].indexed_stride /= ratio;
    }
    for (int64_t& s : plan.step) s /= ratio;
    return wide == 16 ? DType::raw16 : wide == 8 ? DType::raw8 : wide == 4 ? DType::raw4 : DType::raw2;
  }
  return narrow;
}

DType index_dtype(const IndexPlan& plan) { return dtype_of(plan.index[0], plan.op); }

uint32_t points(const IndexPlan& plan, size_t first, size_t last) {
  uint64_t n = 1;
  for (size_t d = first; d < last; ++d) {
    const auto size = static_cast<uint64_t>(plan.dims[d].size);
    TORCH_CHECK(size <= std::numeric_limits<uint32_t>::max() && n * size <= std::numeric_limits<uint32_t>::max(),
                plan.op, ": more than 2^32 - 1 indexed elements are not supported on aule");
    n *= size;
  }
  return static_cast<uint32_t>(n);
}

// The begin of a part of a plan, in elements.
struct Offset {
  int64_t plain = 0, indexed = 0;
  std::array<int64_t, IndexPlan::kMaxIndices> index{};
};

// Calls fn(part, offset) for parts with loops that one invocation may have, in the loop's order. The parts, dispatched
// one after another, are the whole loop.
template <class Fn>
void for_each_walk(const IndexPlan& plan, size_t walked, const Fn& fn, const Offset& at = {}) {
  const Caps& caps = caps_of(plan.plain);
  const size_t first = plan.dims.size() - walked;
  const uint64_t steps = points(plan, first, plan.dims.size());
  if (may_walk(caps, steps)) {
    fn(plan, at);
    return;
  }
  size_t d = first;
  while (plan.dims[d].size == 1) ++d;
  const Dim& dim = plan.dims[d];
  const uint64_t inner = steps / static_cast<uint64_t>(dim.size);
  const int64_t part = std::max<int64_t>(1, static_cast<int64_t>(longest_walk(caps) / inner));
  for (int64_t begin = 0; begin < dim.size; begin += part) {
    IndexPlan piece = plan;
    piece.dims[d].size = std::min(part, dim.size - begin);
    Offset from = at;
    from.plain += begin * dim.plain_stride;
    from.indexed += begin * dim.indexed_stride;
    for (size_t k = 0; k < plan.index.size(); ++k) from.index[k] += begin * dim.index_stride[k];
    for_each_walk(piece, walked, fn, from);
  }
}

bool fits_i32(int64_t x) {
  return x >= std::numeric_limits<int32_t>::min() && x <= std::numeric_limits<int32_t>::max();
}

// True if the plan fits the kernel with push constants.
bool compact(const IndexPlan& plan) {
  constexpr size_t kDims = sizeof(IndexMoveParams::size) / sizeof(uint32_t);
  if (plan.index.size() > 1 || plan.dims.size() > kDims || !fits_i32(plan.bound[0]) || !fits_i32(plan.step[0]))
    return false;
  return std::all_of(plan.dims.begin(), plan.dims.end(), [](const Dim& d) {
    return fits_i32(d.plain_stride) && fits_i32(d.indexed_stride) && fits_i32(d.index_stride[0]);
  });
}

// The specialization constants of walk.glsl.
template <class Spec>
void set_shape(Spec& spec, const IndexPlan& plan, size_t walked, uint32_t group) {
  spec.spread = plan.dims.size() - walked;
  spec.walked = walked;
  spec.indices = plan.index.size();
  spec.local = group;
}

template <class Params>
void fill_params(Params& p, const IndexPlan& plan, const Offset& at, size_t walked, TensorArgs& args,
                 CommandStream& stream) {
  using Stride = std::remove_reference_t<decltype(p.plain_stride[0])>;
  constexpr size_t kDims = sizeof(p.size) / sizeof(p.size[0]);
  TORCH_CHECK(plan.dims.size() <= kDims, plan.op, ": more than ", kDims,
              " dimensions that cannot be merged are not supported on aule");
  for (size_t k = 0; k < plan.index.size(); ++k) {
    p.index[k] = args.read(plan.index[k]) + static_cast<uint64_t>(at.index[k]) * plan.index[k].element_size();
    p.bound[k] = static_cast<Stride>(plan.bound[k]);
    p.step[k] = static_cast<Stride>(plan.step[k]);
  }
  for (size_t d = 0; d < plan.dims.size(); ++d) {
    const Dim& dim = plan.dims[d];
    p.size[d] = static_cast<uint32_t>(dim.size);
    p.plain_stride[d] = static_cast<Stride>(dim.plain_stride);
    p.indexed_stride[d] = static_cast<Stride>(dim.indexed_stride);
    for (size_t k = 0; k < plan.index.size(); ++k)
      p.index_stride[k * kDims + d] = static_cast<Stride>(dim.index_stride[k]);
  }
  p.error = error_address(stream);
  p.tag = error_tag(plan.op) | (plan.wrap ? 0x80000000u : 0u);
  p.n = points(plan, 0, plan.dims.size() - walked);
  p.steps = points(plan, plan.dims.size() - walked, plan.dims.size());
}

// A software device runs one workgroup per thread. Long loops are therefore spread over many small workgroups.
uint32_t group_size(const at::Tensor& t, size_t walked) { return walked > 0 && caps_of(t).is_software() ? 8 : 128; }

template <class Params, class Spec>
void launch_move(KernelRef<Params, Spec> kernel, const IndexPlan& plan, const Offset& at, bool put, DType dtype,
                 size_t walked) {
  auto& stream = current(plan.plain);
  TensorArgs args;
  Params p{};
  fill_params(p, plan, at, walked, args, stream);
  // Offsets are in the tensors' elements: only loops are split, and a plan with loops is not widened.
  const uint64_t bytes = plan.plain.element_size();
  p.plain = (put ? args.read(plan.plain) : args.write(plan.plain)) + static_cast<uint64_t>(at.plain) * bytes;
  p.indexed = (put ? args.write(plan.indexed) : args.read(plan.indexed)) + static_cast<uint64_t>(at.indexed) * bytes;
  const uint32_t group = group_size(plan.plain, walked);
  Spec spec{.dtype = dtype, .index_dtype = index_dtype(plan), .put = put};
  set_shape(spec, plan, walked, group);
  launch(stream, kernel, spec, p, args, linear_grid(ceil_div(p.n, group)));
}

void move(IndexPlan& plan, bool put) {
  if (plan.empty()) return;
  const bool ordered = put && at::globalContext().deterministicAlgorithms();
  const size_t walked = merge_dims(plan, ordered);
  const DType dtype = widen(plan);
  for_each_walk(plan, walked, [&](const IndexPlan& part, const Offset& at) {
    if (compact(part)) {
      launch_move(kernel::index_move(), part, at, put, dtype, walked);
    } else {
      launch_move(kernel::index_move_wide(), part, at, put, dtype, walked);
    }
  });
}

template <class Params, class Spec>
void launch_combine(KernelRef<Params, Spec> kernel, const IndexPlan& plan, const Offset& at, Combine op,
                    const at::Scalar& alpha, DType dtype, size_t walked, bool ordered) {
  TORCH_CHECK_NOT_IMPLEMENTED(supports(plan.indexed.device().index(), kernel.id), plan.op,
                              ": this device has no float64 arithmetic");
  auto& stream = current(plan.indexed);
  TensorArgs args;
  Params p{};
  fill_params(p, plan, at, walked, args, stream);
  p.plain = args.read(plan.plain) + static_cast<uint64_t>(at.plain) * plan.plain.element_size();
  p.indexed = args.read_write(plan.indexed) + static_cast<uint64_t>(at.indexed) * plan.indexed.element_size();
  if (is_floating(dtype))
    p.alpha = static_cast<float>(alpha.toDouble());
  else
    p.integer_alpha = static_cast<decltype(p.integer_alpha)>(alpha.toLong());
  const uint32_t group = group_size(plan.indexed, walked);
  Spec spec{.dtype = dtype,
            .plain_dtype = dtype_of(plan.plain, plan.op),
            .index_dtype = index_dtype(plan),
            .op = static_cast<int>(op),
            .atomic = !ordered};
  set_shape(spec, plan, walked, group);
  launch(stream, kernel, spec, p, args, linear_grid(ceil_div(p.n, group)));
}

// Invocations of an ordered plan.
int64_t ordered_width(const IndexPlan& plan) {
  int64_t n = 1;
  for (const auto& d : plan.dims)
    if (!d.meets) n *= d.size;
  return n;
}

// True for 16-bit sums and products, which are then made in float32: in bfloat16 a sum of ones stops at 256. False if a
// few values go into a large target, because its float32 copy would cost far more.
bool rounds_at_every_step(const IndexPlan& plan, Combine op) {
  const at::ScalarType type = plan.indexed.scalar_type();
  return (type == at::kHalf || type == at::kBFloat16) && (op == Combine::add || op == Combine::mul) &&
         plan.indexed.numel() <= std::max<int64_t>(int64_t{1} << 24, 8 * plan.plain.numel());
}

}  // namespace

bool IndexPlan::empty() const {
  return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.size == 0; });
}

IndexPlan plan_along_dim(const char* op, const at::Tensor& plain, const at::Tensor& indexed, int64_t dim,
                         const at::Tensor& index, bool line, bool wrap) {
  IndexPlan plan{op, plain, indexed, {index}, {}, {}, {}, wrap};
  const bool scalar = indexed.dim() == 0;
  plan.bound.push_back(scalar ? 1 : indexed.size(dim));
  plan.step.push_back(scalar ? 1 : indexed.stride(dim));
  const at::Tensor& shape = line ? plain : index;
  for (int64_t d = 0; d < shape.dim(); ++d) {
    Dim out;
    out.size = shape.size(d);
    out.plain_stride = plain.dim() == 0 ? 0 : plain.stride(d);
    out.meets = d == dim;
    out.indexed_stride = d == dim || scalar ? 0 : indexed.stride(d);
    if (!line) out.index_stride[0] = index.stride(d);
    if (line && d == dim) out.index_stride[0] = index.dim() == 0 ? 0 : index.stride(0);
    plan.dims.push_back(out);
  }
  return plan;
}

IndexPlan plan_flat(const char* op, const at::Tensor& plain, const at::Tensor& indexed, const at::Tensor& index) {
  IndexPlan plan{op, plain, indexed, {index}, {indexed.numel()}, {1}, {}, true};
  for (int64_t d = 0; d < index.dim(); ++d) {
    Dim out;
    out.size = index.size(d);
    out.plain_stride = plain.stride(d);
    out.index_stride[0] = index.stride(d);
    out.meets = true;
    plan.dims.push_back(out);
  }
  return plan;
}

void run_get(IndexPlan plan) { move(plan, false); }
void run_put(IndexPlan plan) { move(plan, true); }

void run_combine(IndexPlan plan, Combine op, const at::Scalar& alpha) {
  if (plan.empty()) return;
  if (plan.indexed.is_complex()) {
    TORCH_CHECK_NOT_IMPLEMENTED(op == Combine::add && plan.plain.is_complex() && !alpha.isComplex(), plan.op,
                                ": complex tensors can only be added, with a real alpha, on aule");
    // Complex numbers are added as pairs of reals.
    plan.indexed = at::view_as_real(plan.indexed);
    plan.plain = at::view_as_real(plan.plain);
    for (auto& d : plan.dims) {
      d.plain_stride *= 2;
      d.indexed_stride *= 2;
    }
    for (auto& s : plan.step) s *= 2;
    Dim pair;
    pair.size = 2;
    pair.plain_stride = pair.indexed_stride = 1;
    plan.dims.push_back(pair);
  }
  if (rounds_at_every_step(plan, op)) {
    const at::Tensor narrow = plan.indexed;
    const at::Tensor wide =
        at::empty_strided(narrow.sizes(), narrow.strides(), narrow.options().dtype(at::kFloat)).copy_(narrow);
    plan.indexed = wide;
    run_combine(std::move(plan), op, alpha);
    narrow.copy_(wide);
    return;
  }
  const DType dtype = dtype_of(plan.indexed, plan.op);
  const bool real = is_floating(dtype);
  // Sums and products of floats depend on the order. Of the 8-byte dtypes only integer sums have an atomic form.
  const bool eight = dtype_size(dtype) == 8 && !(dtype == DType::i64 && op == Combine::add);
  const bool deterministic =
      at::globalContext().deterministicAlgorithms() && real && (op == Combine::add || op == Combine::mul);
  // On a software device atomics run lane by lane, but neighbouring columns fill a vector.
  const bool columns = caps_of(plan.indexed).is_software() && ordered_width(plan) >= 64;
  const bool ordered = eight || deterministic || columns;
  const size_t walked = merge_dims(plan, ordered);

  const DType compute = compute_type(dtype);
  const bool native = dtype == DType::f32 && op == Combine::add && !ordered && caps_of(plan.indexed).float32_atomic_add;
  for_each_walk(plan, walked, [&](const IndexPlan& part, const Offset& at) {
    if (compact(part)) {
      launch_combine(kernel::index_combine(compute, native ? IndexCombineADD::native : IndexCombineADD::cas), part, at,
                     op, alpha, dtype, walked, ordered);
    } else {
      launch_combine(
          kernel::index_combine_wide(compute, native ? IndexCombineWideADD::native : IndexCombineWideADD::cas), part,
          at, op, alpha, dtype, walked, ordered);
    }
  });
}

}  // namespace aule::ops
