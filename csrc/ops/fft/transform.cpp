#include "ops/fft/transform.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/per_device.h"
#include "kernels_fft.gen.h"
#include "ops/fft/tables.h"
#include "ops/tensor/strided_shape.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr int kDims = 4;                               // of sequences, in a launch
constexpr uint64_t kMostElements = uint64_t{1} << 31;  // offsets and columns have 32 bits

// One end of a pass: where the first element is, and how far others are from it, in elements.
struct End {
  uint64_t address = 0;
  std::array<int64_t, kDims> strides{};
  int64_t step = 1;
};

// Operand 0 is the result, 1 the signal.
using Sequences = StridedShape<2>;

// Plans are asked for again and again, and a length's factors take their time.
FftPlan plan_for(int device, const FftProblem& problem) {
  using Key = std::tuple<DType, FftKind, uint64_t, bool, bool, uint64_t>;
  struct Plans {
    std::mutex mutex;
    std::map<Key, FftPlan> all;
  };
  static const PerDevice<Plans> plans;
  Plans& own = plans[device];
  // Planners look only whether there are enough neighbours for a line of memory.
  const Key key{problem.real,        problem.kind,         problem.n,
                problem.in_is_dense, problem.out_is_dense, std::min<uint64_t>(problem.neighbours, kLineColumns)};
  std::lock_guard lock(own.mutex);
  auto found = own.all.find(key);
  if (found == own.all.end()) found = own.all.emplace(key, fft_plan(profile_of(device), problem)).first;
  return found->second;
}

struct Transform {
  const at::Tensor& in;
  const at::Tensor& out;
  FftProblem problem;
  FftPlan plan;
  bool forward;
  double scale;

  at::ScalarType complex_dtype() const { return problem.real == DType::f64 ? at::kComplexDouble : at::kComplexFloat; }
  int device() const { return in.device().index(); }
};

FftSpec spec_of(const FftPlan& plan, const FftPass& pass) {
  FftSpec spec{.r0 = pass.radices[0],
               .r1 = pass.radices[1],
               .r2 = pass.radices[2],
               .r3 = pass.radices[3],
               .r4 = pass.radices[4]};
  spec.t = static_cast<int>(pass.t);
  spec.columns = static_cast<int>(pass.columns);
  spec.local = static_cast<int>(pass.local);
  spec.points = static_cast<int>(pass.points);
  spec.planes = static_cast<int>(pass.planes);
  spec.loads_across = pass.loads_across;
  spec.stores_across = pass.stores_across;
  spec.sequence_first = plan.sequence_first;
  return spec;
}

// Sequences of `core` values in a workspace, in the order of the dimensions of `shape`.
End workspace_end(const at::Tensor& workspace, const FftPlan& plan, const Sequences& shape) {
  End end{.address = address_of(workspace), .step = 1};
  int64_t stride = static_cast<int64_t>(plan.core);
  if (plan.sequence_first) {
    end.step = shape.numel();
    stride = 1;
  }
  for (int d = 0; d < shape.ndim; ++d) {
    end.strides[d] = stride;
    stride *= shape.sizes[d];
  }
  return end;
}

template <class Params>
void set_sizes(Params& p, const Sequences& shape) {
  for (int d = 0; d < kDims; ++d) p.sizes[d] = d < shape.ndim ? static_cast<uint32_t>(shape.sizes[d]) : 1;
}
void set_strides(uint32_t (&strides)[kDims], const End& end) {
  for (int d = 0; d < kDims; ++d) strides[d] = static_cast<uint32_t>(end.strides[d]);
}

class Runner {
 public:
  Runner(const Transform& t, const Sequences& shape, End in, End out) : t_(t), shape_(shape), in_(in), out_(out) {}

  void run() {
    const FftPlan& plan = t_.plan;
    const size_t passes = plan.passes.size(), count = passes * (plan.convolves() ? 2 : 1);
    // The last launch of passes leaves its values to another kernel, if that ends the transform.
    at::Tensor from, to;
    for (size_t i = 0; i < count; ++i) {
      const bool is_first = i == 0, is_last = i + 1 == count && !plan.splits;
      if (!is_last) to = spare_.defined() ? std::exchange(spare_, {}) : workspace();
      launch_pass(i, is_first ? in_ : workspace_end(from, plan, shape_),
                  is_last ? out_ : workspace_end(to, plan, shape_), from, is_last ? at::Tensor() : to);
      spare_ = std::exchange(from, std::exchange(to, {}));
    }
    if (plan.splits) launch_split(from);
  }

 private:
  at::Tensor workspace() const {
    return at::empty({shape_.numel(), static_cast<int64_t>(t_.plan.core)}, t_.out.options().dtype(t_.complex_dtype()));
  }

  void launch_pass(size_t i, const End& in, const End& out, const at::Tensor& from, const at::Tensor& to) {
    const FftPlan& plan = t_.plan;
    const size_t passes = plan.passes.size();
    const FftPass& pass = plan.passes[i % passes];
    const bool inverts = i >= passes;  // the second transform of a convolution
    const bool begins = i % passes == 0, ends = i % passes == passes - 1;
    const bool is_first = i == 0, is_last = i + 1 == passes * (plan.convolves() ? 2 : 1);
    if (begins) ns_ = 1;

    FftSpec spec = spec_of(plan, pass);
    if (passes == 1) {  // planned for the tensors' ends, not for those in a workspace
      if (from.defined()) spec.loads_across = plan.sequence_first;
      if (to.defined()) spec.stores_across = plan.sequence_first;
    }
    spec.is_later = ns_ > 1;
    spec.load = is_first ? static_cast<int>(plan.load) : 0;
    spec.store = is_last ? static_cast<int>(plan.store) : 0;
    spec.swaps_in = is_first ? !t_.forward : inverts && begins;
    spec.swaps_out = inverts && ends;
    spec.swaps_end = is_last && !t_.forward;
    spec.chirps_in = plan.convolves() && is_first;
    spec.chirps_out = plan.convolves() && is_last;
    spec.filters = plan.convolves() && !inverts && ends;

    TensorArgs args;
    FftParams p{};
    p.in_ = in.address;
    p.out_ = out.address;
    register_ends(args, from, to);
    p.inner_roots = pass.by_group ? roots(args, pass.radix) : 0;
    p.roots = ns_ > 1 ? roots(args, plan.core) : 0;
    if (is_first && plan.load == FftLoad::halves) p.end_roots = roots(args, 2 * plan.n);
    if (plan.convolves()) p.chirp = chirp(args);
    set_scale(p, is_last ? t_.scale : 1.0);
    set_sizes(p, shape_);
    set_strides(p.in_strides, in);
    set_strides(p.out_strides, out);
    p.in_step = static_cast<uint32_t>(in.step);
    p.out_step = static_cast<uint32_t>(out.step);
    const uint64_t columns = static_cast<uint64_t>(shape_.numel()) * (plan.core / pass.radix);
    p.columns = static_cast<uint32_t>(columns);
    p.ns = static_cast<uint32_t>(ns_);
    p.core = static_cast<uint32_t>(plan.core);
    p.n = static_cast<uint32_t>(plan.n);
    launch(current(t_.out), kernel::fft(t_.problem.real, pass.by_group ? 1 : 0), spec, p, args,
           linear_grid(ceil_div(columns, pass.columns)));
    ns_ *= pass.radix;
  }

  void launch_split(const at::Tensor& from) {
    const FftPlan& plan = t_.plan;
    TensorArgs args;
    FftSplitParams p{};
    p.in_ = args.read(from);
    args.write(t_.out);
    p.out_ = out_.address;
    p.end_roots = roots(args, 2 * plan.n);
    set_sizes(p, shape_);
    set_strides(p.out_strides, out_);
    p.out_step = static_cast<uint32_t>(out_.step);
    p.in_step = plan.sequence_first ? static_cast<uint32_t>(shape_.numel()) : 1;
    p.in_sequence = plan.sequence_first ? 1 : static_cast<uint32_t>(plan.core);
    p.n = static_cast<uint32_t>(plan.n);
    const uint64_t items = static_cast<uint64_t>(shape_.numel()) * (plan.n / 2 + 1);
    p.items = static_cast<uint32_t>(items);
    launch(current(t_.out), kernel::fft_split(t_.problem.real), {.sequence_first = plan.sequence_first}, p, args,
           linear_grid(ceil_div(items, FftSplitParams::kLocal)));
  }

  void register_ends(TensorArgs& args, const at::Tensor& from, const at::Tensor& to) const {
    if (from.defined())
      args.read(from);
    else
      args.read(t_.in);
    if (to.defined())
      args.write(to);
    else
      args.write(t_.out);
  }
  uint64_t roots(TensorArgs& args, uint64_t n) const {
    return args.read(roots_table(t_.device(), t_.complex_dtype(), n));
  }
  uint64_t chirp(TensorArgs& args) const {
    const auto transform = [](const at::Tensor& values) {
      transform_along(values, values, 0, FftKind::complex, true, 1.0);
    };
    return args.read(chirp_table(t_.device(), t_.complex_dtype(), t_.plan.n, t_.plan.core, transform));
  }
  void set_scale(FftParams& p, double scale) const {
    if (t_.problem.real == DType::f64) {
      const auto bits = std::bit_cast<uint64_t>(scale);
      p.scale[0] = static_cast<uint32_t>(bits);
      p.scale[1] = static_cast<uint32_t>(bits >> 32);
    } else {
      p.scale[0] = std::bit_cast<uint32_t>(static_cast<float>(scale));
    }
  }

  const Transform& t_;
  const Sequences& shape_;
  End in_, out_;
  at::Tensor spare_;  // a workspace whose values have been read
  uint64_t ns_ = 1;
};

// Calls run(part, offsets) for parts that a launch can have; offsets in elements of each operand.
template <class Fits, class Run>
void for_each_part(const Sequences& shape, std::array<int64_t, 2> offsets, const Fits& fits, const Run& run) {
  if (shape.ndim <= kDims && fits(shape)) {
    run(shape, offsets);
    return;
  }
  const int last = shape.ndim - 1;
  TORCH_CHECK(shape.sizes[last] > 1, "fft: a sequence of this length and stride is too large for device aule");
  const int64_t parts = shape.ndim > kDims ? shape.sizes[last] : 2, step = ceil_div(shape.sizes[last], parts);
  for (int64_t begin = 0; begin < shape.sizes[last]; begin += step) {
    Sequences part = shape;
    part.sizes[last] = std::min(step, shape.sizes[last] - begin);
    std::array<int64_t, 2> at = offsets;
    for (int k = 0; k < 2; ++k) at[k] += begin * shape.strides[k][last];
    if (part.sizes[last] == 1 && last > 0) --part.ndim;
    for_each_part(part, at, fits, run);
  }
}

}  // namespace

void transform_along(const at::Tensor& in, const at::Tensor& out, int64_t dim, FftKind kind, bool forward,
                     double scale) {
  const at::Tensor& real = kind == FftKind::half_to_real ? out : in;
  const int64_t n = real.size(dim), in_step = in.stride(dim), out_step = out.stride(dim);
  TORCH_CHECK(n <= int64_t{1} << 28, "fft: a sequence of ", n, " values is too long for device aule");
  Sequences whole;
  for (int64_t d = 0; d < in.dim(); ++d)
    if (d != dim) whole.push(in.size(d), {out.stride(d), in.stride(d)});
  whole.normalize();
  const auto problem_of = [&](const Sequences& shape) {
    return FftProblem{
        .real = dtype_of(c10::toRealValueType(in.scalar_type()), "fft"),
        .kind = kind,
        .n = static_cast<uint64_t>(n),
        .in_is_dense = in_step == 1 || n == 1,
        .out_is_dense = out_step == 1 || n == 1,
        .neighbours = shape.strides[0][0] == 1 && shape.strides[1][0] == 1 ? static_cast<uint64_t>(shape.sizes[0]) : 1};
  };
  const FftPlan plan = plan_for(in.device().index(), problem_of(whole));
  const auto fits = [&](const Sequences& shape) {
    const auto reaches = [&](int k, int64_t step, int64_t size) {
      return static_cast<uint64_t>(shape.extent(k) + step * size) < kMostElements;
    };
    return reaches(0, out_step, out.size(dim)) && reaches(1, in_step, in.size(dim)) &&
           static_cast<uint64_t>(shape.numel()) * plan.core < kMostElements;
  };
  for_each_part(whole, {0, 0}, fits, [&](const Sequences& shape, const std::array<int64_t, 2>& offsets) {
    const FftProblem problem = problem_of(shape);
    const Transform transform{in, out, problem, plan_for(in.device().index(), problem), forward, scale};
    End from{.address = address_of(in) + static_cast<uint64_t>(offsets[1] * in.element_size()), .step = in_step};
    End to{.address = address_of(out) + static_cast<uint64_t>(offsets[0] * out.element_size()), .step = out_step};
    for (int d = 0; d < shape.ndim; ++d) {
      to.strides[d] = shape.strides[0][d];
      from.strides[d] = shape.strides[1][d];
    }
    Runner(transform, shape, from, to).run();
  });
}

}  // namespace aule::ops
