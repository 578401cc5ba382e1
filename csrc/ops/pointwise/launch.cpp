#include "ops/pointwise/launch.h"

#include <ATen/ops/empty.h>
#include <ATen/TensorIterator.h>

#include <bit>
#include <type_traits>

#include "core/raw_dtype.h"
#include "kernels_pointwise.gen.h"
#include "ops/copy/kernels.h"
#include "ops/pointwise/plan.h"
#include "ops/tensor/strided_params.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

DType arithmetic_of(const Entry& entry, c10::ScalarType common) {
  if (c10::isComplexType(common)) {
    TORCH_CHECK_NOT_IMPLEMENTED(entry.complex != Complex::none, entry.name, ": not implemented for ", common,
                                " on device aule");
    return common == at::kComplexDouble ? DType::c128 : DType::c64;
  }
  DType c;
  uint8_t needs;
  switch (common) {
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16: c = DType::f32, needs = kInFloat; break;
    case at::kDouble: c = DType::f64, needs = kInDouble; break;
    case at::kLong: c = DType::i64, needs = kInInt; break;
    case at::kChar:
    case at::kByte:
    case at::kShort:
    case at::kInt:
    case at::kBool: c = DType::i32, needs = kInInt; break;
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, entry.name, ": not implemented for ", common, " on device aule");
  }
  TORCH_CHECK_NOT_IMPLEMENTED(entry.arithmetic & needs, entry.name, ": not implemented for ", common,
                              " on device aule");
  return c;
}

namespace {

// The value as the common dtype stores it, if that is narrower than the arithmetic type.
int64_t narrowed(int64_t integer, double real, c10::ScalarType common) {
  switch (common) {
    case at::kByte: return static_cast<uint8_t>(integer);
    case at::kChar: return static_cast<int8_t>(integer);
    case at::kShort: return static_cast<int16_t>(integer);
    case at::kBool: return real != 0;
    default: return integer;
  }
}

uint64_t encode(double real, int64_t integer, DType c) {
  switch (c) {
    case DType::f32: return std::bit_cast<uint32_t>(static_cast<float>(real));
    case DType::f64: return std::bit_cast<uint64_t>(real);
    case DType::i32: return static_cast<uint32_t>(static_cast<int32_t>(integer));
    default: return static_cast<uint64_t>(integer);
  }
}

// Bits of a number in the params: real ones take the first word, complex ones both.
using Value = std::array<uint64_t, 2>;

Value encode_complex(c10::complex<double> z, DType c) {
  if (c == DType::c128) return {std::bit_cast<uint64_t>(z.real()), std::bit_cast<uint64_t>(z.imag())};
  return {std::bit_cast<uint32_t>(static_cast<float>(z.real())), std::bit_cast<uint32_t>(static_cast<float>(z.imag()))};
}

Value encode_complex_cpu_scalar(const at::TensorBase& t, c10::ScalarType common, DType c, bool compares) {
  c10::complex<double> z = at::Tensor(t).item().toComplexDouble();
  if (compares && common == at::kComplexHalf)
    z = {static_cast<float>(static_cast<c10::Half>(static_cast<float>(z.real()))),
         static_cast<float>(static_cast<c10::Half>(static_cast<float>(z.imag())))};
  return encode_complex(z, c);
}

// A 0-dim CPU tensor as bits of the arithmetic type, by way of the common dtype as on the CPU.
uint64_t encode_cpu_scalar(const at::TensorBase& t, c10::ScalarType common, DType c, bool compares) {
  const void* data = t.const_data_ptr();
  double real = 0;
  int64_t integer = 0;
  switch (t.scalar_type()) {
    case at::kDouble: real = *static_cast<const double*>(data), integer = static_cast<int64_t>(real); break;
    case at::kLong: integer = *static_cast<const int64_t*>(data), real = static_cast<double>(integer); break;
    case at::kBool: integer = *static_cast<const bool*>(data), real = static_cast<double>(integer); break;
    default: {
      const c10::Scalar s = at::Tensor(t).item();
      TORCH_CHECK_NOT_IMPLEMENTED(!s.isComplex(), "complex scalars beside ", common, " on device aule");
      real = s.toDouble();
      integer = s.isFloatingPoint() ? static_cast<int64_t>(real) : s.toLong();
    }
  }
  // Arithmetic keeps a scalar's own precision, as torch.cuda does. Comparisons are between values of the common dtype.
  if (compares && common == at::kHalf) real = static_cast<float>(static_cast<c10::Half>(static_cast<float>(real)));
  if (compares && common == at::kBFloat16)
    real = static_cast<float>(static_cast<c10::BFloat16>(static_cast<float>(real)));
  return encode(real, narrowed(integer, real, common), c);
}

// The rows of complex_ops.def have the ids of these entries.
#define COMPLEX_UNARY(number, name, ...) static_assert(unary_entry::name.id == number);
#define COMPLEX_UNARY_SPECIAL COMPLEX_UNARY
#define COMPLEX_BINARY(number, name, ...) static_assert(binary_entry::name.id == number);
#define COMPLEX_BINARY_SPECIAL COMPLEX_BINARY
#define COMPLEX_TERNARY(number, name, ...) static_assert(ternary_entry::name.id == number);
#include "pointwise/complex_ops.def"
#undef COMPLEX_UNARY
#undef COMPLEX_UNARY_SPECIAL
#undef COMPLEX_BINARY
#undef COMPLEX_BINARY_SPECIAL
#undef COMPLEX_TERNARY

// True if float64 has the entry by integer code, for a device without float64.
constexpr bool in_double_bits(const Entry& entry) {
#define DOUBLE_UNARY(number, name, expr)         \
  static_assert(unary_entry::name.id == number); \
  if (entry.arity == 1 && entry.id == number) return true;
#define DOUBLE_BINARY(number, name, expr)         \
  static_assert(binary_entry::name.id == number); \
  if (entry.arity == 2 && entry.id == number) return true;
#define DOUBLE_TERNARY(number, name, expr)         \
  static_assert(ternary_entry::name.id == number); \
  if (entry.arity == 3 && entry.id == number) return true;
#include "pointwise/double_bits_ops.def"
#undef DOUBLE_UNARY
#undef DOUBLE_BINARY
#undef DOUBLE_TERNARY
  return false;
}

// Sets the constants of operand k. Operand 0 is the output.
template <class Spec>
void set_operand(Spec& spec, size_t k, DType dtype, OperandMode operand_mode) {
  const int mode = static_cast<int>(operand_mode);
  switch (k) {
    case 0: spec.out_dtype = dtype, spec.out_mode = mode; break;
    case 1: spec.a_dtype = dtype, spec.a_mode = mode; break;
    case 2: spec.b_dtype = dtype, spec.b_mode = mode; break;
    default: spec.c_dtype = dtype, spec.c_mode = mode;
  }
}

template <int N>  // operands, the output included, which is operand 0
struct Call {
  CommandStream& stream;
  const Entry& entry;
  PointwiseProblem<N> problem;
  std::array<Value, N> values{};  // of operands that are by value
  std::array<Value, 3> scalars{};

  // Params that all kernels have. Operand k has `elems(k)` elements from the first to the last.
  template <class Params, class Spec, class Elems>
  void set_operands(Params& p, Args& args, Spec& spec, const std::array<int64_t, N>& offsets,
                    const std::array<OperandMode, N>& modes, const Elems& elems) const {
    for (size_t k = 0; k < N; ++k) {
      const PointwiseOperand& o = problem.operands[k];
      set_operand(spec, k, o.dtype, modes[k]);
      if (k > 0 && o.by_value) {
        put<Params>(p.value, k - 1, values[k]);
        continue;
      }
      const uint64_t size = dtype_size(o.dtype), address = o.address + static_cast<uint64_t>(offsets[k]) * size,
                     bytes = static_cast<uint64_t>(elems(k)) * size;
      if (k == 0)
        p.out_ = args.write(address, bytes);
      else
        p.in_[k - 1] = args.read(address, bytes);
    }
    constexpr size_t kScalars = kIsComplex<Params> ? 1 : 3;  // no complex entry has more
    for (size_t i = 0; i < kScalars; ++i) put<Params>(p.scalar, i, scalars[i]);
  }

  // Complex numbers take two words each in the params of their kernels.
  template <class Params>
  static constexpr bool kIsComplex = std::extent_v<decltype(Params::value)> == 2 * (N - 1);
  template <class Params>
  static void put(uint64_t* slots, size_t i, const Value& value) {
    if constexpr (kIsComplex<Params>)
      std::copy(value.begin(), value.end(), slots + 2 * i);
    else
      slots[i] = value[0];
  }

  template <class Params, class Spec>
  void launch_dense(KernelRef<Params, Spec> kernel, const PointwisePlan<N>& plan, int64_t elems,
                    std::array<int64_t, N> offsets) const {
    Params p{};
    Args args;
    Spec spec{.op = entry.id};
    for (int64_t& offset : offsets) offset += plan.simd_elems;
    p.n = static_cast<uint32_t>(elems - plan.simd_elems);
    set_operands(p, args, spec, offsets, plan.modes, [&](size_t) { return p.n; });
    spec.skips_checks = plan.skips_checks;
    spec.interleaved = plan.interleaved;
    launch(stream, kernel, spec, p, args, linear_grid(plan.groups));
  }

  template <class Params, class Spec>
  void launch_strided(KernelRef<Params, Spec> kernel, const PointwisePlan<N>& plan, const StridedShape<N>& piece,
                      const std::array<int64_t, N>& offsets) const {
    Params p{};
    Args args;
    Spec spec{.op = entry.id};
    set_operands(p, args, spec, offsets, plan.modes, [&](size_t k) { return piece.extent(static_cast<int>(k)); });
    fill_dims(p, piece);
    for (int i = 0; i < piece.ndim; ++i)
      for (int k = 0; k < N; ++k) p.strides[8 * k + i] = static_cast<uint32_t>(piece.strides[k][i]);
    launch(stream, kernel, spec, p, args, linear_grid(plan.groups));
  }

  template <class Params, class Spec>
  void launch_simd(KernelRef<Params, Spec> kernel, const PointwisePlan<N>& plan,
                   const std::array<int64_t, N>& offsets) const {
    Params p{};
    Args args;
    Spec spec{.op = entry.id};
    std::array<OperandMode, N> modes;
    for (size_t k = 0; k < N; ++k)
      modes[k] = problem.operands[k].by_value ? OperandMode::by_value : OperandMode::packed;
    set_operands(p, args, spec, offsets, modes, [&](size_t) { return plan.simd_elems; });
    for (uint32_t i = 0; i < 8; ++i) p.digits[i] = i;
    for (int64_t groups = plan.simd_elems / kSimdElems; groups > 0;) {
      const Grid grid = simd_grid(groups);
      launch(stream, kernel, spec, p, args, grid);
      const int64_t done = int64_t{grid.x} * grid.y;
      groups -= done;
      const auto elems = static_cast<uint64_t>(done * kSimdElems);
      p.out_ += elems * dtype_size(problem.operands[0].dtype);
      for (size_t k = 1; k < N; ++k)
        if (!problem.operands[k].by_value) p.in_[k - 1] += elems * dtype_size(problem.operands[k].dtype);
    }
  }

  void launch_complex(const PointwisePlan<N>& plan, const StridedShape<N>& piece,
                      const std::array<int64_t, N>& offsets) const {
    const DType c = problem.arithmetic;
    if (plan.form == PointwiseForm::dense) {
      if constexpr (N == 2) launch_dense(kernel::unary_complex(c), plan, piece.sizes[0], offsets);
      if constexpr (N == 3) launch_dense(kernel::binary_complex(c), plan, piece.sizes[0], offsets);
      if constexpr (N == 4) launch_dense(kernel::ternary_complex(c), plan, piece.sizes[0], offsets);
    } else if (plan.form == PointwiseForm::special) {
      if constexpr (N == 2) launch_strided(kernel::unary_complex_special(c), plan, piece, offsets);
      if constexpr (N == 3) launch_strided(kernel::binary_complex_special(c), plan, piece, offsets);
    } else {
      if constexpr (N == 2) launch_strided(kernel::unary_complex_strided(c), plan, piece, offsets);
      if constexpr (N == 3) launch_strided(kernel::binary_complex_strided(c), plan, piece, offsets);
      if constexpr (N == 4) launch_strided(kernel::ternary_complex_strided(c), plan, piece, offsets);
    }
  }

  void launch_plan(const PointwisePlan<N>& plan, const StridedShape<N>& piece,
                   const std::array<int64_t, N>& offsets) const {
    const DType c = problem.arithmetic;
    if (is_complex(c)) return launch_complex(plan, piece, offsets);
    if (plan.simd_elems != 0) {
      if constexpr (N == 2) launch_simd(kernel::unary_simd(), plan, offsets);
      if constexpr (N == 3) launch_simd(kernel::binary_simd(), plan, offsets);
      if constexpr (N == 4) launch_simd(kernel::ternary_simd(), plan, offsets);
      if (plan.groups == 0) return;
    }
    switch (plan.form) {
      case PointwiseForm::dense:
        if constexpr (N == 2) launch_dense(kernel::unary(c), plan, piece.sizes[0], offsets);
        if constexpr (N == 3) launch_dense(kernel::binary(c), plan, piece.sizes[0], offsets);
        if constexpr (N == 4) launch_dense(kernel::ternary(c), plan, piece.sizes[0], offsets);
        break;
      case PointwiseForm::strided:
        if constexpr (N == 2) launch_strided(kernel::unary_strided(c), plan, piece, offsets);
        if constexpr (N == 3) launch_strided(kernel::binary_strided(c), plan, piece, offsets);
        if constexpr (N == 4) launch_strided(kernel::ternary_strided(c), plan, piece, offsets);
        break;
      case PointwiseForm::special:
        if constexpr (N == 2) launch_strided(kernel::unary_special(c), plan, piece, offsets);
        if constexpr (N == 3) launch_strided(kernel::binary_special(c), plan, piece, offsets);
        break;
      case PointwiseForm::double_bits:
        if constexpr (N == 2) launch_strided(kernel::unary_double_bits(), plan, piece, offsets);
        if constexpr (N == 3) launch_strided(kernel::binary_double_bits(), plan, piece, offsets);
        if constexpr (N == 4) launch_strided(kernel::ternary_double_bits(), plan, piece, offsets);
        break;
    }
  }
};

// Operand k, if it lies across the result, as a copy in the result's order, which the call then reads.
template <int N>
at::Tensor transpose_into_order(Call<N>& call, const DeviceProfile& profile, StridedShape<N>& shape, int k,
                                c10::Device device) {
  PointwiseOperand& o = call.problem.operands[k];
  const size_t size = dtype_size(o.dtype);
  const auto plan = across_plan(profile, shape, k, o.address, size);
  if (!plan) return {};
  const at::Tensor copy =
      at::empty({shape.numel() * static_cast<int64_t>(size)}, at::TensorOptions(device).dtype(at::kByte));
  launch_transpose(call.stream, plan->transpose, raw_dtype(size), address_of(copy), o.address, plan->shape);
  o.address = address_of(copy);
  lie_in_order(shape, k);
  return copy;
}

template <int N>
void run(const Entry& entry, at::TensorIteratorBase& iter, c10::ScalarType common, const Scalars& scalars) {
  const at::TensorBase& out = iter.tensor_base(0);
  DType c = arithmetic_of(entry, common);  // first, so that an empty complex tensor is refused, too
  if (iter.numel() == 0) return;
  if (is_complex(c)) {
    if (c10::toRealValueType(out.scalar_type()) == at::kDouble) c = DType::c128;
  } else if (out.scalar_type() == at::kDouble && c != DType::f64) {
    c = arithmetic_of(entry, at::kDouble);
  }
  const DeviceProfile& profile = profile_of(out.device().index());
  TORCH_CHECK_NOT_IMPLEMENTED(c != DType::c128 || profile.float64, entry.name,
                              ": this device has no float64 arithmetic");
  TORCH_CHECK_NOT_IMPLEMENTED(!computes_in_double_bits(profile, c) || in_double_bits(entry), entry.name,
                              ": this device has no float64 arithmetic");
  const bool special = is_complex(c) ? entry.complex == Complex::special : entry.special;
  Call<N> call{current(out.device().index()), entry, {c, special, {}}};
  for (int i = 0; i < scalars.size(); ++i) {
    if (is_complex(c))
      call.scalars[i] = encode_complex(scalars.complex(i), c);
    else
      call.scalars[i] = {encode(scalars.real(i), narrowed(scalars.integer(i), scalars.real(i), common), c)};
  }

  StridedShape<N> shape;
  shape.ndim = std::max(iter.ndim(), 1);
  if (iter.ndim() == 0) shape.sizes[0] = 1;
  for (int i = 0; i < iter.ndim(); ++i) shape.sizes[i] = iter.shape()[i];
  for (int k = 0; k < N; ++k) {
    PointwiseOperand& o = call.problem.operands[k];
    const at::TensorBase& t = iter.tensor_base(k);
    o.by_value = k > 0 && iter.is_cpu_scalar(k);
    if (o.by_value) {
      const bool compares = entry.rule == Rule::to_bool;
      if (is_complex(c))
        call.values[k] = encode_complex_cpu_scalar(t, common, c, compares);
      else
        call.values[k] = {encode_cpu_scalar(t, common, c, compares)};
      o.dtype = DType::f32;                 // not read; one dtype for all, so that they share a pipeline
      shape.strides[k] = shape.strides[0];  // the output's, so that this operand prevents no merge of dimensions
      continue;
    }
    o.dtype = real_or_complex_dtype_of(t.scalar_type(), entry.name);
    check_has_memory(t);
    o.address = reinterpret_cast<uint64_t>(iter.data_ptr(k));
    TORCH_INTERNAL_ASSERT((o.dtype != DType::f64 && o.dtype != DType::c128) || c == DType::f64 || c == DType::c128,
                          entry.name, ": float64 operand in ", common, " arithmetic");
    if (iter.ndim() == 0) shape.strides[k][0] = 1;
    const auto strides = iter.strides(k);
    for (int i = 0; i < iter.ndim(); ++i) shape.strides[k][i] = strides[i] / static_cast<int64_t>(dtype_size(o.dtype));
  }
  if (iter.numel() == 1)
    for (int k = 0; k < N; ++k) shape.strides[k][0] = 1;
  std::array<at::Tensor, N> copies;
  for (int k = 1; k < N; ++k)
    if (!call.problem.operands[k].by_value) copies[k] = transpose_into_order(call, profile, shape, k, out.device());
  for (const at::Tensor& copy : copies)
    if (copy.defined()) shape.normalize();  // dimensions may merge now
  shape.for_each_piece([&](const StridedShape<N>& piece, const std::array<int64_t, N>& offsets) {
    call.launch_plan(pointwise_plan<N>(profile, call.problem, piece, offsets), piece, offsets);
  });
}

}  // namespace

void run_pointwise(const Entry& entry, at::TensorIteratorBase& iter, c10::ScalarType common, const Scalars& scalars) {
  switch (entry.arity) {
    case 1: run<2>(entry, iter, common, scalars); break;
    case 2: run<3>(entry, iter, common, scalars); break;
    default: run<4>(entry, iter, common, scalars); break;
  }
}

}  // namespace aule::ops
