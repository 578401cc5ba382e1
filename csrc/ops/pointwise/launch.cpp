#include "ops/pointwise/launch.h"

#include <ATen/TensorIterator.h>

#include <bit>

#include "kernels_pointwise.gen.h"
#include "ops/tensor/strided_params.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

DType arithmetic_of(const Entry& entry, c10::ScalarType common) {
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

constexpr int kSimdElems = 4 * 8 * kDenseVec;  // of a workgroup of *_simd.comp
constexpr int kSimdMin = 1 << 16;              // fewer elements are not worth a pipeline of their own
enum Mode { kStrided = 0, kPacked = 1, kByValue = 2, kConstant = 3 };

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
      TORCH_CHECK_NOT_IMPLEMENTED(!s.isComplex(), "complex scalars are not implemented on device aule");
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

struct Operand {
  uint64_t address = 0, value = 0;
  DType dtype = DType::f32;
  bool by_value = false;
};

// Sets the constants of operand k. Operand 0 is the output.
template <class Spec>
void set_operand(Spec& spec, int k, DType dtype, int mode) {
  switch (k) {
    case 0: spec.out_dtype = dtype, spec.out_mode = mode; break;
    case 1: spec.a_dtype = dtype, spec.a_mode = mode; break;
    case 2: spec.b_dtype = dtype, spec.b_mode = mode; break;
    default: spec.c_dtype = dtype, spec.c_mode = mode;
  }
}

template <int N>  // operands, the output included, which is operand 0
struct Plan {
  const Entry& entry;
  DType c;
  bool gpu;
  std::array<Operand, N> operands;
  std::array<uint64_t, 3> scalars{};
  bool double_bits = false;  // float64 by integer code

  uint64_t register_operand(Args& args, int k, uint64_t address, int64_t extent) const {
    const uint64_t bytes = static_cast<uint64_t>(extent) * dtype_size(operands[k].dtype);
    return k == 0 ? args.write(address, bytes) : args.read(address, bytes);
  }

  template <class Params, class Spec>
  void launch_piece(CommandStream& stream, KernelRef<Params, Spec> kernel, const StridedShape<N>& shape,
                    const std::array<int64_t, N>& offsets, bool dense) const {
    Params p{};
    Args args;
    Spec spec{.op = entry.id};
    const int vec = dense ? kDenseVec : kStridedVec;
    bool packed = true, split = true;
    for (int k = 0; k < N; ++k) {
      const Operand& o = operands[k];
      int mode = kByValue;
      if (o.by_value) {
        p.value[k - 1] = o.value;
      } else {
        const uint64_t address = register_operand(
            args, k, o.address + static_cast<uint64_t>(offsets[k]) * dtype_size(o.dtype), shape.extent(k));
        if (k == 0)
          p.out_ = address;
        else
          p.in_[k - 1] = address;
        mode = shape.packed(k, vec) && vec_aligned(address, o.dtype, vec) ? kPacked : kStrided;
        if (k > 0 && !dense && shape.strides[k][0] == 0) mode = kConstant;
        packed = packed && mode == kPacked;
        split = split && dtype_size(o.dtype) == dtype_size(operands[0].dtype);
      }
      set_operand(spec, k, o.dtype, mode);
    }
    std::copy(scalars.begin(), scalars.end(), p.scalar);
    uint32_t groups;
    if constexpr (requires { p.n; }) {
      p.n = static_cast<uint32_t>(shape.sizes[0]);
      const bool whole = gpu && packed && shape.sizes[0] < (int64_t{1} << 31) - kDenseVec * kDenseLocal;
      spec.skips_checks = whole;
      spec.interleaved = whole && split && dtype_size(operands[0].dtype) >= 2;
      groups = ceil_div(p.n, kDenseVec * kDenseLocal);
    } else {
      groups = fill_dims(p, shape);
      for (int i = 0; i < shape.ndim; ++i)
        for (int k = 0; k < N; ++k) p.strides[8 * k + i] = static_cast<uint32_t>(shape.strides[k][i]);
    }
    launch(stream, kernel, spec, p, args, linear_grid(groups));
  }

  // Launches *_simd.comp for the whole workgroups from the front. Returns the number of their elements.
  template <class Params, class Spec>
  int64_t launch_simd(CommandStream& stream, KernelRef<Params, Spec> kernel, const StridedShape<N>& shape,
                      const std::array<int64_t, N>& offsets) const {
    Params p{};
    Args args;
    Spec spec{.op = entry.id};
    const int64_t groups = shape.sizes[0] / kSimdElems;
    for (int k = 0; k < N; ++k) {
      const Operand& o = operands[k];
      if (o.by_value) {
        p.value[k - 1] = o.value;
      } else {
        const uint64_t address = o.address + static_cast<uint64_t>(offsets[k]) * dtype_size(o.dtype);
        if (!vec_aligned(address, o.dtype, kDenseVec)) return 0;
        register_operand(args, k, address, groups * kSimdElems);
        if (k == 0)
          p.out_ = address;
        else
          p.in_[k - 1] = address;
      }
      set_operand(spec, k, o.dtype, o.by_value ? kByValue : kPacked);
    }
    std::copy(scalars.begin(), scalars.end(), p.scalar);
    for (uint32_t i = 0; i < 8; ++i) p.digits[i] = i;
    constexpr int64_t kAxis = 512;  // as_uniform() takes three octal digits; every workgroup must have work
    for (int64_t done = 0; done < groups;) {
      const int64_t left = groups - done, x = std::min(left, kAxis), y = std::min(left / x, kAxis);
      launch(stream, kernel, spec, p, args, Grid{static_cast<uint32_t>(x), static_cast<uint32_t>(y)});
      done += x * y;
      const auto elems = static_cast<uint64_t>(x * y) * kSimdElems;
      p.out_ += elems * dtype_size(operands[0].dtype);
      for (int k = 1; k < N; ++k)
        if (!operands[k].by_value) p.in_[k - 1] += elems * dtype_size(operands[k].dtype);
    }
    return groups * kSimdElems;
  }

  int64_t launch_simd(CommandStream& stream, const StridedShape<N>& shape,
                      const std::array<int64_t, N>& offsets) const {
    if constexpr (N == 2)
      return launch_simd(stream, kernel::unary_simd(), shape, offsets);
    else if constexpr (N == 3)
      return launch_simd(stream, kernel::binary_simd(), shape, offsets);
    else
      return launch_simd(stream, kernel::ternary_simd(), shape, offsets);
  }

  void run(CommandStream& stream, const Caps& caps, const StridedShape<N>& whole) const {
    const bool has_simd = caps.software_simd() && caps.subgroup_size == 8 && c == DType::f32;
    whole.for_each_piece([&](StridedShape<N> shape, std::array<int64_t, N> offsets) {
      if (double_bits) {
        if constexpr (N == 2)
          launch_piece(stream, kernel::unary_double_bits(), shape, offsets, false);
        else if constexpr (N == 3)
          launch_piece(stream, kernel::binary_double_bits(), shape, offsets, false);
        else
          launch_piece(stream, kernel::ternary_double_bits(), shape, offsets, false);
        return;
      }
      const bool dense = shape.dense();
      if (has_simd && dense && !entry.special && shape.sizes[0] >= kSimdMin) {
        const int64_t done = launch_simd(stream, shape, offsets);
        shape.sizes[0] -= done;
        for (int64_t& offset : offsets) offset += done;
        if (shape.sizes[0] == 0) return;
      }
      if constexpr (N == 2) {
        if (entry.special)
          launch_piece(stream, kernel::unary_special(), shape, offsets, false);
        else if (dense)
          launch_piece(stream, kernel::unary(c), shape, offsets, true);
        else
          launch_piece(stream, kernel::unary_strided(c), shape, offsets, false);
      } else if constexpr (N == 3) {
        if (dense)
          launch_piece(stream, kernel::binary(c), shape, offsets, true);
        else
          launch_piece(stream, kernel::binary_strided(c), shape, offsets, false);
      } else {
        if (dense)
          launch_piece(stream, kernel::ternary(c), shape, offsets, true);
        else
          launch_piece(stream, kernel::ternary_strided(c), shape, offsets, false);
      }
    });
  }
};

template <int N>
void run_plan(const Entry& entry, at::TensorIteratorBase& iter, c10::ScalarType common, const Scalars& scalars) {
  const at::TensorBase& out = iter.tensor_base(0);
  DType c = arithmetic_of(entry, common);  // first, so that an empty complex tensor is refused, too
  if (iter.numel() == 0) return;
  if (out.scalar_type() == at::kDouble && c != DType::f64) c = arithmetic_of(entry, at::kDouble);
  Plan<N> plan{entry, c, !caps_of(out.device().index()).is_software(), {}};
  plan.double_bits = c == DType::f64 && !caps_of(out.device().index()).float64;
  TORCH_CHECK_NOT_IMPLEMENTED(!plan.double_bits || in_double_bits(entry), entry.name,
                              ": this device has no float64 arithmetic");
  for (int i = 0; i < scalars.size(); ++i)
    plan.scalars[i] = encode(scalars.real(i), narrowed(scalars.integer(i), scalars.real(i), common), c);

  StridedShape<N> shape;
  shape.ndim = std::max(iter.ndim(), 1);
  if (iter.ndim() == 0) shape.sizes[0] = 1;
  for (int i = 0; i < iter.ndim(); ++i) shape.sizes[i] = iter.shape()[i];
  for (int k = 0; k < N; ++k) {
    Operand& o = plan.operands[k];
    const at::TensorBase& t = iter.tensor_base(k);
    o.by_value = k > 0 && iter.is_cpu_scalar(k);
    if (o.by_value) {
      o.value = encode_cpu_scalar(t, common, c, entry.rule == Rule::to_bool);
      o.dtype = DType::f32;                 // not read; one dtype for all, so that they share a pipeline
      shape.strides[k] = shape.strides[0];  // the output's, so that this operand prevents no merge of dimensions
      continue;
    }
    o.dtype = dtype_of(t.scalar_type(), entry.name);
    o.address = reinterpret_cast<uint64_t>(iter.data_ptr(k));
    TORCH_INTERNAL_ASSERT(o.dtype != DType::f64 || c == DType::f64, entry.name, ": float64 operand in ", common,
                          " arithmetic");
    if (iter.ndim() == 0) shape.strides[k][0] = 1;
    const auto strides = iter.strides(k);
    for (int i = 0; i < iter.ndim(); ++i) shape.strides[k][i] = strides[i] / static_cast<int64_t>(dtype_size(o.dtype));
  }
  if (iter.numel() == 1)
    for (int k = 0; k < N; ++k) shape.strides[k][0] = 1;
  plan.run(current(out.device().index()), caps_of(out.device().index()), shape);
}

}  // namespace

void run_pointwise(const Entry& entry, at::TensorIteratorBase& iter, c10::ScalarType common, const Scalars& scalars) {
  switch (entry.arity) {
    case 1: run_plan<2>(entry, iter, common, scalars); break;
    case 2: run_plan<3>(entry, iter, common, scalars); break;
    default: run_plan<4>(entry, iter, common, scalars); break;
  }
}

}  // namespace aule::ops
