#include "ops/reduce/scan.h"

#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("cumsum.out", ops::cumsum_out));
  m.impl(ROW("cumprod.out", ops::cumprod_out));
  m.impl(ROW("_cummax_helper", ops::cummax_helper));
  m.impl(ROW("_cummin_helper", ops::cummin_helper));
  m.impl(ROW("_logcumsumexp", ops::logcumsumexp));
  m.impl(ROW("_logcumsumexp.out", ops::logcumsumexp_out));
}

}  // namespace
}  // namespace aule::aten
