#include "ops/matmul.h"

#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm.out", GUARDED(ops::mm_out));
  m.impl("bmm.out", GUARDED(ops::bmm_out));
  m.impl("addmm.out", GUARDED(ops::addmm_out));
  m.impl("_addmm_activation.out", GUARDED(ops::addmm_activation_out));
  m.impl("baddbmm.out", GUARDED(ops::baddbmm_out));
  m.impl("addbmm", GUARDED(ops::addbmm));
  m.impl("addbmm_", GUARDED(ops::addbmm_));
  m.impl("addbmm.out", GUARDED(ops::addbmm_out));
  m.impl("addmv.out", GUARDED(ops::addmv_out));
  m.impl("dot", GUARDED(ops::dot));
  m.impl("vdot", GUARDED(ops::dot));
  m.impl("_int_mm", GUARDED(ops::int_mm));
  m.impl("_int_mm.out", GUARDED(ops::int_mm_out));
}

}  // namespace
}  // namespace aule::aten
