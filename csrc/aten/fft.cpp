#include "ops/fft/fft.h"

#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_fft_c2c", ops::fft_c2c));
  m.impl(ROW("_fft_c2c.out", ops::fft_c2c_out));
  m.impl(ROW("_fft_r2c", ops::fft_r2c));
  m.impl(ROW("_fft_r2c.out", ops::fft_r2c_out));
  m.impl(ROW("_fft_c2r", ops::fft_c2r));
  m.impl(ROW("_fft_c2r.out", ops::fft_c2r_out));
}

}  // namespace
}  // namespace aule::aten
