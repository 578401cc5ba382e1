#include "distributed/exchange.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <thread>

#include "core/integer.h"
#include "runtime/device_info.h"
#include "runtime/streams.h"

namespace aule::distributed {
namespace {

using Kind = Exchange::Kind;
constexpr int64_t kAlign = 256;           // of blocks in a slot
constexpr int64_t kSmallRound = 4 << 20;  // of a block, or what a slot has for it
constexpr int kPolls = 100;               // of an event, before a thread sleeps
constexpr int64_t kLarge = 1 << 20;       // of a block: it travels beside kernels
constexpr int64_t kGroup = 16 << 20;      // bytes of all sources that are reduced at a time
constexpr size_t kFewestPlaces = 4;       // of groups: some come while others are reduced
constexpr int64_t kStaged = 512 << 20;    // bytes of all places, at most
constexpr int64_t kStagedShare = 16;      // and of the device's memory this part

const char* name_of(uint32_t kind) {
  constexpr const char* kNames[] = {"all_reduce", "reduce",    "reduce_scatter", "all_gather",
                                    "gather",     "broadcast", "scatter"};
  return kind < std::size(kNames) ? kNames[kind] : "another collective";
}

std::string text(const Header& h) {
  return c10::str(name_of(h.kind), " of ", h.bytes, " bytes (operator ", h.op, ", dtype ",
                  static_cast<at::ScalarType>(h.dtype), ", root ", h.root, ")");
}

void reduce(at::Tensor out, const at::Tensor& a, const at::Tensor& b, c10d::ReduceOp::RedOpType op) {
  using Op = c10d::ReduceOp;
  switch (op) {
    case Op::SUM: at::add_out(out, a, b); return;
    case Op::PRODUCT: at::mul_out(out, a, b); return;
    case Op::MIN: at::minimum_out(out, a, b); return;
    case Op::MAX: at::maximum_out(out, a, b); return;
    case Op::BAND: at::bitwise_and_out(out, a, b); return;
    case Op::BOR: at::bitwise_or_out(out, a, b); return;
    case Op::BXOR: at::bitwise_xor_out(out, a, b); return;
    default: TORCH_CHECK(false, "no such reduction: ", static_cast<int>(op));
  }
}

void wait_for(const c10::Event& event) {
  for (int i = 0; i < kPolls; ++i) {
    if (event.query()) return;
    std::this_thread::yield();
  }
  event.synchronize();
}

struct Piece {
  int64_t begin = 0, bytes = 0;
};

// Element boundaries of `bytes` in as many blocks as there are ranks; the last ones may be shorter, or empty.
std::vector<Piece> blocks_of(int64_t bytes, int64_t ranks, int64_t element) {
  const int64_t block = ceil_div(bytes / element, ranks) * element;
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < ranks; ++i) {
    const int64_t begin = std::min(bytes, i * block);
    pieces.push_back({begin, std::min(bytes - begin, block)});
  }
  return pieces;
}

}  // namespace

// One way through the slots.
struct SharedExchange::Pass {
  at::Tensor source = {};          // what this rank writes; undefined: nothing
  std::vector<Piece> blocks = {};  // of it: one for each rank, side by side in a slot, or one in all
  bool divided = false;            // a slot has a block for each rank, and this rank reads its own
  std::vector<int> sources = {};   // the ranks that this one reads from
  at::Tensor into = {};
  std::vector<Piece> pieces = {};  // of `into`, of each rank; one for all of them if they are reduced
  std::optional<c10d::ReduceOp::RedOpType> op = std::nullopt;
  at::ScalarType dtype = at::kByte;
  at::Tensor own = {};  // this rank's part of what is reduced
  int64_t longest = 0;  // bytes of the longest block: how many rounds it takes, the same on all ranks
};

SharedExchange::SharedExchange(std::shared_ptr<SharedSegment> segment)
    : segment_(std::move(segment)),
      rank_(segment_->rank()),
      ranks_(segment_->ranks()),
      written_(SharedSegment::kSlots) {}

SharedExchange::~SharedExchange() {
  if (runtime::in_bad_fork()) return;
  try {  // the device may still copy
    for (const auto& event : written_)
      if (event) event->synchronize();
    for (const Reading& reading : reading_)
      if (reading.done) reading.done->synchronize();
    for (const Place& place : places_)
      if (place.summed) place.summed->synchronize();
  } catch (...) {  // it is lost, and copies no more
  }
}

at::Tensor SharedExchange::slot(int rank, uint32_t round, int64_t begin, int64_t bytes) const {
  return at::from_blob(segment_->slot(rank, round) + begin, {bytes}, at::TensorOptions(at::kByte));
}

at::Tensor SharedExchange::slot_on_device(int rank, uint32_t round, int64_t begin, int64_t bytes) const {
  const auto offset = static_cast<uint64_t>(segment_->slot(rank, round) - segment_->slots() + begin);
  auto* address = reinterpret_cast<void*>(imported()->address() + offset);
  return at::for_blob(address, {bytes})
      .options(at::TensorOptions(at::kByte).device(stream_->device()))
      .target_device(stream_->device())
      .make_tensor();
}

void SharedExchange::import() {
  const c10::DeviceIndex device = stream_->device_index();
  if (imported_.contains(device)) return;
  if (imported_.empty()) segment_->reserve();
  imported_.emplace(
      device, runtime::ImportedHost::import(segment_->slots(), static_cast<uint64_t>(segment_->slots_bytes()), device));
}

void SharedExchange::run(const Exchange& exchange, c10::Stream stream) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::StreamGuard guard(stream);
  stream_ = stream;
  deadline_ = std::chrono::steady_clock::now() + exchange.timeout;
  header_ = {static_cast<uint32_t>(exchange.kind), static_cast<uint32_t>(exchange.op),
             static_cast<uint32_t>(exchange.dtype), static_cast<uint32_t>(exchange.root),
             static_cast<uint64_t>(exchange.bytes)};
  import();
  give_places_back();
  ready_ = exchange.ready;
  passes(exchange);
  sum_.reset();
}

void SharedExchange::passes(const Exchange& e) {
  const bool is_root = rank_ == e.root;
  std::vector<int> others;
  std::vector<Piece> all;  // blocks of e.bytes
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_) others.push_back(rank);
    all.push_back({rank * e.bytes, e.bytes});
  }
  const std::vector<Piece> whole{{0, e.bytes}};
  const auto mine = [&](const at::Tensor& blocks) { return blocks.narrow(0, all[rank_].begin, e.bytes); };
  const auto keep = [&](at::Tensor to, const at::Tensor& from) {  // this rank's own block, which goes nowhere
    if (e.bytes == 0 || to.data_ptr() == from.data_ptr()) return;
    to.copy_(from);
  };
  const Pass sum{.sources = others,
                 .into = e.received,
                 .pieces = whole,
                 .op = e.op,
                 .dtype = e.dtype,
                 .own = e.sent,
                 .longest = e.bytes};

  switch (e.kind) {
    case Kind::all_reduce: {
      Pass first = sum;
      first.source = e.sent;
      first.blocks = whole;
      if (ranks_ == 2) return pass(first);
      const std::vector<Piece> parts = blocks_of(e.bytes, ranks_, static_cast<int64_t>(c10::elementSize(e.dtype)));
      const Piece my_part = parts[rank_];
      first.blocks = parts;
      first.divided = true;
      first.pieces = {my_part};
      first.own = e.sent.narrow(0, my_part.begin, my_part.bytes);
      first.longest = parts[0].bytes;
      pass(first);
      return pass({.source = e.received.narrow(0, my_part.begin, my_part.bytes),
                   .blocks = {{0, my_part.bytes}},
                   .sources = others,
                   .into = e.received,
                   .pieces = parts,
                   .longest = parts[0].bytes});
    }
    case Kind::reduce:
      if (is_root) return pass(sum);
      return pass({.source = e.sent, .blocks = whole, .longest = e.bytes});
    case Kind::reduce_scatter: {
      Pass scattered = sum;
      scattered.source = e.sent;
      scattered.blocks = all;
      scattered.divided = true;
      scattered.own = mine(e.sent);
      return pass(scattered);
    }
    case Kind::all_gather:
      keep(mine(e.received), e.sent);
      return pass({.source = e.sent,
                   .blocks = whole,
                   .sources = others,
                   .into = e.received,
                   .pieces = all,
                   .longest = e.bytes});
    case Kind::gather:
      if (!is_root) return pass({.source = e.sent, .blocks = whole, .longest = e.bytes});
      keep(mine(e.received), e.sent);
      return pass({.sources = others, .into = e.received, .pieces = all, .longest = e.bytes});
    case Kind::broadcast:
      if (is_root) return pass({.source = e.sent, .blocks = whole, .longest = e.bytes});
      return pass({.sources = {e.root},
                   .into = e.received,
                   .pieces = std::vector<Piece>(ranks_, whole[0]),
                   .longest = e.bytes});
    case Kind::scatter:
      if (is_root) {
        keep(e.received, mine(e.sent));
        return pass({.source = e.sent, .blocks = all, .divided = true, .longest = e.bytes});
      }
      return pass({.divided = true,
                   .sources = {e.root},
                   .into = e.received,
                   .pieces = std::vector<Piece>(ranks_, whole[0]),
                   .longest = e.bytes});
  }
}

void SharedExchange::pass(const Pass& pass) {
  // The bytes of a round: a quarter of a block, so that copies to the host and from there overlap, but not in small
  // bits.
  const int64_t most = pass.divided ? segment_->slot_bytes() / ranks_ / kAlign * kAlign : segment_->slot_bytes();
  const int64_t quarter = round_up(pass.longest / 4 + 1, kAlign);
  const int64_t pitch = std::min(most, std::max(quarter, kSmallRound));
  // One round at least: a mistake (one rank's tensor is empty, say) is found in it.
  const int64_t rounds = std::max<int64_t>(1, ceil_div(pass.longest, pitch));
  to_host_ = to_device_ = *stream_;
  beside_ = travels_beside(pass.longest);
  if (beside_) {
    to_host_ = runtime::transfer_stream(stream_->device_index(), true);
    to_device_ = runtime::transfer_stream(stream_->device_index(), false);
    c10::Event recorded{c10::DeviceType::PrivateUse1};
    if (ready_ == nullptr) recorded.record(*stream_);
    const c10::Event& ready = ready_ != nullptr ? *ready_ : recorded;
    ready.block(*to_host_);
    ready.block(*to_device_);
  }
  ready_ = nullptr;  // a second pass is behind the first one's kernels
  const auto joined = c10::make_scope_exit([this] { join(); });
  const auto sources = static_cast<int64_t>(pass.sources.size());
  const bool reduces = pass.op && sources != 0, staged = reduces && (beside_ || !imported());
  const int64_t in_group = beside_ && reduces ? std::clamp<int64_t>(kGroup / (pitch * sources), 1, rounds) : 1;
  group_bytes_ = in_group * pitch;
  const auto options = at::TensorOptions(at::kByte).device(stream_->device());
  place_bytes_ = staged ? sources * group_bytes_ : 0;
  if (reduces && ranks_ > 2 && rank_ != 0)
    sum_ = at::empty({std::min(group_bytes_, round_up(pass.longest + 1, kAlign))}, options);
  const uint32_t first = round_;
  int64_t ahead = 0;  // rounds that are on their way into slots
  Group group;
  for (int64_t i = 0; i < rounds; ++i, ++round_) {
    retire(round_ - SharedSegment::kSlots + 1);  // the others may wait for these before they come to this round
    for (; ahead < std::min<int64_t>(rounds, i + SharedSegment::kSlots); ++ahead)
      if (!write(pass, ahead * pitch, pitch, first + static_cast<uint32_t>(ahead), /*wait=*/ahead == i)) break;
    if (auto& written = written_[round_ % SharedSegment::kSlots]) {
      wait_for(*written);
      written.reset();
    }
    segment_->publish(round_, header_);
    if (i % in_group == 0) group = begin_group(pass, i * pitch);
    read(pass, group, i * pitch, pitch);
    if (reduces) {
      if ((i + 1) % in_group == 0 || i + 1 == rounds)
        end_group(std::move(group), std::min(pass.pieces[0].bytes, (i + 1) * pitch));
      settle(pass, /*all=*/!beside_);
    }
    if (auto& done = reading_.back().done; done && !beside_) done->record(*stream_);
  }
  settle(pass, /*all=*/true);
}

// Two streams of one kind of queue would take turns.
bool SharedExchange::travels_beside(int64_t bytes) const {
  return bytes >= kLarge && runtime::copies_beside_kernels(stream_->device_index());
}

// Waits for the copies beside the stream: the tensors are its own again, also after an error. The stream itself does
// not wait, for the default stream's commands may stand in the same queue.
void SharedExchange::join() noexcept {
  coming_.clear();
  if (!beside_) return;
  try {
    for (const c10::Stream& stream : {*to_host_, *to_device_}) {
      c10::Event done{c10::DeviceType::PrivateUse1};
      done.record(stream);
      wait_for(done);
    }
  } catch (...) {  // the device is lost, and copies no more
  }
}

SharedExchange::Group SharedExchange::begin_group(const Pass& pass, int64_t offset) {
  Group group{.begin = offset, .round = round_};
  if (place_bytes_ != 0) group.place = take_place(pass);
  return group;
}

// Sums may stand behind kernels that were submitted before them (those of backward, say). A place that waits for its
// sum is therefore left alone while there may be more places: else copies would wait for these kernels, too.
int64_t SharedExchange::take_place(const Pass& pass) {
  const auto fits = [&](const Place& place) {
    return place.memory.device() == stream_->device() && place.memory.numel() >= place_bytes_;
  };
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const auto comes = [&](const Group& group) { return group.place == static_cast<int64_t>(i); };
    if (fits(place) && std::none_of(coming_.begin(), coming_.end(), comes) && (!place.summed || place.summed->query()))
      return static_cast<int64_t>(i);
  }
  size_t taken = places_.size();
  if (taken >= kFewestPlaces && static_cast<int64_t>(taken + 1) * place_bytes_ > most_staged()) {
    settle(pass, /*all=*/true);
    taken = next_place_++ % places_.size();
    Place& place = places_[taken];
    if (fits(place)) {
      if (beside_ && place.summed) place.summed->block(*to_device_);
      return static_cast<int64_t>(taken);
    }
    place = {};
  } else {
    places_.emplace_back();
  }
  const c10::StreamGuard guard(*to_device_);  // which writes to it first
  places_[taken].memory = at::empty({place_bytes_}, at::TensorOptions(at::kByte).device(stream_->device()));
  return static_cast<int64_t>(taken);
}

// After the last collectives of a step nothing needs the places any more.
void SharedExchange::give_places_back() {
  const auto idle = [](const Place& place) { return !place.summed || place.summed->query(); };
  if (places_.size() > kFewestPlaces && std::all_of(places_.begin(), places_.end(), idle))
    places_.resize(kFewestPlaces);
}

int64_t SharedExchange::most_staged() const {
  const auto memory = static_cast<int64_t>(runtime::device_profile(stream_->device_index()).device_heap_bytes);
  return std::min(kStaged, memory / kStagedShare);
}

void SharedExchange::end_group(Group group, int64_t end) {
  if (end <= group.begin) return;
  group.end = end;
  if (beside_) group.come.emplace(c10::DeviceType::PrivateUse1).record(*to_device_);
  coming_.push_back(std::move(group));
}

// Records the copies into the slot of a round. Returns false if it is not free and must not be waited for.
bool SharedExchange::write(const Pass& pass, int64_t offset, int64_t pitch, uint32_t round, bool wait) {
  const uint32_t before = round - SharedSegment::kSlots;  // which had the slot, and its header
  if (wait)
    segment_->wait_read(before, deadline_);
  else if (!segment_->was_read(before))
    return false;
  if (!pass.source.defined()) return true;
  bool any = false;
  for (size_t b = 0; b < pass.blocks.size(); ++b) {
    if (pass.divided && static_cast<int>(b) == rank_) continue;
    const Piece& block = pass.blocks[b];
    const int64_t bytes = std::clamp<int64_t>(block.bytes - offset, 0, pitch);
    if (bytes == 0) continue;
    at::Tensor host = slot(rank_, round, static_cast<int64_t>(b) * pitch, bytes);
    const c10::StreamGuard guard(*to_host_);
    host.copy_(pass.source.narrow(0, block.begin + offset, bytes), /*non_blocking=*/true);
    any = true;
  }
  if (any) written_[round % SharedSegment::kSlots].emplace(c10::DeviceType::PrivateUse1).record(*to_host_);
  return true;
}

// The memory of what a source sent of a group, from byte `begin` of the group on.
at::Tensor SharedExchange::staged(int64_t place, size_t source, int64_t begin, int64_t bytes) const {
  const at::Tensor& memory = places_[static_cast<size_t>(place)].memory;
  return memory.narrow(0, static_cast<int64_t>(source) * group_bytes_ + begin, bytes);
}

// Waits for the others' part of this round and records what reads it.
void SharedExchange::read(const Pass& pass, const Group& group, int64_t offset, int64_t pitch) {
  Reading reading{round_, std::nullopt};
  for (size_t i = 0; i < pass.sources.size(); ++i) {
    const int rank = pass.sources[i];
    const Header& theirs = segment_->wait_written(rank, round_, deadline_);
    TORCH_CHECK_WITH(DistBackendError, theirs == header_, "rank ", rank, " called ", text(theirs), ", this rank ",
                     text(header_));
    const Piece& piece = pass.pieces[pass.op ? 0 : static_cast<size_t>(rank)];
    const int64_t bytes = std::clamp<int64_t>(piece.bytes - offset, 0, pitch);
    if (bytes == 0) continue;
    reading.done.emplace(c10::DeviceType::PrivateUse1);
    if (pass.op && group.place < 0) continue;  // read where it is
    const at::Tensor to = pass.op ? staged(group.place, i, offset - group.begin, bytes)
                                  : pass.into.narrow(0, piece.begin + offset, bytes);
    const c10::StreamGuard guard(*to_device_);
    to.copy_(slot(rank, round_, pass.divided ? rank_ * pitch : 0, bytes), /*non_blocking=*/true);
  }
  if (reading.done && beside_) reading.done->record(*to_device_);
  reading_.push_back(std::move(reading));
}

void SharedExchange::settle(const Pass& pass, bool all) {
  for (; !coming_.empty(); coming_.pop_front()) {
    const Group& group = coming_.front();
    if (group.come && !group.come->query()) {
      if (!all) return;
      wait_for(*group.come);
    }
    sum_up(pass, group);
  }
}

void SharedExchange::sum_up(const Pass& pass, const Group& group) {
  const int64_t bytes = group.end - group.begin;
  const auto typed = [&](const at::Tensor& t, int64_t begin) { return t.narrow(0, begin, bytes).view(pass.dtype); };
  const at::Tensor out = typed(pass.into, pass.pieces[0].begin + group.begin), own = typed(pass.own, group.begin);
  const auto part = [&](int rank) {
    if (rank == rank_) return own;
    if (group.place >= 0)
      return typed(staged(group.place, static_cast<size_t>(rank < rank_ ? rank : rank - 1), 0, bytes), 0);
    return typed(slot_on_device(rank, group.round, pass.divided ? rank_ * group_bytes_ : 0, bytes), 0);
  };
  // `out` may be `own`: it is not written before that was read.
  at::Tensor sum = part(0);
  for (int rank = 1; rank < ranks_; ++rank) {
    const at::Tensor to = rank_ == 0 || rank == ranks_ - 1 ? out : typed(sum_, 0);
    reduce(to, sum, part(rank), *pass.op);
    sum = to;
  }
  if (group.place < 0) return;
  Place& place = places_[static_cast<size_t>(group.place)];
  place.memory.record_stream(*stream_);
  place.summed.emplace(c10::DeviceType::PrivateUse1).record(*stream_);
}

void SharedExchange::retire(uint32_t until) {
  while (!reading_.empty()) {
    const Reading& oldest = reading_.front();
    if (oldest.done && !oldest.done->query()) {
      if (static_cast<int32_t>(oldest.round - until) >= 0) return;
      wait_for(*oldest.done);
    }
    segment_->let_go(oldest.round);
    reading_.pop_front();
  }
}

}  // namespace aule::distributed
