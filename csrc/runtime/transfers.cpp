#include "runtime/transfers.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "runtime/host_allocator.h"
#include "runtime/streams.h"

namespace aule::runtime {
namespace {

constexpr size_t kKeptStates = 4096;  // of transfers that have ended

uint64_t address_of(const at::Tensor& tensor) { return reinterpret_cast<uint64_t>(tensor.const_data_ptr()); }

}  // namespace

TransferEngine::TransferEngine(c10::DeviceIndex device, uint64_t piece_bytes, uint64_t depth)
    : device_(device), piece_bytes_(piece_bytes), depth_(depth) {
  TORCH_CHECK_VALUE(piece_bytes > 0 && depth > 0, "TransferEngine: expected piece_bytes and depth of at least 1, got ",
                    piece_bytes, " and ", depth);
  check_not_forked();
  for (const Direction d : {Direction::to_device, Direction::to_host})
    queue(d).stream = &stream::CommandStream::get(device, stream::CommandStream::transfer_id(d == Direction::to_host));
}

TransferEngine::~TransferEngine() {
  if (in_bad_fork()) return;
  const Uninterrupted whole;  // the device still writes the staging memory that goes now
  for (DirectionQueue& q : queues_) {
    try {
      if (!q.flying.empty()) q.stream->wait_quietly(q.flying.back().value);
    } catch (...) {  // a lost device writes nothing any more
    }
  }
}

int64_t TransferEngine::enqueue(const at::Tensor& dst, const at::Tensor& src, int priority, int64_t owner) {
  TORCH_CHECK_VALUE(dst.is_privateuseone() != src.is_privateuseone() && (dst.is_cpu() || src.is_cpu()),
                    "TransferEngine.enqueue: expected one tensor of aule and one of the CPU, but got dst on ",
                    dst.device(), " and src on ", src.device());
  const at::Tensor& on_device = dst.is_cpu() ? src : dst;
  TORCH_CHECK_VALUE(on_device.device().index() == device_,
                    "TransferEngine.enqueue: expected a tensor of aule:", static_cast<int>(device_),
                    ", but got one of ", on_device.device());
  TORCH_CHECK_VALUE(dst.scalar_type() == src.scalar_type() && dst.sizes() == src.sizes(),
                    "TransferEngine.enqueue: expected dst and src of one dtype and shape, but got ", dst.scalar_type(),
                    " ", dst.sizes(), " and ", src.scalar_type(), " ", src.sizes());
  TORCH_CHECK_VALUE(dst.is_contiguous() && src.is_contiguous(),
                    "TransferEngine.enqueue: expected contiguous dst and src");
  TORCH_CHECK(!dst.requires_grad(), "TransferEngine.enqueue: expected a dst that requires no gradient");
  TORCH_CHECK(!dst.is_conj() && !src.is_conj() && !dst.is_neg() && !src.is_neg(),
              "TransferEngine.enqueue: expected dst and src without lazy conjugation or negation: resolve_conj()");
  stream::CommandStream& current = current_stream(device_);
  TORCH_CHECK(!current.capturing(), "TransferEngine.enqueue: the current stream captures a graph");
  const std::lock_guard lock(mutex_);
  const Uninterrupted whole;
  const Direction direction = dst.is_cpu() ? Direction::to_host : Direction::to_device;
  Transfer transfer{dst,         src, direction, priority, owner, current.record(/*timing=*/false, /*submit=*/true),
                    dst.nbytes()};
  DirectionQueue& q = queue(direction);
  const int64_t id = ++last_id_;
  const auto before = [&](int64_t other) { return transfers_.at(other).priority >= priority; };
  q.waiting.insert(std::partition_point(q.waiting.begin(), q.waiting.end(), before), id);
  transfers_.emplace(id, std::move(transfer));
  ++q.stats.queued;
  q.stats.deepest = std::max(q.stats.deepest, q.stats.queued);
  try {
    move_on();
  } catch (...) {  // the caller gets no name for it
    if (const auto own = transfers_.find(id); own != transfers_.end() && own->second.state == TransferState::queued) {
      q.waiting.erase(std::find(q.waiting.begin(), q.waiting.end(), id));
      --q.stats.queued;
      transfers_.erase(own);
    }
    throw;
  }
  if (!dst.is_inference()) dst.unsafeGetTensorImpl()->bump_version();
  return id;
}

bool TransferEngine::cancel(int64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = transfers_.find(id);
  if (found == transfers_.end() || found->second.state != TransferState::queued) return false;
  DirectionQueue& q = queue(found->second.direction);
  q.waiting.erase(std::find(q.waiting.begin(), q.waiting.end(), id));
  --q.stats.queued;
  ++q.stats.cancelled;
  found->second.state = TransferState::cancelled;
  retire(id);
  return true;
}

TransferState TransferEngine::state(int64_t id) {
  const std::lock_guard lock(mutex_);
  const Uninterrupted whole;
  move_on();
  if (const auto found = transfers_.find(id); found != transfers_.end()) return found->second.state;
  const auto found = ended_.find(id);
  TORCH_CHECK_INDEX(found != ended_.end(), "TransferEngine: there is no transfer ", id, ", or it ended long ago");
  return found->second;
}

void TransferEngine::wait(int64_t id) {
  for (;;) {
    stream::CommandStream* stream;
    uint64_t value;
    {
      const std::lock_guard lock(mutex_);
      const Uninterrupted whole;
      move_on();
      const auto found = transfers_.find(id);
      if (found == transfers_.end()) return;
      const DirectionQueue& q = queue(found->second.direction);
      stream = q.stream;
      value = q.flying.front().value;  // something flies while something waits
    }
    stream->wait(value);  // without the mutex: a signal can end it, and other threads go on
  }
}

void TransferEngine::synchronize() {
  for (;;) {
    int64_t first;
    {
      const std::lock_guard lock(mutex_);
      if (transfers_.empty()) return;
      first = transfers_.begin()->first;
    }
    wait(first);
  }
}

void TransferEngine::advance() {
  const std::lock_guard lock(mutex_);
  const Uninterrupted whole;
  move_on();
}

uint64_t TransferEngine::pending(int64_t owner) {
  const std::lock_guard lock(mutex_);
  const Uninterrupted whole;
  move_on();
  return static_cast<uint64_t>(
      std::count_if(transfers_.begin(), transfers_.end(), [&](const auto& t) { return t.second.owner == owner; }));
}

TransferStats TransferEngine::stats(Direction direction) {
  const std::lock_guard lock(mutex_);
  const Uninterrupted whole;
  move_on();
  return queue(direction).stats;
}

void TransferEngine::move_on() {
  for (DirectionQueue& q : queues_) {
    reap(q);
    issue(q);
  }
}

void TransferEngine::reap(DirectionQueue& q) {
  while (!q.flying.empty() && q.stream->done(q.flying.front().value)) {
    Piece piece = std::move(q.flying.front());
    q.flying.pop_front();
    Transfer& t = transfers_.at(piece.transfer);
    if (piece.staging.defined()) {
      if (t.direction == Direction::to_host)
        std::memcpy(static_cast<char*>(t.dst.mutable_data_ptr()) + piece.offset, piece.staging.const_data_ptr(),
                    piece.bytes);
      q.spare.push_back(std::move(piece.staging));
    }
    t.done += piece.bytes;
    q.stats.bytes += piece.bytes;
    if (t.done == t.bytes) {
      --q.stats.running;
      ++q.stats.completed;
      t.state = TransferState::completed;
      retire(piece.transfer);
    }
    if (q.flying.empty())
      q.stats.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - q.busy_since).count();
  }
}

void TransferEngine::issue(DirectionQueue& q) {
  while (!q.waiting.empty() && q.flying.size() < depth_) {
    const int64_t id = q.waiting.front();
    Transfer& t = transfers_.at(id);
    Piece piece{id, t.issued, std::min(piece_bytes_, t.bytes - t.issued), 0, {}};
    const bool up = t.direction == Direction::to_device;
    const at::Tensor& host = up ? t.src : t.dst;
    const uint64_t device_at = address_of(up ? t.dst : t.src) + piece.offset;
    uint64_t pinned = piece.bytes == 0 ? 0 : pinned_address(host.const_data_ptr(), device_);
    if (pinned != 0) {
      pinned += piece.offset;
    } else if (piece.bytes != 0) {
      if (q.spare.empty()) {
        const auto largest = static_cast<int64_t>(piece_bytes_);
        q.spare.push_back(pinned_bytes(largest, c10::Device(c10::DeviceType::PrivateUse1, device_)));
      }
      piece.staging = std::move(q.spare.back());
      q.spare.pop_back();
      if (up)
        std::memcpy(piece.staging.mutable_data_ptr(), static_cast<const char*>(t.src.const_data_ptr()) + piece.offset,
                    piece.bytes);
      pinned = pinned_address(piece.staging.const_data_ptr(), device_);
    }
    if (t.issued == 0) q.stream->wait_for(t.after);
    if (up)
      q.stream->copy(device_at, pinned, piece.bytes);
    else
      q.stream->copy(pinned, device_at, piece.bytes);
    piece.value = q.stream->flush();
    if (q.flying.empty()) q.busy_since = std::chrono::steady_clock::now();
    if (t.state == TransferState::queued) {
      t.state = TransferState::running;
      --q.stats.queued;
      ++q.stats.running;
    }
    t.issued += piece.bytes;
    if (t.issued == t.bytes) q.waiting.erase(q.waiting.begin());
    q.flying.push_back(std::move(piece));
  }
}

void TransferEngine::retire(int64_t id) {
  const auto found = transfers_.find(id);
  ended_[id] = found->second.state;
  transfers_.erase(found);
  if (ended_.size() > kKeptStates) ended_.erase(ended_.begin());
}

}  // namespace aule::runtime
