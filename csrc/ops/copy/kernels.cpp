#include "ops/copy/kernels.h"

#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>

#include <cstring>

#include "kernels_copy.gen.h"
#include "ops/copy/plan.h"
#include "ops/tensor/strided_params.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

using Via = Conversion;

CopyDenseC dense_axis(Via via) {
  switch (via) {
    case Via::int64: return CopyDenseC::int64;
    case Via::float64: return CopyDenseC::double_;
    case Via::float64_bits: return CopyDenseC::double_bits;
    case Via::complex64: return CopyDenseC::vec2;
    case Via::complex128: return CopyDenseC::dvec2;
    default: return CopyDenseC::float_;
  }
}

CopyStridedC strided_axis(Via via) {
  switch (via) {
    case Via::complex64: return CopyStridedC::vec2;
    case Via::complex128: return CopyStridedC::dvec2;
    default: return copy_axis<CopyStridedC>(via);
  }
}

template <int N>
StridedShape<N> shape_of(const std::array<const at::Tensor*, N>& tensors) {
  StridedShape<N> shape;
  for (int64_t i = tensors[0]->dim() - 1; i >= 0; --i) {
    std::array<int64_t, N> stride{};
    for (int k = 0; k < N; ++k) stride[k] = tensors[k]->stride(i);
    shape.push(tensors[0]->size(i), stride);
  }
  shape.normalize();
  return shape;
}

void copy_dense_bytes(CommandStream& stream, const DeviceProfile& profile, uint64_t to, uint64_t from, uint64_t bytes) {
  if (!copies_by_kernel(profile, to | from, bytes)) {
    copy_bytes(stream, to, from, bytes);
    return;
  }
  Args args;
  CopyWordsParams p{};
  p.dst = args.write(to, bytes);
  p.src = args.read(from, bytes);
  p.bytes = bytes;
  launch(stream, kernel::copy_words(), {}, p, args, linear_grid(ceil_div(bytes, 1024 * 16)));
}

uint32_t fill_copy(CopyStridedParams& p, uint64_t to, uint64_t from, const StridedShape<2>& shape, int each) {
  p.dst = to;
  p.src = from;
  for (int i = 0; i < shape.ndim; ++i) {
    p.dst_strides[i] = static_cast<uint32_t>(shape.strides[0][i]);
    p.src_strides[i] = static_cast<uint32_t>(shape.strides[1][i]);
  }
  return fill_dims(p, shape, each);
}

void launch_units(CommandStream& stream, const WideUnits& units, uint64_t to, uint64_t from) {
  const StridedShape<2>& shape = units.shape;
  const uint64_t size = dtype_size(units.raw);
  Args args;
  const uint64_t d = args.write(to, static_cast<uint64_t>(shape.extent(0)) * size);
  const uint64_t s = args.read(from, static_cast<uint64_t>(shape.extent(1)) * size);
  CopyStridedParams p{};
  const uint32_t groups = fill_copy(p, d, s, shape, units.each);
  launch(stream, kernel::copy_strided(CopyStridedC::raw),
         {.dst_dtype = units.raw,
          .src_dtype = units.raw,
          .one_dim = shape.ndim == 1,
          .each = static_cast<uint32_t>(units.each)},
         p, args, linear_grid(groups));
}

// The SIGNS of copy_strided.comp.
uint32_t signs_to_flip(const at::Tensor& t, bool negate, bool conjugate) {
  const bool real = negate, imaginary = negate != conjugate;
  switch (t.scalar_type()) {
    case at::kComplexDouble: return (real ? 2u : 0u) | (imaginary ? 8u : 0u);
    case at::kComplexFloat: return (real ? 1u : 0u) | (imaginary ? 2u : 0u);
    case at::kComplexHalf: return (real ? 16u : 0u) | (imaginary ? 1u : 0u);
    case at::kDouble: return real ? 2u : 0u;
    case at::kFloat: return real ? 1u : 0u;
    case at::kHalf:
    case at::kBFloat16: return real ? 16u : 0u;
    default: TORCH_CHECK_NOT_IMPLEMENTED(!real, "copy_: no negation of ", t.scalar_type(), " on device aule");
  }
  return 0;
}

// `t` without the negative bit.
at::Tensor negated(const at::Tensor& t) {
  at::Tensor plain = at::empty(t.sizes(), t.options());
  copy_strided(plain, t);
  return plain;
}

// The real or imaginary parts as a real tensor. Its negative bit stands for the complex tensor's bits.
at::Tensor plane(const at::Tensor& t, int part) {
  at::Tensor memory = at::alias(t);
  if (t.is_conj()) memory._set_conj(false);
  if (t.is_neg()) memory._set_neg(false);
  at::Tensor real = at::view_as_real(memory).select(-1, part);
  if (t.is_neg() != (part == 1 && t.is_conj())) real._set_neg(true);
  return real;
}

// Converts to, from and between complex dtypes plane by plane.
void convert_complex(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.is_complex()) {
    copy_strided(plane(dst, 0), src.is_complex() ? plane(src, 0) : src);
    if (src.is_complex())
      copy_strided(plane(dst, 1), plane(src, 1));
    else
      fill_zero(plane(dst, 1));
    return;
  }
  copy_strided(dst, plane(src, 0));
  if (dst.scalar_type() != at::kBool) return;
  at::Tensor imaginary = at::empty(dst.sizes(), dst.options());
  copy_strided(imaginary, plane(src, 1));
  at::Tensor written = dst;
  written.logical_or_(imaginary);
}

// Without conjugate and negative bits, and without float64 where the device has none, complex numbers are a type of the
// conversion kernels.
bool converts_whole(const at::Tensor& dst, const at::Tensor& src) {
  const auto is_wide = [](const at::Tensor& t) { return c10::toRealValueType(t.scalar_type()) == at::kDouble; };
  const auto has_bits = [](const at::Tensor& t) { return t.is_conj() || t.is_neg(); };
  return !has_bits(dst) && !has_bits(src) && (profile_of(dst).float64 || !(is_wide(dst) || is_wide(src)));
}

void fill_bits(const at::Tensor& dst, const std::array<uint32_t, 4>& bits) {
  if (dst.numel() == 0) return;
  auto& stream = current(dst);
  const DType dt = raw_dtype_of(dst);
  const auto size = static_cast<int64_t>(dtype_size(dt));
  const StridedShape<1> whole = shape_of<1>({&dst});
  const uint64_t base = address_of(dst);
  const uint64_t bytes = static_cast<uint64_t>(whole.numel() * size);
  bool one_word = true;  // is the pattern one repeated 32-bit word?
  for (int64_t i = 1; i < size / 4; ++i) one_word = one_word && bits[i] == bits[0];
  if (whole.dense() && one_word && bytes % 4 == 0 && base % 4 == 0) {
    const uint32_t word = size == 1   ? (bits[0] & 0xffu) * 0x01010101u
                          : size == 2 ? (bits[0] & 0xffffu) * 0x00010001u
                                      : bits[0];
    fill_words(stream, base, bytes, word);
    return;
  }
  whole.for_each_piece([&](const StridedShape<1>& shape, const std::array<int64_t, 1>& offset) {
    Args args;
    FillStridedParams p{};
    p.dst = args.write(base + static_cast<uint64_t>(offset[0] * size), static_cast<uint64_t>(shape.extent(0) * size));
    std::copy(bits.begin(), bits.end(), p.value);
    for (int i = 0; i < shape.ndim; ++i) p.strides[i] = static_cast<uint32_t>(shape.strides[0][i]);
    const uint32_t groups = fill_dims(p, shape);
    launch(stream, kernel::fill_strided(), {.dtype = dt}, p, args, linear_grid(groups));
  });
}

}  // namespace

void launch_transpose(CommandStream& stream, const TransposePlan& plan, DType dt, uint64_t to, uint64_t from,
                      const StridedShape<2>& shape) {
  const int j = plan.dense_dim;
  TransposeParams p{};
  int k = 0;
  for (int i = 1; i < shape.ndim; ++i) {
    if (i == j) continue;
    p.sizes[k] = static_cast<uint32_t>(shape.sizes[i]);
    p.dst_strides[k] = static_cast<uint32_t>(shape.strides[0][i]);
    p.src_strides[k++] = static_cast<uint32_t>(shape.strides[1][i]);
  }
  for (; k < 4; ++k) p.sizes[k] = 1;
  Args args;
  p.dst = args.write(to, static_cast<uint64_t>(shape.extent(0)) * dtype_size(dt));
  p.src = args.read(from, static_cast<uint64_t>(shape.extent(1)) * dtype_size(dt));
  p.size_i = static_cast<uint32_t>(shape.sizes[0]);
  p.size_j = static_cast<uint32_t>(shape.sizes[j]);
  p.dst_stride_j = static_cast<uint32_t>(shape.strides[0][j]);
  p.src_stride_i = static_cast<uint32_t>(shape.strides[1][0]);
  launch(stream, kernel::transpose(), {.dtype = dt, .pairs = plan.pairs}, p, args, plan.grid);
}

bool same_bits(c10::ScalarType dst, c10::ScalarType src) {
  if (dst == src) return true;
  return c10::isIntegralType(dst, /*includeBool=*/false) && c10::isIntegralType(src, /*includeBool=*/false) &&
         c10::elementSize(dst) == c10::elementSize(src);
}

bool converts_on_device(c10::ScalarType dst, c10::ScalarType src) {
  const auto known = [](c10::ScalarType t) { return has_dtype(t) || c10::isComplexType(t); };
  return (known(dst) && known(src)) || same_bits(dst, src);
}

void copy_strided(const at::Tensor& dst, const at::Tensor& src) {
  TORCH_CHECK(dst.sizes() == src.sizes(), "copy_: expected equal sizes on the device, got ", dst.sizes(), " and ",
              src.sizes());
  if (dst.numel() == 0) return;
  const bool same = same_bits(dst.scalar_type(), src.scalar_type());
  const bool negate = dst.is_neg() != src.is_neg();
  if (!same && (dst.is_complex() || src.is_complex()) && !converts_whole(dst, src)) return convert_complex(dst, src);
  if (negate && !same) return copy_strided(dst, negated(src));
  if (negate && c10::isIntegralType(dst.scalar_type(), /*includeBool=*/true)) {
    copy_strided(at::_neg_view(dst), src);  // copies bits: an integer has no sign bit to flip
    at::Tensor written = dst.is_neg() ? at::_neg_view(dst) : dst;
    written.neg_();
    return;
  }
  const DType dt_dst = same ? raw_dtype_of(dst) : real_or_complex_dtype_of(dst.scalar_type(), "copy_");
  const DType dt_src = same ? dt_dst : real_or_complex_dtype_of(src.scalar_type(), "copy_");
  const uint32_t signs = same ? signs_to_flip(dst, negate, dst.is_conj() != src.is_conj()) : 0;
  const DeviceProfile& profile = profile_of(dst);
  const Via via = conversion_of(profile, dt_dst, dt_src);

  auto& stream = current(dst);
  const StridedShape<2> whole = shape_of<2>({&dst, &src});
  const uint64_t to = address_of(dst), from = address_of(src);
  if (whole.dense() && via == Via::raw && signs == 0) {
    copy_dense_bytes(stream, profile, to, from, static_cast<uint64_t>(whole.numel()) * dtype_size(dt_dst));
    return;
  }
  whole.for_each_piece([&](const StridedShape<2>& shape, const std::array<int64_t, 2>& offset) {
    const uint64_t piece_to = to + static_cast<uint64_t>(offset[0]) * dtype_size(dt_dst),
                   piece_from = from + static_cast<uint64_t>(offset[1]) * dtype_size(dt_src);
    if (via == Via::raw && signs == 0) {
      if (const auto plan = transpose_plan(profile, dt_dst, shape, piece_to | piece_from))
        launch_transpose(stream, *plan, dt_dst, piece_to, piece_from, shape);
      else
        launch_units(stream, wide_units(dt_dst, shape, piece_to | piece_from), piece_to, piece_from);
      return;
    }
    Args args;
    const uint64_t d = args.write(piece_to, static_cast<uint64_t>(shape.extent(0)) * dtype_size(dt_dst));
    const uint64_t s = args.read(piece_from, static_cast<uint64_t>(shape.extent(1)) * dtype_size(dt_src));
    if (shape.dense() && via != Via::raw) {
      CopyDenseParams p{};
      p.dst = d;
      p.src = s;
      p.n = static_cast<uint32_t>(shape.numel());
      const bool wide = vec_aligned(d, dt_dst, kDenseVec) && vec_aligned(s, dt_src, kDenseVec);
      launch(stream, kernel::copy_dense(dense_axis(via)), {.dst_dtype = dt_dst, .src_dtype = dt_src, .aligned = wide},
             p, args, linear_grid(ceil_div(p.n, kDenseVec * kDenseLocal)));
      return;
    }
    CopyStridedParams p{};
    const uint32_t groups = fill_copy(p, d, s, shape, kStridedVec);
    const bool packed_dst = shape.packed(0, kStridedVec) && vec_aligned(d, dt_dst, kStridedVec);
    const bool packed_src = shape.packed(1, kStridedVec) && vec_aligned(s, dt_src, kStridedVec);
    launch(stream, kernel::copy_strided(strided_axis(via)),
           {.dst_dtype = dt_dst,
            .src_dtype = dt_src,
            .dst_packed = via != Via::raw && packed_dst,
            .src_packed = via != Via::raw && packed_src,
            .one_dim = shape.ndim == 1,
            .signs = signs},
           p, args, linear_grid(groups));
  });
}

void fill_kernel(const at::Tensor& dst, const at::Scalar& value) {
  std::array<uint32_t, 4> bits{};
  AT_DISPATCH_V2(dst.scalar_type(), "fill_", AT_WRAP([&] {
                   const auto x = value.to<scalar_t>();
                   static_assert(sizeof(x) <= sizeof(bits));
                   std::memcpy(bits.data(), &x, sizeof(x));
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16, at::kBool);
  fill_bits(dst, bits);
}

void fill_zero(const at::Tensor& dst) { fill_bits(dst, {}); }

at::Tensor& fill__scalar(at::Tensor& self, const at::Scalar& value) {
  fill_kernel(self, value);
  return self;
}

at::Tensor& fill__tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_: expected a 0-dimensional value tensor, got one with ", value.dim(),
              " dimensions");
  if (value.device() != self.device()) {
    fill_kernel(self, value.item());
  } else {
    const at::Tensor apart = self.is_alias_of(value) ? value.clone() : value;
    copy_strided(self, apart.expand(self.sizes()));
  }
  return self;
}

at::Tensor& zero_(at::Tensor& self) {
  fill_zero(self);
  return self;
}

}  // namespace aule::ops
