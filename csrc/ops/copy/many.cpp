#include "ops/copy/many.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_foreach_copy_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/split_with_sizes_copy_compositeexplicitautograd_dispatch.h>

#include <algorithm>

#include "core/raw_dtype.h"
#include "kernels_copy.gen.h"
#include "ops/copy/kernels.h"
#include "ops/tensor/overlap.h"
#include "ops/tensor/strided_params.h"
#include "ops/tensor/table.h"

namespace aule::ops {
namespace {

namespace slow = at::compositeexplicitautograd;  // PyTorch's loops over single tensors
using at::Tensor;
using at::TensorList;

bool on_device(const Tensor& t, c10::Device device) { return t.device() == device && t.layout() == at::kStrided; }

}  // namespace

ManyCopies::ManyCopies(c10::Device device) : device_(device) {}

void ManyCopies::add(const Tensor& dst, const Tensor& src) { add_part(dst, 0, src); }

void ManyCopies::add_part(const Tensor& whole, int64_t offset, const Tensor& src) {
  if (src.numel() == 0) return;
  const auto to = whole.scalar_type(), from = src.scalar_type();
  const bool same = same_bits(to, from);
  const bool plain = same ? whole.is_neg() == src.is_neg() && whole.is_conj() == src.is_conj()
                          : has_dtype(to) && has_dtype(from) && !whole.is_neg() && !src.is_neg();
  if (plain && on_device(src, device_)) {
    StridedShape<2> shape;
    for (int64_t i = src.dim() - 1; i >= 0; --i) shape.push(src.size(i), {whole.stride(i), src.stride(i)});
    shape.normalize();
    const DType dt_dst = same ? raw_dtype_of(whole) : dtype_of(whole, "copy_");
    const DType dt_src = same ? dt_dst : dtype_of(src, "copy_");
    const bool transposes = same && transpose_plan(profile_of(whole), dt_dst, shape, 0);
    if (shape.ndim <= 4 && !transposes) {
      const uint64_t dst = address_of(whole) + static_cast<uint64_t>(offset) * whole.element_size();
      return add(dst, dt_dst, address_of(src), dt_src, shape);
    }
  }
  const bool all = offset == 0 && whole.sizes() == src.sizes();
  Tensor written =
      all ? whole
          : at::native::as_strided_tensorimpl(whole, src.sizes(), whole.strides(), whole.storage_offset() + offset);
  written.copy_(src);
}

void ManyCopies::add(uint64_t dst, DType dst_dtype, uint64_t src, DType src_dtype, const StridedShape<2>& shape) {
  const DeviceProfile& profile = profile_of(device_.index());
  const Conversion via = conversion_of(profile, dst_dtype, src_dtype);
  const uint64_t bytes = static_cast<uint64_t>(shape.numel()) * dtype_size(dst_dtype);
  if (via == Conversion::raw && src != 0 && shape.dense() && leaves_list(profile, bytes)) {
    copy_bytes(current(device_.index()), dst, src, bytes);
    return;
  }
  shape.for_each_piece([&](const StridedShape<2>& piece, const std::array<int64_t, 2>& offset) {
    add_piece(via, dst + static_cast<uint64_t>(offset[0]) * dtype_size(dst_dtype), dst_dtype,
              src == 0 ? 0 : src + static_cast<uint64_t>(offset[1]) * dtype_size(src_dtype), src_dtype, piece);
  });
}

void ManyCopies::add_piece(Conversion via, uint64_t dst, DType dst_dtype, uint64_t src, DType src_dtype,
                           const StridedShape<2>& shape) {
  Piece piece{};
  piece.dst = dst;
  piece.src = src;
  piece.dst_bytes = static_cast<uint64_t>(shape.extent(0)) * dtype_size(dst_dtype);
  piece.src_bytes = static_cast<uint64_t>(shape.extent(1)) * dtype_size(src_dtype);
  piece.elems = static_cast<uint32_t>(shape.numel());
  piece.ndim = shape.dense() || (src == 0 && shape.ndim == 1 && shape.strides[0][0] == 1) ? 0 : shape.ndim;
  for (int i = 0; i < shape.ndim; ++i) {
    piece.sizes[i] = static_cast<uint32_t>(shape.sizes[i]);
    piece.dst_strides[i] = static_cast<uint32_t>(shape.strides[0][i]);
    piece.src_strides[i] = src == 0 ? 0 : static_cast<uint32_t>(shape.strides[1][i]);
  }
  const Key key{via, dst_dtype, src_dtype};
  auto of_key = std::find_if(pieces_.begin(), pieces_.end(), [&](const auto& each) { return each.first == key; });
  if (of_key == pieces_.end()) of_key = pieces_.insert(of_key, {key, {}});
  of_key->second.push_back(piece);
}

// Addresses, rows and strides in bytes, or-ed: a multiple of each unit that the piece can be copied in.
uint64_t ManyCopies::Piece::alignment(DType dtype) const {
  const uint64_t size = dtype_size(dtype);
  if (ndim > 0 && (dst_strides[0] != 1 || (src != 0 && src_strides[0] != 1))) return size;
  uint64_t bits = dst | src | (ndim == 0 ? elems : sizes[0]) * size;
  for (int i = 1; i < ndim; ++i) bits |= dst_strides[i] * size | src_strides[i] * size;
  return bits;
}

void ManyCopies::launch_pieces(const Key& key, const Pieces& pieces, bool aligned) {
  const auto [via, dst_dtype, src_dtype] = key;
  uint64_t bits = 16;
  if (via == Conversion::raw)
    for (const Piece& piece : pieces) bits |= piece.alignment(dst_dtype);
  const uint64_t unit = via == Conversion::raw ? bits & (~bits + 1) : dtype_size(dst_dtype);
  const auto per_unit = static_cast<uint32_t>(unit / dtype_size(dst_dtype));
  CopyManySpec spec{.dst_dtype = via == Conversion::raw ? raw_dtype(unit) : dst_dtype,
                    .src_dtype = via == Conversion::raw ? raw_dtype(unit) : src_dtype,
                    .aligned = aligned};
  int ndim = 0;        // of the table's entry that has most
  bool zeros = false;  // has the table entries without a source?
  for_each_table(
      pieces.size(), kTableGroupElems, [&](size_t i) { return int64_t{pieces[i].elems / per_unit}; }, CopyManyParams{},
      [&](CopyManyParams& p, TensorArgs& args, uint32_t at, size_t i) {
        const Piece& piece = pieces[i];
        p.dst[at] = args.write(piece.dst, piece.dst_bytes);
        if (piece.src != 0) p.src[at] = args.read(piece.src, piece.src_bytes);
        ndim = at == 0 ? piece.ndim : std::max(ndim, piece.ndim);
        zeros = (at > 0 && zeros) || piece.src == 0;
        for (int d = 0; d < 4; ++d) {
          const uint32_t divisor = d == 0 ? 1 : per_unit;
          p.dst_strides[4 * at + d] = piece.dst_strides[d] / divisor;
          p.src_strides[4 * at + d] = piece.src_strides[d] / divisor;
          if (d < 3) p.sizes[3 * at + d] = d == 0 ? piece.sizes[0] / per_unit : piece.sizes[d];
        }
      },
      [&](const CopyManyParams& p, const TensorArgs& args, Grid grid) {
        spec.ndim = ndim;
        spec.zeros = zeros;
        launch(current(device_.index()), kernel::copy_many(copy_axis<CopyManyC>(via)), spec, p, args, grid);
      });
}

void ManyCopies::run() {
  for (const auto& [key, pieces] : pieces_) {
    const auto [via, dst_dtype, src_dtype] = key;
    const auto is_aligned = [&, via = via, dst_dtype = dst_dtype, src_dtype = src_dtype](const Piece& piece) {
      return via == Conversion::raw ? piece.alignment(dst_dtype) % 16 == 0
                                    : piece.ndim == 0 && vec_aligned(piece.dst, dst_dtype, kDenseVec) &&
                                          vec_aligned(piece.src, src_dtype, kDenseVec);
    };
    uint64_t aligned_bytes = 0;
    size_t others = 0;
    for (const Piece& piece : pieces) {
      if (is_aligned(piece))
        aligned_bytes += piece.dst_bytes;
      else
        ++others;
    }
    if (!splits_aligned(aligned_bytes, others)) {
      launch_pieces(key, pieces, /*aligned=*/false);
    } else if (others == 0) {
      launch_pieces(key, pieces, /*aligned=*/true);
    } else {
      Pieces apart[2];
      for (const Piece& piece : pieces) apart[is_aligned(piece) ? 0 : 1].push_back(piece);
      launch_pieces(key, apart[0], /*aligned=*/true);
      launch_pieces(key, apart[1], /*aligned=*/false);
    }
  }
  pieces_.clear();
}

namespace {

// Returns false if an order of the copies shows, or if the lists are not on one device, and then does nothing.
bool copy_lists(TensorList dst, TensorList src) {
  if (dst.size() < 2 || dst.size() != src.size()) return false;
  const c10::Device device = dst[0].device();
  if (device.type() != c10::DeviceType::PrivateUse1) return false;
  std::vector<ByteRange> written, read;
  written.reserve(dst.size());
  read.reserve(dst.size());
  for (size_t i = 0; i < dst.size(); ++i) {
    const Tensor &to = dst[i], &from = src[i];
    if (!on_device(to, device) || !on_device(from, device)) return false;
    if (to.sizes() != from.sizes() && !at::is_expandable_to(from.sizes(), to.sizes())) return false;
    if (at::has_internal_overlap(to) == at::MemOverlap::Yes) return false;
    written.push_back(range_of(to));
    read.push_back(range_of(from));
  }
  if (!apart(std::move(written), read)) return false;
  ManyCopies copies(device);
  for (size_t i = 0; i < dst.size(); ++i)
    copies.add(dst[i], dst[i].sizes() == src[i].sizes() ? src[i] : src[i].expand(dst[i].sizes()));
  copies.run();
  for (const Tensor& t : dst) t.unsafeGetTensorImpl()->bump_version();  // for lists, the dispatcher does not
  return true;
}

}  // namespace

void foreach_copy_(TensorList self, TensorList src, bool non_blocking) {
  if (!copy_lists(self, src)) slow::_foreach_copy_(self, src, non_blocking);
}

void split_with_sizes_copy_out(const Tensor& self, at::IntArrayRef split_sizes, int64_t dim, TensorList out) {
  const std::vector<Tensor> parts = self.split_with_sizes(split_sizes, dim);
  TORCH_CHECK(out.size() == parts.size(), "split_with_sizes_copy_out() expected an out= argument of size ",
              parts.size(), ", got size ", out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    at::native::resize_output(out[i], parts[i].sizes());
    TORCH_CHECK(out[i].dtype() == parts[i].dtype(), "Expected out tensor to have dtype ", parts[i].dtype(),
                ", but got ", out[i].dtype(), " instead");
    TORCH_CHECK(out[i].device() == parts[i].device(), "Expected out tensor to have device ", parts[i].device(),
                ", but got ", out[i].device(), " instead");
  }
  if (!copy_lists(out, parts)) slow::split_with_sizes_copy_outf(self, split_sizes, dim, out);
}

}  // namespace aule::ops
