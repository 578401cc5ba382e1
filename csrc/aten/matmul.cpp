#include "ops/matmul/matmul.h"

#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("mm.out", ops::mm_out));
  m.impl(ROW("bmm.out", ops::bmm_out));
  m.impl(ROW("addmm.out", ops::addmm_out));
  m.impl(ROW("_addmm_activation.out", ops::addmm_activation_out));
  m.impl(ROW("baddbmm.out", ops::baddbmm_out));
  m.impl(ROW("addbmm", ops::addbmm));
  m.impl(ROW("addbmm_", ops::addbmm_));
  m.impl(ROW("addbmm.out", ops::addbmm_out));
  m.impl(ROW("addmv.out", ops::addmv_out));
  m.impl(ROW("dot", ops::dot));
  m.impl(ROW("vdot", ops::dot));
  m.impl(ROW("_int_mm", ops::int_mm));
  m.impl(ROW("_int_mm.out", ops::int_mm_out));
}

}  // namespace
}  // namespace aule::aten
