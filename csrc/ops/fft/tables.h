// Constants of transforms in device memory, made on the host in more than their own precision, once for each device,
// length and dtype. They stay.
#pragma once
#include <ATen/core/Tensor.h>

#include <complex>
#include <cstdint>
#include <functional>

namespace aule::ops {

// exp(-2 pi i e / n), right to the last bit or so of a double.
std::complex<double> root_of_unity(uint64_t e, uint64_t n);

// For root() of shaders/fft/complex.glsl: kFineRoots roots, or n if there are fewer, and behind them every
// kFineRoots-th of all.
inline constexpr uint64_t kFineRoots = 4096;
at::Tensor roots_table(int device, at::ScalarType dtype, uint64_t n);

// c[k] = exp(-pi i k^2 / n), and behind it the transform of `core` points of conj(c[|k|]), divided by `core`.
// transform(values) does it in place.
at::Tensor chirp_table(int device, at::ScalarType dtype, uint64_t n, uint64_t core,
                       const std::function<void(const at::Tensor& values)>& transform);

}  // namespace aule::ops
