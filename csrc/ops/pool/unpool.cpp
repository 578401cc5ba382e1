// Max pooling undone: the checks and their texts are PyTorch's.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <vector>

#include "kernels_pool.gen.h"
#include "ops/pool/pool.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// Checks that follow once the counts of the arguments are known.
void check_unpool(const char* op, int dims, const at::Tensor& self, at::IntArrayRef output_size) {
  for (int64_t d = 1; d < self.dim(); ++d)
    TORCH_CHECK(self.size(d) > 0, op, "(): Expected input to have non-zero size for non-batch dimensions, but got ",
                self.sizes(), " with dimension ", d, " being empty.");
  for (const int64_t size : output_size)
    TORCH_CHECK(size >= 0, "max_unpooling", dims,
                "d(): output_size must contain non-negative spatial dimensions, but got output_size=(",
                c10::Join(", ", output_size), ")");
  const at::ScalarType type = self.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kDouble || type == at::kFloat || type == at::kHalf || type == at::kBFloat16 ||
                                  type == at::kByte || type == at::kChar || type == at::kShort || type == at::kInt ||
                                  type == at::kLong,
                              '"', op, "\" not implemented for '", type, "'");
}

void check_same_sizes(const at::Tensor& self, const at::Tensor& indices) {
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
}

void unpool(const char* op, const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
            at::Tensor& out) {
  check_same_device(op, {&out, &self, &indices});
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "expected scalar type ", self.scalar_type(), " but found ",
              out.scalar_type());
  std::vector<int64_t> shape = self.sizes().vec();
  std::copy(output_size.begin(), output_size.end(), shape.end() - static_cast<int64_t>(output_size.size()));
  at::native::resize_output(out, shape);
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, indices);
  const at::Tensor x = self.contiguous(), positions = indices.contiguous();
  into(out, [&](const at::Tensor& dense) {
    dense.zero_();
    CommandStream& stream = current(self);
    TensorArgs args;
    MaxUnpoolParams p{};
    p.in_ = args.read(x);
    p.indices = args.read(positions);
    p.out_ = args.write(dense);
    p.error = error_address(stream);
    p.n = static_cast<uint64_t>(x.numel());
    const int64_t planes =
        c10::multiply_integers(shape.begin(), shape.end() - static_cast<int64_t>(output_size.size()));
    p.in_plane = p.n / static_cast<uint64_t>(planes);
    p.out_plane = dense.numel() / planes;
    p.tag = error_tag(op);
    launch(stream, kernel::max_unpool(), {.dtype = raw_dtype_of(x)}, p, args,
           linear_grid(ceil_div(p.n, MaxUnpoolParams::kLocal)));
  });
}

}  // namespace

at::Tensor& max_unpool2d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::Tensor& out) {
  at::globalContext().alertNotDeterministic("max_unpooling2d_forward_out");
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(output_size.size() == 2, "There should be exactly two elements (height, width) in output_size, but got ",
              output_size.size(), " elements.");
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4,
              "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with ", self.dim(),
              " dimensions.");
  check_same_sizes(self, indices);
  check_unpool("max_unpool2d", 2, self, output_size);
  unpool("max_unpool2d", self, indices, output_size, out);
  return out;
}
at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size) {
  at::Tensor out = at::empty({0}, self.options());
  return max_unpool2d_out(self, indices, output_size, out);
}

at::Tensor& max_unpool3d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& out) {
  at::globalContext().alertNotDeterministic("max_unpooling3d_forward_out");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "elements in indices should be type int64");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
              "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with ", self.dim(),
              " dimensions.");
  TORCH_CHECK(output_size.size() == 3,
              "There should be exactly three elements (depth, height, width) in output_size, but got ",
              output_size.size(), " elements.");
  const auto three = [](at::IntArrayRef values, const char* name) {
    TORCH_CHECK(values.size() == 3, "There should be exactly three elements (depth, height, width) in ", name,
                ", but got: ", values.size(), " elements.");
  };
  three(stride, "stride");
  three(padding, "padding");
  check_same_sizes(self, indices);
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
              "strides should be greater than zero, but got stride: ", stride);
  check_unpool("max_unpool3d", 3, self, output_size);
  unpool("max_unpool3d", self, indices, output_size, out);
  return out;
}
at::Tensor max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                        at::IntArrayRef stride, at::IntArrayRef padding) {
  at::Tensor out = at::empty({0}, self.options());
  return max_unpool3d_out(self, indices, output_size, stride, padding, out);
}

}  // namespace aule::ops
