// Autocast for the device: PyTorch's own op lists and our attention under AutocastPrivateUse1; everything else falls
// through.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ops/attention/attention.h"

namespace at::autocast {

// As for every accelerator: float16 cannot hold this loss's gradients.
static Tensor binary_cross_entropy_refused(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "binary_cross_entropy is unsafe to autocast: use binary_cross_entropy_with_logits or "
              "torch.nn.BCEWithLogitsLoss, which are safe, or leave the autocast region for it");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define AULE_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(AULE_LOWER_PRECISION)
#undef AULE_LOWER_PRECISION
#define AULE_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(AULE_FP32)
#undef AULE_FP32
#define AULE_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(AULE_FP32_SET_OPT_DTYPE)
#undef AULE_FP32_SET_OPT_DTYPE
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define AULE_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(AULE_PROMOTE)
#undef AULE_PROMOTE
  m.impl("binary_cross_entropy", TORCH_FN(binary_cross_entropy_refused));
}

}  // namespace at::autocast

namespace aule::aten {
namespace {

// Under torch.autocast("aule") the operands arrive in the autocast dtype; the bias keeps its own, which the kernel
// reads.
template <class Op>
struct Autocast;
template <class Result, class... Options>
struct Autocast<Result(const at::Tensor&, const at::Tensor&, const at::Tensor&, Options...)> {
  static Result forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, Options... options) {
    constexpr auto kDevice = c10::DeviceType::PrivateUse1;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
    const auto dtype = at::autocast::get_autocast_dtype(kDevice);
    const auto cast = [&](const at::Tensor& t) { return at::autocast::cached_cast(dtype, t, kDevice); };
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("aule::flash_attn_fwd", "")
                               .typed<decltype(ops::flash_attn_fwd)>();
    return op.call(cast(query), cast(key), cast(value), options...);
  }
};

TORCH_LIBRARY_IMPL(aule, AutocastPrivateUse1, m) {
  m.impl("flash_attn_fwd", TORCH_FN((Autocast<decltype(ops::flash_attn_fwd)>::forward)));
}

}  // namespace
}  // namespace aule::aten
