// Many copies on the device by few dispatches: lists of tensors, concatenations, splits.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "ops/copy/plan.h"

namespace aule::ops {

// Collects copies of one device, and records them by run(), in any order: nothing that is written may meet what another
// one reads or writes. What the kernel cannot take is copied at once.
class ManyCopies {
 public:
  explicit ManyCopies(c10::Device device);
  // As dst.copy_(src), of equal sizes.
  void add(const at::Tensor& dst, const at::Tensor& src);
  // The same to a part of `whole`, of src's sizes, which begins `offset` elements of memory after the whole.
  void add_part(const at::Tensor& whole, int64_t offset, const at::Tensor& src);
  // Elements at addresses. Without `src` (0) zeros are written.
  void add(uint64_t dst, DType dst_dtype, uint64_t src, DType src_dtype, const StridedShape<2>& shape);
  void run();

 private:
  // A piece has less than 2^31 elements and bytes to reach, in 32 bits as the kernel has them.
  struct Piece {
    uint64_t dst, src;
    uint64_t dst_bytes, src_bytes;  // that strides and sizes reach
    uint32_t elems;
    int ndim;  // 0: dense on both sides
    std::array<uint32_t, 4> sizes, dst_strides, src_strides;
    uint64_t alignment(DType dtype) const;
  };
  using Key = std::tuple<Conversion, DType, DType>;
  using Pieces = c10::SmallVector<Piece, 4>;

  void add_piece(Conversion via, uint64_t dst, DType dst_dtype, uint64_t src, DType src_dtype,
                 const StridedShape<2>& shape);
  void launch_pieces(const Key& key, const Pieces& pieces, bool aligned);

  c10::Device device_;
  c10::SmallVector<std::pair<Key, Pieces>, 1> pieces_;  // few keys: a call has one dtype or two
};

void foreach_copy_(at::TensorList self, at::TensorList src, bool non_blocking);
void split_with_sizes_copy_out(const at::Tensor& self, at::IntArrayRef split_sizes, int64_t dim, at::TensorList out);

}  // namespace aule::ops
