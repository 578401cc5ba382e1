// Copies and fills: between device addresses, and between the host and the device.
#include <algorithm>
#include <cstring>

#include "stream/errors.h"
#include "stream/stream_impl.h"
#include "stream/wait_notes.h"

namespace aule::stream {
namespace {

constexpr uint64_t kMaxStagingInFlight = 64 << 20;

struct Place {
  VkBuffer buffer;
  uint64_t offset;
  const Segment* segment;
};

Place place(DeviceImpl& d, uint64_t address, uint64_t bytes, const char* what) {
  const Segment* s = d.memory->find(address);
  if (!s || address - s->address + bytes > s->bytes) {
    throw vulkan::Error(std::string(what) + ": " + std::to_string(bytes) + " bytes at address " +
                        std::to_string(address) + " are not memory of aule:" + std::to_string(d.index));
  }
  return {static_cast<VkBuffer>(s->buffer), address - s->address, s};
}

const char* direction(const Segment& from, const Segment& to) {
  const bool from_device = from.kind == MemoryKind::device, to_device = to.kind == MemoryKind::device;
  if (from_device) return to_device ? "device to device" : "device to host";
  return to_device ? "host to device" : "host to host";
}

char* mapped_at(const Place& p) { return static_cast<char*>(p.segment->mapped) + p.offset; }

// Each load of the processor from a GPU's memory is a round trip over the bus, so a number is read by one load: memcpy
// of a size that is not known to the compiler takes two, which overlap.
void read_mapped(void* host, const char* mapped, uint64_t bytes) {
  switch (bytes) {
    case 1: std::memcpy(host, mapped, 1); break;
    case 2: std::memcpy(host, mapped, 2); break;
    case 4: std::memcpy(host, mapped, 4); break;
    case 8: std::memcpy(host, mapped, 8); break;
    case 16: std::memcpy(host, mapped, 16); break;
    default: std::memcpy(host, mapped, bytes);
  }
}

// After the barrier that its accesses need.
void record_copy(StreamImpl& s, const Place& to, const Place& from, uint64_t bytes) {
  Batch& b = s.target();
  VkBufferCopy region{from.offset, to.offset, bytes};
  s.d->vk.vkCmdCopyBuffer(b.cmd, from.buffer, to.buffer, 1, &region);
  if (b.trace) {
    TraceEntry entry = s.traced(Traced::copy, "", bytes);
    entry.direction = direction(*from.segment, *to.segment);
    entry.name = std::string("copy ") + entry.direction;
    trace_command(*s.d, b, std::move(entry));
  }
  if (to.segment->kind != MemoryKind::device) b.writes_host = true;
  ++b.commands;
  ++b.transfers;
}

}  // namespace

// If memory is not unified, mapped memory is the GPU's own, which the processor reaches over the bus.
// - It does not cache what it reads there. A load of 16 bytes takes about 1 us, and loads may follow each other one by
//   one, so that 64 bytes take at most about 4 us. The commands of a copy through staging memory take some 8 us of the
//   18 that .item() took with them on an H200.
// - It combines writes that follow each other, and does not wait for them: some GB/s. Beyond 64 KiB the device's own
//   copy, beside which the host goes on, is not slower.
bool StreamImpl::direct(const Segment& segment, uint64_t bytes, bool write) const {
  constexpr uint64_t kMostRead = 64, kMostWritten = 64 << 10;
  if (segment.mapped == nullptr) return false;
  if (write) return d->profile.unified_memory || bytes <= kMostWritten;
  return segment.cached || bytes <= kMostRead;
}

void StreamImpl::copy(uint64_t dst, uint64_t src, uint64_t bytes) {
  if (bytes == 0 || dst == src) return;
  if (dst < src + bytes && src < dst + bytes) throw vulkan::Error("copy: source and destination overlap");
  if (capture || !must_defer()) return copy_now(dst, src, bytes);
  place(*d, src, bytes, "copy"), place(*d, dst, bytes, "copy");  // which refuse other addresses
  Deferred& later = defer(Deferred::What::copy);
  later.dst = dst;
  later.src = src;
  later.size = bytes;
}

void StreamImpl::copy_now(uint64_t dst, uint64_t src, uint64_t bytes) {
  const Place from = place(*d, src, bytes, "copy"), to = place(*d, dst, bytes, "copy");
  const Access accesses[] = {{src, src + bytes, false}, {dst, dst + bytes, true}};
  access(kTransfer, accesses, 2);
  record_copy(*this, to, from, bytes);
}

// Large copies between the host and the device go to queues that only copy, where there are any: kernels of other
// streams then run meanwhile, and copies of both directions at a time. Null for others. A software device does the same
// for the tests.
CommandStream* StreamImpl::stream_of_copies(uint64_t dst, uint64_t src, uint64_t bytes) {
  // Two more submissions take some 30 us of the device's time (an H200), a copy of 4 MiB 80.
  constexpr uint64_t kLarge = 4 << 20;
  if (bytes < kLarge || copies_only || !d->copies_beside_kernels()) return nullptr;
  const Segment *from = d->memory->find(src), *to = d->memory->find(dst);
  if (from == nullptr || to == nullptr) return nullptr;
  const bool to_host = to->kind != MemoryKind::device;
  if ((from->kind != MemoryKind::device) == to_host) return nullptr;
  {
    std::lock_guard lock(mutex);
    if (capture) return nullptr;
  }
  return &CommandStream::get(d->index, CommandStream::transfer_id(to_host));
}

// Makes another stream's next commands wait for this one's. If this one has only waits in its batch, the other takes
// these over: a submission would wait for a turn of this one's queue, which on an H200 takes 170 us.
void StreamImpl::order_before(StreamImpl& other) {
  std::vector<VkSemaphoreSubmitInfo> waits;
  uint64_t value;
  {
    std::lock_guard lock(mutex);
    d->check_alive();
    if (current && current->commands == 0 && deferred.empty())
      waits = current->waits;
    else
      flush();
    value = submitted;
  }
  const bool pending = completed.load(std::memory_order_acquire) < value && poll() < value;
  if (waits.empty() && !pending) return;
  std::lock_guard lock(other.mutex);
  if (other.current && other.current->commands > 0) other.flush();  // commands recorded before need not wait
  auto& all = other.target().waits;
  for (const VkSemaphoreSubmitInfo& wait : waits) add_wait(all, wait.semaphore, wait.value);
  if (pending) add_wait(all, timeline, value);
}

void CommandStream::copy(uint64_t dst, uint64_t src, uint64_t bytes) {
  await_arrivals();
  if (CommandStream* const other = impl_->stream_of_copies(dst, src, bytes)) {
    impl_->order_before(*other->impl_);
    other->copy(dst, src, bytes);
    return wait_for(other->record(/*timing=*/false, /*submit=*/true));
  }
  uint64_t behind;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->d->check_alive();
    impl_->copy(dst, src, bytes);
    impl_->submit_if_due();
    behind = impl_->behind();
  }
  impl_->let_device_catch_up(behind);
}

void StreamImpl::fill_now(uint64_t dst, uint64_t bytes, uint32_t word) {
  const Place to = place(*d, dst, bytes, "fill");
  const Access written{dst, dst + bytes, true};
  access(kTransfer, &written, 1);
  Batch& b = target();
  d->vk.vkCmdFillBuffer(b.cmd, to.buffer, to.offset, bytes, word);
  if (b.trace) trace_command(*d, b, traced(Traced::fill, "fill", bytes));
  if (to.segment->kind != MemoryKind::device) b.writes_host = true;
  ++b.commands;
  ++b.transfers;
}

void StreamImpl::upload_piece(uint64_t dst, const char* host, uint64_t bytes) {
  const Piece piece = target().staging.take(*d, bytes);
  std::memcpy(piece.host, host, bytes);
  copy_now(dst, piece.address, bytes);
}

void CommandStream::fill(uint64_t dst, uint64_t bytes, uint32_t word) {
  if (bytes == 0) return;
  await_arrivals();
  StreamImpl& s = *impl_;
  std::unique_lock lock(s.mutex);
  s.d->check_alive();
  if (dst % 4 || bytes % 4) throw vulkan::Error("fill: address and size must be multiples of 4");
  if (!s.capture && s.must_defer()) {
    place(*s.d, dst, bytes, "fill");
    Deferred& later = s.defer(Deferred::What::fill);
    later.dst = dst;
    later.size = bytes;
    later.word = word;
  } else {
    s.fill_now(dst, bytes, word);
  }
  s.submit_if_due();
  const uint64_t behind = s.behind();
  lock.unlock();
  s.let_device_catch_up(behind);
}

void CommandStream::upload(uint64_t dst, const void* host, uint64_t bytes) {
  if (bytes == 0) return;
  await_arrivals();
  StreamImpl& s = *impl_;
  DeviceImpl& d = *s.d;
  std::unique_lock lock(s.mutex);
  d.check_alive();
  s.refuse_capture("a copy from host memory");
  Place to = place(d, dst, bytes, "upload");
  if (s.direct(*to.segment, bytes, /*write=*/true) && s.is_idle() && s.other_uploads_done(/*wait=*/false)) {
    std::memcpy(mapped_at(to), host, bytes);  // the next submit makes it visible to the device
    return;
  }
  const char* from = static_cast<const char*>(host);
  for (uint64_t at = 0; at < bytes;) {
    uint64_t n = std::min(bytes - at, kBigStagingChunk);
    const char* host_piece = from + at;
    const uint64_t to_piece = dst + at;
    at += n;
    if (s.must_defer()) {
      Deferred& later = s.defer(Deferred::What::upload);
      later.dst = to_piece;
      later.bytes.assign(host_piece, host_piece + n);
      s.deferred_bytes += n;
      continue;
    }
    s.upload_piece(to_piece, host_piece, n);
    if (at == bytes) break;
    s.flush();  // the device copies this piece while the next one is filled...
    uint64_t held = 0;
    for (const Batch* b : s.in_flight) held += b->staging.total();
    if (held >= kMaxStagingInFlight) {  // ...within a limit on staging memory
      const uint64_t oldest = s.in_flight.front()->value;
      lock.unlock();
      s.wait_until(oldest);
      lock.lock();
      s.refuse_capture("a copy from host memory");
      s.reclaim();
    }
  }
  s.upload_recorded();
  const uint64_t behind = s.behind();
  lock.unlock();
  s.let_device_catch_up(behind);
}

void CommandStream::download(void* host, uint64_t src, uint64_t bytes) {
  if (bytes == 0) return;
  note_wait();
  await_arrivals();
  StreamImpl& s = *impl_;
  DeviceImpl& d = *s.d;
  Place from = place(d, src, bytes, "download");
  if (s.direct(*from.segment, bytes, /*write=*/false)) {
    uint64_t value;
    {
      std::lock_guard lock(s.mutex);
      d.check_alive();
      s.refuse_capture("a copy to host memory");
      value = s.is_idle() ? 0 : s.point();
    }
    if (value != 0) {
      await(value);
    } else {
      // A trace counts reads as waits. Whether the device is done already is chance.
      const HostSpan span("aule wait");
    }
    // A copy by the device would run after these, as all work that is submitted later.
    s.other_uploads_done(/*wait=*/true);
    raise_failure();
    raise_recorded_error(device_index());
    // A processor may load from memory that it does not cache before earlier loads, here that of the timeline's value.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    read_mapped(host, mapped_at(from), bytes);
    return;
  }
  if (const Segment* pinned = d.memory->find_host(host)) {
    uint64_t offset = static_cast<uint64_t>(static_cast<char*>(host) - static_cast<char*>(pinned->mapped));
    if (offset + bytes <= pinned->bytes) {
      copy(pinned->address + offset, src, bytes);
      synchronize();
      return;
    }
  }
  await_pipelines(UINT64_MAX);
  // Two staging chunks: the host reads one while the device writes the other.
  uint64_t chunk_bytes = bytes <= kStagingChunk ? kStagingChunk : kBigStagingChunk;
  uint64_t value[2] = {}, at[2] = {}, size[2] = {};
  struct Chunks {
    StreamImpl& s;
    const uint64_t* value;
    Segment* chunk[2] = {};
    ~Chunks() {
      std::lock_guard lock(s.mutex);
      for (int i = 0; i < 2; ++i) {
        if (!chunk[i]) continue;
        // An interrupted wait leaves a copy that the device has still to make.
        if (s.completed.load(std::memory_order_acquire) < value[i])
          s.abandoned.emplace_back(value[i], chunk[i]);
        else
          give_chunk(*s.d, chunk[i]);
      }
    }
  } chunks{s, value};
  uint64_t issued = 0;
  auto issue = [&](int i) {
    if (issued >= bytes) return;
    if (!chunks.chunk[i]) chunks.chunk[i] = take_chunk(d, MemoryKind::host, chunk_bytes);
    at[i] = issued;
    size[i] = std::min(chunk_bytes, bytes - issued);
    issued += size[i];
    std::lock_guard lock(s.mutex);
    d.check_alive();
    s.refuse_capture("a copy to host memory");
    s.record_deferred(/*wait=*/true);
    if (!s.current) s.begin(/*timed=*/false);  // it has no kernel whose time could be learnt
    // The chunk is not among the accesses: the host has waited for the last command that wrote to it.
    const Access read{src + at[i], src + at[i] + size[i], false};
    s.access(kTransfer, &read, 1);
    const Segment& chunk = *chunks.chunk[i];
    record_copy(s, {static_cast<VkBuffer>(chunk.buffer), 0, &chunk}, {from.buffer, from.offset + at[i], from.segment},
                size[i]);
    value[i] = s.flush();
  };
  issue(0);
  issue(1);
  for (int i = 0; size[i] > 0; i ^= 1) {
    await(value[i]);
    raise_failure();
    raise_recorded_error(device_index());
    std::memcpy(static_cast<char*>(host) + at[i], chunks.chunk[i]->mapped, size[i]);
    size[i] = 0;
    issue(i);
  }
}

}  // namespace aule::stream
