#include "aten/register.h"
#include "ops/copy/copy.h"
#include "ops/factory/sequences.h"
#include "ops/factory/storage.h"
#include "ops/tensor/record_stream.h"

namespace aule::aten {

// Creation, views, storage, copies.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", GUARDED(ops::empty_memory_format));
  m.impl("empty_strided", GUARDED(ops::empty_strided));
  m.impl("_efficientzerotensor", GUARDED(ops::efficient_zero_tensor));
  m.impl("as_strided", TORCH_FN(ops::as_strided));
  m.impl("view", TORCH_FN(ops::view));
  m.impl("_reshape_alias", TORCH_FN(ops::reshape_alias));
  m.impl("unfold", TORCH_FN(ops::unfold));
  m.impl("view_as_real", TORCH_FN(ops::view_as_real));
  m.impl("view_as_complex", TORCH_FN(ops::view_as_complex));
  m.impl("resize_", GUARDED(ops::resize_));
  m.impl("set_.source_Storage", GUARDED(ops::set_source_storage));
  m.impl("set_.source_Storage_storage_offset", GUARDED(ops::set_source_storage_offset));
  m.impl("set_.source_Tensor", GUARDED(ops::set_source_tensor));
  m.impl("set_", GUARDED(ops::set_empty));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(ops::_has_compatible_shallow_copy_type));
  m.impl("_copy_from", GUARDED(ops::copy_from));
  m.impl("_copy_from_and_resize", GUARDED(ops::copy_from_and_resize));
  m.impl("_local_scalar_dense", GUARDED(ops::local_scalar_dense));
  m.impl("record_stream", GUARDED(ops::record_stream));
}

// Copies read and write tensors with the conjugate or negative bit set themselves. Resolved by PyTorch, by a clone,
// these two would call themselves without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

// Sequences.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("arange.start_out", ops::arange_out));
  m.impl(ROW("range.out", ops::range_out));
  m.impl(ROW("linspace.out", ops::linspace_out));
  m.impl(ROW("logspace.out", ops::logspace_out));
  m.impl(ROW("eye.out", ops::eye_out));
  m.impl(ROW("eye.m_out", ops::eye_m_out));
  m.impl(ROW("tril_indices", ops::tril_indices));
  m.impl(ROW("triu_indices", ops::triu_indices));
}

}  // namespace aule::aten
