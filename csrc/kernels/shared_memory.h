// Shared memory that a kernel declares, and its workgroup, as functions of its specialization constants, read from its
// SPIR-V.
//
// Planners choose by it, and launch refuses what is more than the device has: not every driver does, one hangs.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace aule::kernels {

class SharedMemory {
 public:
  // Throws std::invalid_argument for a length that is made in a way this does not know.
  explicit SharedMemory(std::span<const uint32_t> spirv);
  // Each variable counts as a multiple of 16 bytes, as drivers place them. Constants that are not given have their
  // defaults. UINT64_MAX: a length divides by zero.
  uint64_t bytes(std::span<const uint32_t> constants) const;
  // Invocations of a workgroup, along each axis.
  std::array<uint64_t, 3> workgroup(std::span<const uint32_t> constants) const;

 private:
  std::vector<uint64_t> values(std::span<const uint32_t> constants) const;
  friend struct SharedMemoryReader;
  struct Node {
    uint32_t op;       // literal, given constant, or an instruction of OpSpecConstantOp
    uint32_t a, b, c;  // literal: value; given: constant_id, default; else nodes
  };
  struct Variable {
    uint64_t element_bytes;
    std::vector<uint32_t> lengths;  // nodes
  };
  std::vector<Node> nodes_;  // operands stand before what is made of them
  std::vector<Variable> variables_;
  std::array<uint32_t, 3> workgroup_{};  // nodes
};

}  // namespace aule::kernels
