#include "ops/copy/host.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/wait.h"
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

// Vulkan 1.3 has no portable peer access, and pinned memory belongs to one device. So chunks go from the source to its
// pinned memory, to that of the target and on, each of the three while neighbouring chunks are in the others.
void send_bytes(const at::Tensor& dst, const at::Tensor& src) {
  constexpr int64_t kChunk = 8 << 20, kGrain = 1 << 20, kSlots = 2;
  const int64_t bytes = src.numel() * static_cast<int64_t>(src.element_size());
  if (bytes == 0) return;
  note_wait();
  struct Slot {
    at::Tensor from, to;
    c10::Event read{c10::DeviceType::PrivateUse1}, written{c10::DeviceType::PrivateUse1};
  };
  const int64_t chunk = std::min(bytes, kChunk), chunks = ceil_div(bytes, chunk);
  std::array<Slot, kSlots> slots;
  const auto size_of = [&](int64_t i) { return static_cast<uint64_t>(std::min(chunk, bytes - i * chunk)); };
  const auto read = [&](int64_t i) {
    Slot& slot = slots[static_cast<size_t>(i % kSlots)];
    const c10::OptionalDeviceGuard guard(src.device());
    if (!slot.from.defined()) slot.from = runtime::pinned_bytes(chunk, src.device());
    copy_bytes(current(src), runtime::pinned_address(slot.from.data_ptr(), src.device().index()),
               address_of(src) + static_cast<uint64_t>(i * chunk), size_of(i));
    keep_until_passed(slot.from, src.device().index());
    slot.read.record(runtime::current_c10_stream(src.device().index()));
  };
  const auto write = [&](int64_t i) {
    Slot& slot = slots[static_cast<size_t>(i % kSlots)];
    if (!slot.to.defined()) slot.to = runtime::pinned_bytes(chunk, dst.device());
    slot.read.synchronize();
    if (i >= kSlots) slot.written.synchronize();
    const auto* from = static_cast<const char*>(slot.from.const_data_ptr());
    auto* to = static_cast<char*>(slot.to.data_ptr());
    at::parallel_for(0, static_cast<int64_t>(size_of(i)), kGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    const c10::OptionalDeviceGuard guard(dst.device());
    copy_bytes(current(dst), address_of(dst) + static_cast<uint64_t>(i * chunk),
               runtime::pinned_address(slot.to.data_ptr(), dst.device().index()), size_of(i));
    keep_until_passed(slot.to, dst.device().index());
    slot.written.record(runtime::current_c10_stream(dst.device().index()));
  };
  for (int64_t i = 0; i < chunks; ++i) {
    read(i);
    if (i + 1 >= kSlots) write(i + 1 - kSlots);
  }
  for (int64_t i = std::max<int64_t>(0, chunks + 1 - kSlots); i < chunks; ++i) write(i);
}

}  // namespace aule::ops
