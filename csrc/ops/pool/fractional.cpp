// Fractional max pooling: the checks and their texts are PyTorch's.
#include "ops/pool/fractional.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <limits>

#include "kernels_pool.gen.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr std::array<const char*, 3> kSides{"time", "height", "width"};

void check_samples(const at::Tensor& self, const at::Tensor& samples, int dims) {
  const int64_t batch = self.dim() == dims + 1 ? 1 : self.size(0);
  TORCH_CHECK(self.scalar_type() == samples.scalar_type(), "Expect _random_samples to have the same dtype as input");
  TORCH_CHECK(samples.dim() == 3, "Expect _random_samples to have 3 dimensions, got ", samples.dim());
  TORCH_CHECK(samples.size(0) >= batch, "Expect _random_samples.size(0) no less then input batch size.");
  TORCH_CHECK(samples.size(1) == self.size(-dims - 1), "Expect _random_samples.size(1) equals to input channel size.");
  TORCH_CHECK(samples.size(2) == dims, "Expect _random_samples.size(2) equals to ", dims, "; got ", samples.size(2),
              ".");
}

}  // namespace

template <int dims>
std::tuple<at::Tensor&, at::Tensor&> FractionalPool<dims>::max_out(const at::Tensor& self, at::IntArrayRef kernel,
                                                                   at::IntArrayRef output_size,
                                                                   const at::Tensor& samples, at::Tensor& out,
                                                                   at::Tensor& indices) {
  const char* op = dims == 2 ? "fractional_max_pool2d" : "fractional_max_pool3d";
  TORCH_CHECK(kernel.size() == dims, op, ": kernel_size must either be a single Int or tuple of Ints");
  TORCH_CHECK(output_size.size() == dims, op, ": output_size must either be a single Int or tuple of Ints");
  TORCH_CHECK(self.dim() == dims + 1 || self.dim() == dims + 2, op, "(): Expected ", dims + 1, "D or ", dims + 2,
              "D tensor, but got: ", self.sizes());
  for (int64_t d = self.dim() - dims - 1; d < self.dim(); ++d)
    TORCH_CHECK(self.size(d) > 0, op, "(): Expected input to have non-zero size for non-batch dimensions, but got",
                self.sizes(), " with dimension ", d, " being empty.");
  check_floating(op, self);
  check_samples(self, samples, dims);
  check_same_device(op, {&self, &samples, &out, &indices});
  FractionalMaxPoolParams p{};
  std::vector<int64_t> shape = self.sizes().vec();
  for (int d = 0; d < 3; ++d) p.in_size[d] = p.out_size[d] = p.kernel[d] = 1;
  int64_t taps = 1;
  for (int d = 0; d < dims; ++d) {
    const int64_t size = self.size(d - dims), o = output_size[static_cast<size_t>(d)],
                  k = kernel[static_cast<size_t>(d)];
    const int at = d + 3 - dims;
    TORCH_CHECK(o > 0 && k > 0, op, ": expected sizes above 0, but got kernel_size=", kernel,
                " and output_size=", output_size);
    TORCH_CHECK(o + k - 1 < size + (dims == 2 ? 1 : 0), op, "(): pool ", kSides[static_cast<size_t>(at)], " ", k,
                " too large relative to input ", kSides[static_cast<size_t>(at)], " ", size);
    p.in_size[at] = static_cast<int32_t>(size);
    p.out_size[at] = static_cast<int32_t>(o);
    p.kernel[at] = static_cast<int32_t>(k);
    // PyTorch's order of a plane's samples: width, height in 2-D, but time, height, width in 3-D.
    p.sample_at[at] = dims == 2 ? 1 - d : d;
    shape[static_cast<size_t>(self.dim() - dims + d)] = o;
    taps *= k;
  }
  const DType dtype = dtype_of(self, op), c = compute_type(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(supports(self.device().index(), kernel::fractional_max_pool(c).id), op,
                              ": this device has no float64 arithmetic");
  int64_t plane = 1;
  for (int d = 0; d < dims; ++d) plane *= self.size(d - dims);
  TORCH_CHECK_NOT_IMPLEMENTED(plane <= std::numeric_limits<int32_t>::max(), op, ": planes of more than 2^31 elements");
  check_walk(op, profile_of(self), static_cast<uint64_t>(taps));
  at::native::resize_output(out, shape);
  at::native::resize_output(indices, shape);
  const at::Tensor x = self.contiguous(), u = samples.contiguous();
  into(out, [&](const at::Tensor& dense) {
    into(indices, [&](const at::Tensor& positions) {
      TensorArgs args;
      p.in_ = args.read(x);
      p.samples = args.read(u);
      p.out_ = args.write(dense);
      p.indices = args.write(positions);
      p.n = static_cast<uint64_t>(dense.numel());
      p.sample_count = dims;
      launch(current(self), kernel::fractional_max_pool(c), {.dtype = dtype}, p, args,
             linear_grid(ceil_div(p.n, FractionalMaxPoolParams::kLocal)));
    });
  });
  return {out, indices};
}

template <int dims>
at::Tensor FractionalPool<dims>::backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef,
                                          at::IntArrayRef output_size, const at::Tensor& indices) {
  const char* op = dims == 2 ? "fractional_max_pool2d_backward" : "fractional_max_pool3d_backward";
  check_floating(op, self);
  std::vector<int64_t> shape = self.sizes().vec();
  TORCH_CHECK(self.dim() == dims + 1 || self.dim() == dims + 2, op, "(): unexpected sizes of the input ", self.sizes());
  for (int d = 0; d < dims; ++d)
    shape[static_cast<size_t>(self.dim() - dims + d)] = output_size[static_cast<size_t>(d)];
  TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(shape), op, "(): grad_output sizes unexpected");
  TORCH_CHECK(indices.sizes() == grad_output.sizes(), op, "(): expected indices of ", grad_output.sizes(), ", but got ",
              indices.sizes());
  const at::Tensor grad_input = at::zeros(self.sizes(), self.options());
  if (grad_output.numel() == 0) return grad_input;
  const int64_t spatial = self.dim() - dims;  // windows overlap, so gradients are added
  grad_input.flatten(spatial).scatter_add_(spatial, indices.flatten(spatial), grad_output.flatten(spatial));
  return grad_input;
}
template <int dims>
at::Tensor& FractionalPool<dims>::backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                               at::IntArrayRef kernel, at::IntArrayRef output_size,
                                               const at::Tensor& indices, at::Tensor& grad_input) {
  return hand_over(backward(grad_output, self, kernel, output_size, indices), grad_input);
}

template struct FractionalPool<2>;
template struct FractionalPool<3>;

}  // namespace aule::ops
