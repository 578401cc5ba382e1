// CPU stand-ins for the device tensors of one call that runs on the CPU.
//
// A twin has its tensor's sizes, strides, conjugate and negative bits: operators decide by these (is_contiguous() says
// whether linalg_det factors A or its transpose, say). Tensors that share memory have twins that share memory, where
// the call writes to one of them.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace aule::ops {

class HostTwins {
 public:
  // Every tensor of the call first, then make_all(), then twin_of().
  void add(const at::Tensor& t, bool written);
  void make_all();
  // `t` itself, if it is undefined or no strided tensor of ours.
  at::Tensor twin_of(const at::Tensor& t) const;
  // The device tensor whose twin this is.
  std::optional<at::Tensor> original_of(const at::Tensor& host) const;
  // Twins of 16-bit floats become float32 ones, of complex32 complex64. Does nothing and returns false if there are
  // none or if twins share memory.
  bool widen();
  // A result of the call with widened twins, as narrow as the call without would give it.
  at::Tensor narrowed(const at::Tensor& result) const;
  // Tensors that the call writes to become what their twins are now: sizes, strides and values.
  void write_back();
  // The first device among the tensors.
  std::optional<c10::Device> device() const;

 private:
  struct Pair {
    at::Tensor original, twin;
    bool written;
  };
  std::vector<Pair> pairs_;
  std::optional<at::ScalarType> narrow_real_;  // what widen() took away
};

// A device tensor with the host tensor's sizes, strides, bits and values.
at::Tensor device_copy(const at::Tensor& host, c10::Device device);

}  // namespace aule::ops
