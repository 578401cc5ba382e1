#include "ops/indexing/launch.h"

#include <ATen/Context.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_as_real.h>

#include <limits>
#include <type_traits>

#include "kernels_indexing.gen.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"

namespace aule::ops {
namespace {

DType index_dtype(const IndexCall& call) { return dtype_of(call.index[0], call.op); }

// Invocations, and steps of their loops, have 32 bits.
void check_points(const char* op, const IndexPlan& plan) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  const auto check = [&](size_t first, size_t last) {
    uint64_t n = 1;
    for (size_t d = first; d < last; ++d) {
      const auto size = static_cast<uint64_t>(plan.space.dims[d].size);
      TORCH_CHECK(size <= kMost && n * size <= kMost, op,
                  ": more than 2^32 - 1 indexed elements are not supported on aule");
      n *= size;
    }
  };
  check(0, plan.spread());
  check(plan.spread(), plan.space.dims.size());
}

// A part of a plan.
struct Part {
  const IndexCall& call;
  const IndexPlan& plan;
  const IndexSpace& space;
  const IndexOffset& at;
};

// The specialization constants of walk.glsl.
template <class Spec>
void set_shape(Spec& spec, const Part& part) {
  spec.spread = part.plan.spread();
  spec.walked = part.plan.walked;
  spec.indices = part.call.index.size();
  spec.local = part.plan.local;
}

template <class Params>
void fill_params(Params& p, const Part& part, TensorArgs& args, CommandStream& stream) {
  const auto& [call, plan, space, at] = part;
  using Stride = std::remove_reference_t<decltype(p.plain_stride[0])>;
  constexpr size_t kDims = sizeof(p.size) / sizeof(p.size[0]);
  TORCH_CHECK(space.dims.size() <= kDims, call.op, ": more than ", kDims,
              " dimensions that cannot be merged are not supported on aule");
  for (size_t k = 0; k < call.index.size(); ++k) {
    p.index[k] = args.read(call.index[k]) + static_cast<uint64_t>(at.index[k]) * call.index[k].element_size();
    p.bound[k] = static_cast<Stride>(space.bound[k]);
    p.step[k] = static_cast<Stride>(space.step[k]);
  }
  for (size_t d = 0; d < space.dims.size(); ++d) {
    const IndexSpace::Dim& dim = space.dims[d];
    p.size[d] = static_cast<uint32_t>(dim.size);
    p.plain_stride[d] = static_cast<Stride>(dim.plain_stride);
    p.indexed_stride[d] = static_cast<Stride>(dim.indexed_stride);
    for (size_t k = 0; k < call.index.size(); ++k)
      p.index_stride[k * kDims + d] = static_cast<Stride>(dim.index_stride[k]);
  }
  p.error = error_address(stream);
  p.tag = error_tag(call.op) | (call.wrap ? 0x80000000u : 0u);
  p.n = static_cast<uint32_t>(space.points(0, plan.spread()));
  p.steps = static_cast<uint32_t>(space.points(plan.spread(), space.dims.size()));
}

template <class Params, class Spec>
void launch_move(KernelRef<Params, Spec> kernel, const Part& part, bool put, DType dtype) {
  const IndexCall& call = part.call;
  auto& stream = current(call.plain);
  TensorArgs args;
  Params p{};
  fill_params(p, part, args, stream);
  // Offsets are in the tensors' elements: only loops are split, and a plan with loops is not widened.
  const uint64_t bytes = call.plain.element_size(), plain = static_cast<uint64_t>(part.at.plain) * bytes,
                 indexed = static_cast<uint64_t>(part.at.indexed) * bytes;
  p.plain = (put ? args.read(call.plain) : args.write(call.plain)) + plain;
  p.indexed = (put ? args.write(call.indexed) : args.read(call.indexed)) + indexed;
  Spec spec{.dtype = dtype, .index_dtype = index_dtype(call), .put = put};
  set_shape(spec, part);
  launch(stream, kernel, spec, p, args, linear_grid(ceil_div(p.n, part.plan.local)));
}

void move(IndexCall& call, bool put) {
  if (call.space.empty()) return;
  const IndexMovePlan plan =
      index_move_plan(profile_of(call.plain), {std::move(call.space), raw_dtype_of(call.plain),
                                               address_of(call.plain) | address_of(call.indexed),
                                               put && at::globalContext().deterministicAlgorithms()});
  check_points(call.op, plan);
  each_part(plan, [&](const IndexSpace& space, const IndexOffset& at) {
    const Part part{call, plan, space, at};
    if (plan.is_wide) {
      launch_move(kernel::index_move_wide(), part, put, plan.dtype);
    } else {
      launch_move(kernel::index_move(), part, put, plan.dtype);
    }
  });
}

template <class Params, class Spec>
void launch_combine(KernelRef<Params, Spec> kernel, const Part& part, Combine op, const at::Scalar& alpha, DType dtype,
                    bool ordered) {
  const IndexCall& call = part.call;
  TORCH_CHECK_NOT_IMPLEMENTED(supports(call.indexed.device().index(), kernel.id), call.op,
                              ": this device has no float64 arithmetic");
  auto& stream = current(call.indexed);
  TensorArgs args;
  Params p{};
  fill_params(p, part, args, stream);
  p.plain = args.read(call.plain) + static_cast<uint64_t>(part.at.plain) * call.plain.element_size();
  p.indexed = args.read_write(call.indexed) + static_cast<uint64_t>(part.at.indexed) * call.indexed.element_size();
  if (is_floating(dtype) || is_complex(dtype))
    p.alpha = static_cast<float>(alpha.toDouble());
  else
    p.integer_alpha = static_cast<decltype(p.integer_alpha)>(alpha.toLong());
  Spec spec{.dtype = dtype,
            .plain_dtype = real_or_complex_dtype_of(call.plain.scalar_type(), call.op),
            .index_dtype = index_dtype(call),
            .op = static_cast<int>(op),
            .atomic = !ordered};
  set_shape(spec, part);
  launch(stream, kernel, spec, p, args, linear_grid(ceil_div(p.n, part.plan.local)));
}

}  // namespace

IndexCall call_along_dim(const char* op, const at::Tensor& plain, const at::Tensor& indexed, int64_t dim,
                         const at::Tensor& index, bool line, bool wrap) {
  IndexCall call{op, plain, indexed, {index}, {}, wrap};
  const bool scalar = indexed.dim() == 0;
  call.space.bound.push_back(scalar ? 1 : indexed.size(dim));
  call.space.step.push_back(scalar ? 1 : indexed.stride(dim));
  const at::Tensor& shape = line ? plain : index;
  for (int64_t d = 0; d < shape.dim(); ++d) {
    IndexSpace::Dim out;
    out.size = shape.size(d);
    out.plain_stride = plain.dim() == 0 ? 0 : plain.stride(d);
    out.meets = d == dim;
    out.indexed_stride = d == dim || scalar ? 0 : indexed.stride(d);
    if (!line) out.index_stride[0] = index.stride(d);
    if (line && d == dim) out.index_stride[0] = index.dim() == 0 ? 0 : index.stride(0);
    call.space.dims.push_back(out);
  }
  return call;
}

IndexCall flat_call(const char* op, const at::Tensor& plain, const at::Tensor& indexed, const at::Tensor& index) {
  IndexCall call{op, plain, indexed, {index}, {{indexed.numel()}, {1}, {}}, true};
  for (int64_t d = 0; d < index.dim(); ++d) {
    IndexSpace::Dim out;
    out.size = index.size(d);
    out.plain_stride = plain.stride(d);
    out.index_stride[0] = index.stride(d);
    out.meets = true;
    call.space.dims.push_back(out);
  }
  return call;
}

void run_get(IndexCall call) { move(call, false); }
void run_put(IndexCall call) { move(call, true); }

void run_combine(IndexCall call, Combine op, const at::Scalar& alpha) {
  if (call.space.empty()) return;
  const bool complex = call.indexed.is_complex(), pairs = complex && op == Combine::add;
  if (complex) {
    const bool products = op == Combine::mul && call.indexed.scalar_type() != at::kComplexHalf;
    TORCH_CHECK_NOT_IMPLEMENTED((pairs || products) && call.plain.is_complex() && !alpha.isComplex(), call.op,
                                ": complex tensors can only be added, with a real alpha, or multiplied, and complex32 "
                                "only added, on aule");
  }
  if (pairs) {
    // Complex numbers are added as pairs of reals.
    call.indexed = at::view_as_real(call.indexed);
    call.plain = at::view_as_real(call.plain);
    for (auto& d : call.space.dims) {
      d.plain_stride *= 2;
      d.indexed_stride *= 2;
    }
    for (auto& s : call.space.step) s *= 2;
    IndexSpace::Dim pair;
    pair.size = 2;
    pair.plain_stride = pair.indexed_stride = 1;
    call.space.dims.push_back(pair);
  }
  const DType dtype = real_or_complex_dtype_of(call.indexed.scalar_type(), call.op);
  if (combines_in_float32(dtype, op, call.indexed.numel(), call.plain.numel())) {
    const at::Tensor narrow = call.indexed;
    const at::Tensor wide =
        at::empty_strided(narrow.sizes(), narrow.strides(), narrow.options().dtype(at::kFloat)).copy_(narrow);
    call.indexed = wide;
    run_combine(std::move(call), op, alpha);
    narrow.copy_(wide);
    return;
  }
  const IndexCombinePlan plan = index_combine_plan(
      profile_of(call.indexed), {std::move(call.space), dtype, op, at::globalContext().deterministicAlgorithms()});
  check_points(call.op, plan);
  const DType compute = is_complex(dtype) ? dtype : compute_type(dtype);
  each_part(plan, [&](const IndexSpace& space, const IndexOffset& at) {
    const Part part{call, plan, space, at};
    if (plan.is_wide) {
      const auto add = plan.native_add ? IndexCombineWideADD::native : IndexCombineWideADD::cas;
      launch_combine(kernel::index_combine_wide(compute, add), part, op, alpha, dtype, plan.is_ordered);
    } else {
      const auto add = plan.native_add ? IndexCombineADD::native : IndexCombineADD::cas;
      launch_combine(kernel::index_combine(compute, add), part, op, alpha, dtype, plan.is_ordered);
    }
  });
}

}  // namespace aule::ops
