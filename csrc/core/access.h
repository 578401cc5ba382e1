// A command's accesses, its arithmetic, and its number of workgroups.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/integer.h"

namespace aule {

struct Access {
  uint64_t begin, end;  // device addresses, end exclusive
  bool write;
};

// A command's arithmetic, which a trace tells beside its bytes, where its planner knows it.
struct Work {
  double flops = 0;              // a multiplication and an addition are two
  DType dtype = DType::f32;      // of what is multiplied
  const char* source = nullptr;  // the file of generated code that it is from; recording copies it
};

class Args {
 public:
  Work work;
  uint64_t read(uint64_t address, uint64_t bytes) { return add(address, bytes, false); }
  uint64_t write(uint64_t address, uint64_t bytes) { return add(address, bytes, true); }
  uint64_t read_write(uint64_t address, uint64_t bytes) { return add(address, bytes, true); }
  const Access* data() const { return overflow_.empty() ? inline_.data() : overflow_.data(); }
  size_t size() const { return count_; }

 private:
  uint64_t add(uint64_t address, uint64_t bytes, bool is_write) {
    if (bytes == 0) return address;
    Access access{address, address + bytes, is_write};
    if (count_ < inline_.size()) {
      inline_[count_] = access;
    } else {
      if (overflow_.empty()) overflow_.assign(inline_.begin(), inline_.end());
      overflow_.push_back(access);
    }
    ++count_;
    return address;
  }
  std::array<Access, 8> inline_;
  std::vector<Access> overflow_;
  size_t count_ = 0;
};

// x * y * z workgroups, and `tail` more of them in a row of their own at y.
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t tail = 0;
  uint64_t groups() const { return uint64_t{x} * y * z + tail; }
};

// Exactly `groups` workgroups, as rows that are under the device's limit of 65535. The shader's linear id is
// gl_WorkGroupID.y * 32768 + gl_WorkGroupID.x (linear_group() in common/indexing.glsl). Where the last row is shorter,
// it is a dispatch of its own, so that no kernel meets a workgroup past the last one.
inline Grid linear_grid(uint64_t groups) {
  constexpr uint64_t kRow = 32768;
  if (groups <= kRow) return Grid{static_cast<uint32_t>(groups), 1, 1};
  return Grid{static_cast<uint32_t>(kRow), static_cast<uint32_t>(groups / kRow), 1,
              static_cast<uint32_t>(groups % kRow)};
}

}  // namespace aule
