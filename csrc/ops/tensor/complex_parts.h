// Linear operators on complex numbers, by those on real ones.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>

namespace aule::ops {

// f of the real parts and f of the imaginary parts, as one tensor.
template <class Function>
at::Tensor of_both_parts(const at::Tensor& z, const Function& f) {
  return at::complex(f(at::real(z)), f(at::imag(z)));
}

}  // namespace aule::ops
