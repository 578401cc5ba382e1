// Whether an operator above autograd may take the place of those that PyTorch makes it of.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

namespace aule::aten {

// Python subclasses, fake tensors, torch.func's wrappers and forward-mode AD see the operators that it is made of.
inline bool is_plain(const at::Tensor& t) {
  constexpr c10::DispatchKeySet kWrapped{c10::DispatchKey::Python, c10::DispatchKey::PythonDispatcher,
                                         c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::Functionalize};
  return !t.key_set().has_any(kWrapped) && !t._fw_grad(0).defined();
}

// So do modes.
inline bool is_traced() { return c10::impl::TorchDispatchModeTLS::any_modes_set(); }

}  // namespace aule::aten
