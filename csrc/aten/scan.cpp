#include "ops/scan.h"

#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cumsum.out", GUARDED(ops::cumsum_out));
  m.impl("cumprod.out", GUARDED(ops::cumprod_out));
  m.impl("_cummax_helper", GUARDED(ops::cummax_helper));
  m.impl("_cummin_helper", GUARDED(ops::cummin_helper));
  m.impl("_logcumsumexp", GUARDED(ops::logcumsumexp));
  m.impl("_logcumsumexp.out", GUARDED(ops::logcumsumexp_out));
}

}  // namespace
}  // namespace aule::aten
