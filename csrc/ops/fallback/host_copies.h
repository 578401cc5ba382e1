// CPU stand-ins for the device tensors of one call that runs on the CPU.
//
// A copy has its tensor's sizes, strides, conjugate and negative bits, because results may depend on them: linalg_det
// factors A or its transpose, by is_contiguous(). If the call writes to a tensor, the copies of tensors that share its
// memory share memory, too.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace aule::ops {

class HostCopies {
 public:
  // Every tensor of the call first, then make_all(), then copy_of().
  void add(const at::Tensor& t, bool written);
  void make_all();
  // Returns `t` itself if it is undefined or no strided tensor of this device.
  at::Tensor copy_of(const at::Tensor& t) const;
  // The device tensor of a copy.
  std::optional<at::Tensor> original_of(const at::Tensor& host) const;
  // Makes copies of 16-bit floats float32, and of complex32 complex64. Does nothing and returns false if there are
  // none or if copies share memory.
  bool widen();
  // A result of the call with widened copies, in the dtype of the call without widening.
  at::Tensor narrowed(const at::Tensor& result) const;
  // Gives tensors that the call writes to the sizes, strides and values of their copies.
  void write_back();
  // The first device among the tensors.
  std::optional<c10::Device> device() const;

 private:
  struct Pair {
    at::Tensor original, copy;
    bool written;
  };
  std::vector<Pair> pairs_;
  std::optional<at::ScalarType> narrow_real_;  // the dtype before widen()
};

// A device tensor with the host tensor's sizes, strides, bits and values.
at::Tensor device_copy(const at::Tensor& host, c10::Device device);

}  // namespace aule::ops
