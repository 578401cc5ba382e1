// Memory that the ranks of one host share: for each rank a ring of slots that it alone writes, how far it has come, and
// whether it is still there. POSIX shared memory and futexes: Linux.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace aule::distributed {

// The collective that a rank has called. It stands beside what the rank writes, and the others compare it with theirs.
struct Header {
  uint32_t kind = 0, op = 0, dtype = 0, root = 0;
  uint64_t bytes = 0;
  bool operator==(const Header&) const = default;
};

class SharedSegment {
 public:
  static constexpr uint32_t kSlots = 4;
  using Deadline = std::chrono::steady_clock::time_point;

  // Both return null where the system or its room for shared memory will not do. Rank 0 creates, the others open.
  static std::shared_ptr<SharedSegment> create(int ranks);
  static std::shared_ptr<SharedSegment> open(const std::string& name, int rank, int ranks);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  const std::string& name() const { return name_; }
  void unlink();   // when all have opened it: it then goes with the last of them, however that ends
  void reserve();  // room for all slots; throws where there is none (any more)

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int64_t slot_bytes() const { return slot_bytes_; }
  std::byte* slots() const { return base_ + slots_begin(ranks_); }  // of all ranks, one after another
  int64_t slots_bytes() const { return slot_bytes_ * kSlots * ranks_; }
  std::byte* slot(int rank, uint32_t round) const {
    return slots() + (static_cast<int64_t>(rank) * kSlots + round % kSlots) * slot_bytes_;
  }

  // Rounds are numbered from 0 on and count through all collectives. A rank writes one into its slot, the others read
  // it, and the slot may be written again when all have.
  void publish(uint32_t round, const Header& header);  // this rank has written it
  void let_go(uint32_t round);                         // this rank has read all that it reads of it
  bool was_read(uint32_t round) const;                 // by all the others
  void wait_read(uint32_t round, Deadline deadline);   // throws if that will not be
  const Header& wait_written(int rank, uint32_t round, Deadline deadline);  // the same

  void leave() noexcept;  // this rank comes no more: whoever waits for it throws
  void abort() noexcept;  // whoever waits in this process throws

 private:
  struct Rank;
  SharedSegment(int fd, std::string name, int rank, int ranks, int64_t slot_bytes, std::byte* base);
  static int64_t slots_begin(int ranks);
  Rank& state(int rank) const;
  void wait(int rank, std::atomic<uint32_t>& rounds, uint32_t needed, Deadline deadline);
  bool is_gone(int rank) const;
  int64_t total_bytes() const { return slots_begin(ranks_) + slots_bytes(); }

  const int fd_, rank_, ranks_;
  const int process_;  // a fork must not speak for it
  const std::string name_;
  const int64_t slot_bytes_;
  std::byte* const base_;
  std::atomic<bool> aborted_ = false;
  bool linked_ = false;
};

}  // namespace aule::distributed
