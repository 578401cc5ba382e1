// Dimensions of a strided kernel over N operands: merged where every operand allows, dimension 0 fastest in operand 0,
// strides in elements. Pure: knows no device.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

namespace aule::ops {

template <int N>
struct StridedShape {
  static constexpr int kMaxDims = 64;  // of a tensor; kernels take 8 after merging
  int ndim = 0;                        // sizes and strides beyond it are not set
  std::array<int64_t, kMaxDims> sizes;
  std::array<std::array<int64_t, kMaxDims>, N> strides;

  void push(int64_t size, const std::array<int64_t, N>& stride) {
    if (size == 1) return;
    sizes[ndim] = size;
    for (int k = 0; k < N; ++k) strides[k][ndim] = stride[k];
    ++ndim;
  }

  // Orders dimensions by operand 0's stride (ties: the next operands'), then merges neighbours.
  void normalize() {
    for (int i = 1; i < ndim; ++i)
      for (int j = i; j > 0 && before(j, j - 1); --j) swap(j, j - 1);
    merge();
    if (ndim == 0) {
      sizes[0] = 1;
      for (int k = 0; k < N; ++k) strides[k][0] = 1;
      ndim = 1;
    }
  }

  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= sizes[i];
    return n;
  }
  // Elements from the first to the last that operand k touches, both included.
  int64_t extent(int k) const {
    int64_t last = 0;
    for (int i = 0; i < ndim; ++i) last += (sizes[i] - 1) * strides[k][i];
    return last + 1;
  }
  bool dense() const {
    if (ndim != 1) return false;
    for (int k = 0; k < N; ++k)
      if (strides[k][0] != 1) return false;
    return true;
  }
  // True if 32-bit offsets reach all elements and the kernels have enough dimensions.
  bool fits_kernel() const {
    if (ndim > 8) return false;
    for (int k = 0; k < N; ++k)
      if (extent(k) >= (int64_t{1} << 31)) return false;
    return numel() < (int64_t{1} << 31);
  }
  // Calls fn(piece, offsets) for pieces that fit; offsets in elements per operand.
  template <class Fn>
  void for_each_piece(const Fn& fn) const {
    std::array<int64_t, N> offsets{};
    split(*this, offsets, fn);
  }
  // Operand k dense along dimension 0, with every row starting at a multiple of `vec` elements.
  bool packed(int k, int vec) const {
    if (strides[k][0] != 1) return false;
    for (int i = 1; i < ndim; ++i)
      if (strides[k][i] % vec != 0) return false;
    return true;
  }

 private:
  bool before(int a, int b) const {
    for (int k = 0; k < N; ++k)
      if (strides[k][a] != strides[k][b]) return strides[k][a] < strides[k][b];
    return false;
  }
  void swap(int a, int b) {
    std::swap(sizes[a], sizes[b]);
    for (int k = 0; k < N; ++k) std::swap(strides[k][a], strides[k][b]);
  }
  void merge() {
    if (ndim == 0) return;
    int last = 0;
    for (int i = 1; i < ndim; ++i) {
      bool fits = true;
      for (int k = 0; k < N; ++k) fits = fits && strides[k][i] == strides[k][last] * sizes[last];
      if (fits) {
        sizes[last] *= sizes[i];
        continue;
      }
      ++last;
      sizes[last] = sizes[i];
      for (int k = 0; k < N; ++k) strides[k][last] = strides[k][i];
    }
    ndim = last + 1;
  }
  template <class Fn>
  static void split(const StridedShape& shape, std::array<int64_t, N> offsets, const Fn& fn) {
    if (shape.fits_kernel()) {
      fn(shape, offsets);
      return;
    }
    // With too many dimensions, one piece per index of the slowest. If too large, two halves along the slowest.
    const int last = shape.ndim - 1;
    const int64_t parts = shape.ndim > 8 ? shape.sizes[last] : 2;
    const int64_t step = ceil_div(shape.sizes[last], parts);
    for (int64_t begin = 0; begin < shape.sizes[last]; begin += step) {
      StridedShape piece = shape;
      piece.sizes[last] = std::min(step, shape.sizes[last] - begin);
      std::array<int64_t, N> at = offsets;
      for (int k = 0; k < N; ++k) at[k] += begin * shape.strides[k][last];
      if (piece.sizes[last] == 1 && last > 0) --piece.ndim;
      split(piece, at, fn);
    }
  }
};

}  // namespace aule::ops
