#include "ops/copy/host.h"

#include "ops/tensor/tensor_arg.h"
#include "runtime/host_allocator.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

void keep_until_passed(const at::Tensor& host, c10::DeviceIndex device) {
  runtime::host_allocator()->record_event(host.data_ptr(), host.storage().data_ptr().get_context(),
                                          runtime::current_c10_stream(device));
}

}  // namespace

void upload(const at::Tensor& dst, const at::Tensor& host, bool non_blocking) {
  const uint64_t bytes = static_cast<uint64_t>(dst.numel()) * static_cast<uint64_t>(dst.element_size());
  if (bytes == 0) return;
  auto& stream = current(dst);
  if (non_blocking) {
    if (const uint64_t pinned = runtime::pinned_address(host.const_data_ptr(), dst.device().index()); pinned != 0) {
      copy_bytes(stream, address_of(dst), pinned, bytes);
      keep_until_passed(host, dst.device().index());
      return;
    }
  }
  upload_bytes(stream, address_of(dst), host.const_data_ptr(), bytes);
}

void download(const at::Tensor& host, const at::Tensor& src, bool non_blocking) {
  const uint64_t bytes = static_cast<uint64_t>(src.numel()) * static_cast<uint64_t>(src.element_size());
  if (bytes == 0) return;
  auto& stream = current(src);
  if (non_blocking) {
    if (const uint64_t pinned = runtime::pinned_address(host.const_data_ptr(), src.device().index()); pinned != 0) {
      copy_bytes(stream, pinned, address_of(src), bytes);
      keep_until_passed(host, src.device().index());
      return;
    }
  }
  try {
    download_bytes(stream, host.data_ptr(), address_of(src), bytes);
  } catch (...) {  // the wait was interrupted, or a kernel reported an error: the device may still write
    if (runtime::is_pinned(host.const_data_ptr())) keep_until_passed(host, src.device().index());
    throw;
  }
}

}  // namespace aule::ops
