// Passes of a transform along one dimension: a pure function of its sizes and what is known of the device.
#pragma once
#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

enum class FftKind { complex, real_to_half, real_to_full, half_to_real };
// LOAD and STORE of shaders/fft/ends.glsl.
enum class FftLoad : int { complex, real, pair, hermitian, halves };
enum class FftStore : int { complex, real, pair, half };

struct FftProblem {
  DType real = DType::f32;  // of a part
  FftKind kind = FftKind::complex;
  uint64_t n = 1;  // of the signal, also where half of its spectrum is kept
  // Neighbouring elements of a sequence are neighbours in memory.
  bool in_is_dense = true, out_is_dense = true;
  // Sequences whose elements are neighbours in memory, in both tensors.
  uint64_t neighbours = 1;
};

inline constexpr int kInnerPasses = 5;  // R0 .. R4 of fft.comp
// Columns of complex64 that make a line of memory, 64 bytes: the least beside each other. Half as many of complex128.
inline constexpr uint32_t kLineColumns = 8;

// One launch of fft.comp; members are its constants.
struct FftPass {
  bool by_group = false;  // a column is a workgroup's, else an invocation's
  std::array<int, kInnerPasses> radices{1, 1, 1, 1, 1};
  uint32_t radix = 1;
  uint32_t t = 1, columns = 1, local = 1, points = 1, planes = 1;
  bool loads_across = false, stores_across = false;
};

struct FftPlan {
  FftLoad load = FftLoad::complex;
  FftStore store = FftStore::complex;
  uint64_t n = 1, core = 1;  // of the complex transform; core > n: a convolution with a chirp (Bluestein)
  bool splits = false;       // fft_split.comp ends it
  bool sequence_first = false;
  c10::SmallVector<FftPass, 4> passes{};  // their radices' product is core; a convolution has them twice

  bool convolves() const { return core != n; }
};

// The plan of a length up to 2^30.
FftPlan fft_plan(const DeviceProfile& profile, const FftProblem& problem);
std::string text_of(const FftPlan& plan);

// Lengths that passes of the radices can do.
bool is_smooth(uint64_t n);

}  // namespace aule::ops
