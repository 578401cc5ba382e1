#include "distributed/segment.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <climits>
#include <random>

#include "core/environment.h"
#include "core/integer.h"

#ifdef __linux__
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace aule::distributed {
namespace {

constexpr uint64_t kMagic = 0x61756c6573686d31;
constexpr int64_t kPage = 64 << 10;  // a multiple of every page and of what drivers ask of imported memory
constexpr int64_t kLeastSlot = 256 << 10, kMost = 64 << 20;
constexpr int kMostRanks = 64;  // each reads what the others write
constexpr int kYields = 64;     // before a waiting thread sleeps
constexpr auto kLookAround = std::chrono::milliseconds(50);

// Whether that many rounds are over. Differences, because the numbers may pass the end of their type.
bool reached(const std::atomic<uint32_t>& rounds, uint32_t needed) {
  return static_cast<int32_t>(rounds.load(std::memory_order_acquire) - needed) >= 0;
}

}  // namespace

struct alignas(128) SharedSegment::Rank {
  std::atomic<uint32_t> written, read;  // rounds
  std::atomic<uint32_t> left;
  Header headers[kSlots];
};

int64_t SharedSegment::slots_begin(int ranks) {
  return round_up(static_cast<int64_t>(sizeof(Rank)) * (ranks + 1), kPage);  // the first place has the magic number
}

SharedSegment::Rank& SharedSegment::state(int rank) const { return reinterpret_cast<Rank*>(base_)[rank + 1]; }

#ifdef __linux__
namespace {

std::byte* map(int fd, int64_t bytes) {
  void* base = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

// A lock that the system takes away when the last process that has this file open ends: a sign of life.
bool lock(int fd, int rank, bool only_ask) {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = rank;
  range.l_len = 1;
  if (fcntl(fd, only_ask ? F_OFD_GETLK : F_OFD_SETLK, &range) != 0) return false;
  return !only_ask || range.l_type != F_UNLCK;
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds longest) {
  const timespec time{longest.count() / 1'000'000'000, longest.count() % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A share of what is free, so that groups which come later find some, too. 0: too little.
int64_t slot_bytes_for(int fd, int ranks) {
  struct statvfs room{};
  if (fstatvfs(fd, &room) != 0) return 0;
  const auto free = static_cast<int64_t>(room.f_bavail) * static_cast<int64_t>(room.f_frsize);
  const auto most = static_cast<int64_t>(environment().shm_slot_kib) << 10;
  for (int64_t slot = round_up(most, kPage); slot >= std::min(most, kLeastSlot); slot = slot / 2 / kPage * kPage)
    if (slot * SharedSegment::kSlots * ranks <= std::min(kMost, free / 2)) return slot;
  return 0;
}

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create(int ranks) {
  if (environment().disabled.shm || ranks > kMostRanks) return nullptr;
  std::random_device random;
  const std::string name = "/torch_aule_" + std::to_string(getpid()) + "_" + std::to_string(random());
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return nullptr;
  const int64_t slot = slot_bytes_for(fd, ranks);
  const int64_t begin = slots_begin(ranks), bytes = begin + slot * kSlots * ranks;
  const bool made = slot != 0 && ftruncate(fd, bytes) == 0 && posix_fallocate(fd, 0, begin) == 0 && lock(fd, 0, false);
  std::byte* base = made ? map(fd, bytes) : nullptr;
  if (base == nullptr) {
    shm_unlink(name.c_str());
    ::close(fd);
    return nullptr;
  }
  reinterpret_cast<std::atomic<uint64_t>*>(base)->store(kMagic + static_cast<uint64_t>(ranks));
  auto segment = std::shared_ptr<SharedSegment>(new SharedSegment(fd, name, 0, ranks, slot, base));
  segment->linked_ = true;
  return segment;
}

std::shared_ptr<SharedSegment> SharedSegment::open(const std::string& name, int rank, int ranks) {
  if (environment().disabled.shm) return nullptr;
  const int fd = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return nullptr;  // another host's, or another container's
  struct stat status{};
  const int64_t begin = slots_begin(ranks);
  std::byte* base = nullptr;
  if (fstat(fd, &status) == 0 && status.st_size > begin && lock(fd, rank, false)) base = map(fd, status.st_size);
  if (base != nullptr &&
      reinterpret_cast<std::atomic<uint64_t>*>(base)->load() != kMagic + static_cast<uint64_t>(ranks)) {
    munmap(base, static_cast<size_t>(status.st_size));
    base = nullptr;
  }
  if (base == nullptr) {
    ::close(fd);
    return nullptr;
  }
  const int64_t slot = (status.st_size - begin) / (static_cast<int64_t>(kSlots) * ranks);
  return std::shared_ptr<SharedSegment>(new SharedSegment(fd, name, rank, ranks, slot, base));
}

SharedSegment::SharedSegment(int fd, std::string name, int rank, int ranks, int64_t slot_bytes, std::byte* base)
    : fd_(fd),
      rank_(rank),
      ranks_(ranks),
      process_(getpid()),
      name_(std::move(name)),
      slot_bytes_(slot_bytes),
      base_(base) {}

SharedSegment::~SharedSegment() {
  if (getpid() == process_) {
    leave();
    unlink();
  }
  munmap(base_, static_cast<size_t>(total_bytes()));
  ::close(fd_);
}

void SharedSegment::unlink() {
  if (std::exchange(linked_, false)) shm_unlink(name_.c_str());
}

void SharedSegment::reserve() {
  const int error = posix_fallocate(fd_, 0, total_bytes());
  TORCH_CHECK_WITH(DistBackendError, error == 0, "no room for ", total_bytes() >> 20, " MiB of shared memory (errno ",
                   error, "): give /dev/shm more (docker run --shm-size), or set TORCH_AULE_DISABLE=shm");
}

void SharedSegment::publish(uint32_t round, const Header& header) {
  Rank& mine = state(rank_);
  mine.headers[round % kSlots] = header;
  mine.written.store(round + 1, std::memory_order_release);
  futex_wake(mine.written);
}

void SharedSegment::let_go(uint32_t round) {
  Rank& mine = state(rank_);
  mine.read.store(round + 1, std::memory_order_release);
  futex_wake(mine.read);
}

void SharedSegment::leave() noexcept {
  if (getpid() != process_) return;
  Rank& mine = state(rank_);
  mine.left.store(1, std::memory_order_release);
  futex_wake(mine.written);
  futex_wake(mine.read);
}

void SharedSegment::abort() noexcept {
  if (getpid() != process_) return;
  aborted_ = true;
  for (int rank = 0; rank < ranks_; ++rank) {
    futex_wake(state(rank).written);
    futex_wake(state(rank).read);
  }
}

bool SharedSegment::is_gone(int rank) const { return !lock(fd_, rank, true); }

void SharedSegment::wait(int rank, std::atomic<uint32_t>& rounds, uint32_t needed, Deadline deadline) {
  for (int i = 0; i < kYields; ++i) {
    if (reached(rounds, needed)) return;
    sched_yield();
  }
  const auto begin = std::chrono::steady_clock::now();
  auto looked = begin;
  for (;;) {
    const uint32_t seen = rounds.load(std::memory_order_acquire);
    if (reached(rounds, needed)) return;
    TORCH_CHECK_WITH(DistBackendError, !aborted_, "it was aborted");
    const auto now = std::chrono::steady_clock::now();
    const bool left = state(rank).left.load(std::memory_order_acquire) != 0;
    const bool gone = !left && now - looked >= kLookAround && is_gone(rank);
    if (left || gone) {
      if (reached(rounds, needed)) return;  // it may have done its part before it went
      TORCH_CHECK_WITH(DistBackendError, !left, "rank ", rank, " has failed or left the group");
      TORCH_CHECK_WITH(DistBackendError, false, "the process of rank ", rank, " has ended");
    }
    if (now - looked >= kLookAround) looked = now;
    TORCH_CHECK_WITH(DistBackendError, now < deadline, "rank ", rank, " did not come within ",
                     std::chrono::duration_cast<std::chrono::milliseconds>(now - begin).count(),
                     " ms, the group's timeout");
    futex_wait(rounds, seen, std::min<std::chrono::nanoseconds>(kLookAround, deadline - now));
  }
}
#else
std::shared_ptr<SharedSegment> SharedSegment::create(int) { return nullptr; }
std::shared_ptr<SharedSegment> SharedSegment::open(const std::string&, int, int) { return nullptr; }
SharedSegment::~SharedSegment() = default;
void SharedSegment::unlink() {}
void SharedSegment::reserve() {}
void SharedSegment::publish(uint32_t, const Header&) {}
void SharedSegment::let_go(uint32_t) {}
void SharedSegment::leave() noexcept {}
void SharedSegment::abort() noexcept {}
void SharedSegment::wait(int, std::atomic<uint32_t>&, uint32_t, Deadline) {}
#endif

bool SharedSegment::was_read(uint32_t round) const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank != rank_ && !reached(state(rank).read, round + 1)) return false;
  return true;
}

void SharedSegment::wait_read(uint32_t round, Deadline deadline) {
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank != rank_) wait(rank, state(rank).read, round + 1, deadline);
}

const Header& SharedSegment::wait_written(int rank, uint32_t round, Deadline deadline) {
  wait(rank, state(rank).written, round + 1, deadline);
  return state(rank).headers[round % kSlots];
}

}  // namespace aule::distributed
