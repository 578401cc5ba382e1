#include "ops/loss/loss.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cross_entropy_loss_native.h>

#include "aten/plain.h"
#include "aten/register.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/ctc.h"
#include "ops/loss/margin.h"

namespace aule::aten {
namespace {

// PyTorch makes it of log_softmax and nll_loss. Above autograd there is a choice: the op with its own gradient
// (torch_aule/ops/loss.py), in float32 under autocast, which would run log_softmax so.
at::Tensor cross_entropy_loss(const at::Tensor& self, const at::Tensor& target, const std::optional<at::Tensor>& weight,
                              int64_t reduction, c10::SymInt ignore_index, double label_smoothing) {
  const bool weighted = weight.has_value() && weight->defined();
  if (weighted || label_smoothing != 0.0 || !aten::is_plain(self) || !aten::is_plain(target) || aten::is_traced() ||
      !ops::cross_entropy_serves(self, target)) {
    return at::native::cross_entropy_loss_symint(self, target, weight, reduction, ignore_index, label_smoothing);
  }
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("aule::cross_entropy_fwd", "")
                             .typed<decltype(ops::cross_entropy_fwd)>();
  const bool wide = at::autocast::is_autocast_enabled(c10::DeviceType::PrivateUse1);
  return std::get<0>(op.call(self, target, reduction, ignore_index.expect_int(), wide));
}

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def(
      "cross_entropy_fwd(Tensor self, Tensor target, int reduction, int ignore_index, bool wide) -> "
      "(Tensor loss, Tensor total_weight, Tensor logsumexp)");
  m.def(
      "cross_entropy_bwd(Tensor grad_output, Tensor self, Tensor target, Tensor logsumexp, Tensor total_weight, "
      "int reduction, int ignore_index) -> Tensor");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("cross_entropy_fwd", GUARDED(ops::cross_entropy_fwd));
  m.impl("cross_entropy_bwd", GUARDED(ops::cross_entropy_bwd));
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("cross_entropy_loss", GUARDED(cross_entropy_loss)); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("nll_loss_forward.output", ops::nll_loss_forward_out));
  m.impl(ROW("nll_loss_backward.grad_input", ops::nll_loss_backward_out));
  m.impl(ROW("nll_loss2d_forward", ops::nll_loss2d_forward));
  m.impl(ROW("nll_loss2d_forward.output", ops::nll_loss2d_forward_out));
  m.impl(ROW("nll_loss2d_backward", ops::nll_loss2d_backward));
  m.impl(ROW("nll_loss2d_backward.grad_input", ops::nll_loss2d_backward_out));
  m.impl(ROW("_ctc_loss", ops::ctc_loss));
  m.impl(ROW("_ctc_loss.Tensor", ops::ctc_loss_tensor));
  m.impl(ROW("_ctc_loss_backward", ops::ctc_loss_backward));
  m.impl(ROW("_ctc_loss_backward.Tensor", ops::ctc_loss_backward_tensor));
  m.impl(ROW("multi_margin_loss", ops::multi_margin_loss));
  m.impl(ROW("multi_margin_loss.out", ops::multi_margin_loss_out));
  m.impl(ROW("multi_margin_loss_backward", ops::multi_margin_loss_backward));
  m.impl(ROW("multi_margin_loss_backward.grad_input", ops::multi_margin_loss_backward_out));
  m.impl(ROW("multilabel_margin_loss_forward", ops::multilabel_margin_loss_forward));
  m.impl(ROW("multilabel_margin_loss_forward.output", ops::multilabel_margin_loss_forward_out));
  m.impl(ROW("multilabel_margin_loss_backward", ops::multilabel_margin_loss_backward));
  m.impl(ROW("multilabel_margin_loss_backward.grad_input", ops::multilabel_margin_loss_backward_out));
}
}  // namespace aule::aten
