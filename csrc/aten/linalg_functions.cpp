#include "aten/register.h"
#include "ops/linalg/eig.h"
#include "ops/linalg/lstsq.h"
#include "ops/linalg/matrix_exp.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("linalg_eig", ops::linalg_eig));
  m.impl(ROW("linalg_eig.out", ops::linalg_eig_out));
  m.impl(ROW("_linalg_eigvals", ops::linalg_eigvals));
  m.impl(ROW("linalg_eigvals.out", ops::linalg_eigvals_out));
  m.impl(ROW("linalg_lstsq", ops::linalg_lstsq));
  m.impl(ROW("linalg_lstsq.out", ops::linalg_lstsq_out));
  m.impl(ROW("linalg_matrix_exp", ops::linalg_matrix_exp));
  m.impl(ROW("linalg_matrix_exp.out", ops::linalg_matrix_exp_out));
  m.impl(ROW("_compute_linear_combination", ops::compute_linear_combination));
  m.impl(ROW("_compute_linear_combination.out", ops::compute_linear_combination_out));
}

}  // namespace
}  // namespace aule::aten
