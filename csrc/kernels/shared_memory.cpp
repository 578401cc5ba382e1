#include "kernels/shared_memory.h"
#include "core/integer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace aule::kernels {
namespace {

// Instructions of the SPIR-V specification, section 3.42.
// clang-format off
enum Op : uint32_t {
  kExecutionMode = 16, kExecutionModeId = 331, kConstantComposite = 44, kSpecConstantComposite = 51,
  kTypeBool = 20, kTypeInt = 21, kTypeFloat = 22, kTypeVector = 23, kTypeArray = 28, kTypeStruct = 30,
  kTypePointer = 32, kConstantTrue = 41, kConstantFalse = 42, kConstant = 43, kSpecConstantTrue = 48,
  kSpecConstantFalse = 49, kSpecConstant = 50, kSpecConstantOp = 52, kFunction = 54, kVariable = 59, kDecorate = 71,
  kNegate = 126, kAdd = 128, kSubtract = 130, kMultiply = 132, kDivideU = 134, kDivideS = 135, kModuloU = 137,
  kRemainderS = 138, kModuloS = 139, kLogicalEqual = 164, kLogicalNotEqual = 165, kOr = 166, kAnd = 167, kNot = 168,
  kSelect = 169, kEqual = 170, kNotEqual = 171, kGreaterU = 172, kGreaterS = 173, kAtLeastU = 174, kAtLeastS = 175,
  kLessU = 176, kLessS = 177, kAtMostU = 178, kAtMostS = 179, kShiftRightU = 194, kShiftRightS = 195, kShiftLeft = 196,
  kBitOr = 197, kBitXor = 198, kBitAnd = 199, kBitNot = 200,
};
// clang-format on
constexpr uint32_t kLiteral = 1u << 16, kGiven = kLiteral + 1;  // nodes that are no instruction
constexpr uint32_t kStorageWorkgroup = 4, kDecorationSpecId = 1, kDecorationBuiltIn = 11;
constexpr uint32_t kModeLocalSize = 17, kModeLocalSizeId = 38, kBuiltInWorkgroupSize = 25;

// The value, or nothing: division by zero, or an instruction that is not known.
std::optional<uint32_t> computed(uint32_t op, uint32_t a, uint32_t b) {
  const auto x = static_cast<int32_t>(a), y = static_cast<int32_t>(b);
  const bool overflows = y == -1 && x == std::numeric_limits<int32_t>::min();
  switch (op) {
    case kNegate: return 0u - a;
    case kAdd: return a + b;
    case kSubtract: return a - b;
    case kMultiply: return a * b;
    case kDivideU: return b == 0 ? std::nullopt : std::optional(a / b);
    case kDivideS: return y == 0 || overflows ? std::nullopt : std::optional(static_cast<uint32_t>(x / y));
    case kModuloU: return b == 0 ? std::nullopt : std::optional(a % b);
    case kRemainderS: return y == 0 || overflows ? std::nullopt : std::optional(static_cast<uint32_t>(x % y));
    case kModuloS:
      if (y == 0 || overflows) return std::nullopt;
      return static_cast<uint32_t>(x % y != 0 && (x < 0) != (y < 0) ? x % y + y : x % y);
    case kLogicalEqual:
    case kEqual: return a == b ? 1u : 0u;
    case kLogicalNotEqual:
    case kNotEqual: return a != b ? 1u : 0u;
    case kOr: return a != 0 || b != 0 ? 1u : 0u;
    case kAnd: return a != 0 && b != 0 ? 1u : 0u;
    case kNot: return a == 0 ? 1u : 0u;
    case kGreaterU: return a > b ? 1u : 0u;
    case kGreaterS: return x > y ? 1u : 0u;
    case kAtLeastU: return a >= b ? 1u : 0u;
    case kAtLeastS: return x >= y ? 1u : 0u;
    case kLessU: return a < b ? 1u : 0u;
    case kLessS: return x < y ? 1u : 0u;
    case kAtMostU: return a <= b ? 1u : 0u;
    case kAtMostS: return x <= y ? 1u : 0u;
    case kShiftRightU: return b < 32 ? a >> b : 0u;
    case kShiftRightS: return static_cast<uint32_t>(x >> std::min(b, 31u));
    case kShiftLeft: return b < 32 ? a << b : 0u;
    case kBitOr: return a | b;
    case kBitXor: return a ^ b;
    case kBitAnd: return a & b;
    case kBitNot: return ~a;
    default: return std::nullopt;
  }
}
bool is_known(uint32_t op) { return op == kSelect || computed(op, 1, 1).has_value(); }

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();  // a division by zero, and what is made of it

struct Type {
  uint64_t bytes = 0, align = 1;
  std::vector<uint32_t> lengths;  // ids of constants: of an array, the outermost first
};

}  // namespace

struct SharedMemoryReader {
  SharedMemory& out;
  std::unordered_map<uint32_t, std::vector<uint32_t>> constants;  // id -> {op, operands...}
  std::unordered_map<uint32_t, uint32_t> spec_ids, node_of;
  std::unordered_map<uint32_t, Type> types;
  std::unordered_map<uint32_t, uint32_t> pointees;  // of pointers to shared memory
  // The workgroup, as literals or ids; a constant with the decoration stands over the modes.
  std::vector<uint32_t> local_size, local_size_ids;
  uint32_t workgroup_constant = 0;

  [[noreturn]] static void refuse(const std::string& what) {
    throw std::invalid_argument("shared memory of a kernel: " + what);
  }

  uint32_t add(SharedMemory::Node node) {
    out.nodes_.push_back(node);
    return static_cast<uint32_t>(out.nodes_.size() - 1);
  }

  uint32_t node(uint32_t id) {
    if (const auto found = node_of.find(id); found != node_of.end()) return found->second;
    const auto constant = constants.find(id);
    if (constant == constants.end()) refuse("a length that is no constant of 32 bits");
    const std::vector<uint32_t>& c = constant->second;
    uint32_t result = 0;
    if (c[0] == kLiteral) {
      result = add({kLiteral, c[1], 0, 0});
    } else if (c[0] == kGiven) {
      const auto spec_id = spec_ids.find(id);
      if (spec_id == spec_ids.end())
        result = add({kLiteral, c[1], 0, 0});
      else
        result = add({kGiven, spec_id->second, c[1], 0});
    } else {
      if (!is_known(c[0]) || c.size() < 2 || c.size() > 4)
        refuse("a length made by instruction " + std::to_string(c[0]));
      const uint32_t a = node(c[1]), b = c.size() > 2 ? node(c[2]) : a, d = c.size() > 3 ? node(c[3]) : a;
      result = add({c[0], a, b, d});
    }
    return node_of[id] = result;
  }

  // The size of a scalar, a vector or a structure of them.
  const Type& plain(uint32_t id) const {
    const auto found = types.find(id);
    if (found == types.end() || found->second.bytes == 0) refuse("a type of unknown size");
    return found->second;
  }

  void type(uint32_t op, std::span<const uint32_t> w) {
    Type t;
    switch (op) {
      case kTypeBool: t.bytes = t.align = 4; break;
      case kTypeInt:
      case kTypeFloat: t.bytes = t.align = w[2] / 8; break;
      case kTypeVector:
        if (!types.contains(w[2])) return;
        t.align = types[w[2]].align;
        t.bytes = types[w[2]].bytes * w[3];
        break;
      case kTypeArray:
        if (!types.contains(w[2])) return;
        t = types[w[2]];
        t.lengths.insert(t.lengths.begin(), w[3]);
        break;
      default:  // a structure
        for (const uint32_t member : w.subspan(2)) {
          const auto found = types.find(member);
          if (found == types.end() || !found->second.lengths.empty()) return;
          t.align = std::max(t.align, found->second.align);
          t.bytes = round_up(t.bytes, found->second.align);
          t.bytes += found->second.bytes;
        }
        t.bytes = round_up(t.bytes, t.align);
    }
    types[w[1]] = t;
  }

  void instruction(uint32_t op, std::span<const uint32_t> w) {
    switch (op) {
      case kExecutionMode:
        if (w[2] == kModeLocalSize) local_size.assign(w.begin() + 3, w.end());
        break;
      case kExecutionModeId:
        if (w[2] == kModeLocalSizeId) local_size_ids.assign(w.begin() + 3, w.end());
        break;
      case kDecorate:
        if (w[2] == kDecorationSpecId) spec_ids[w[1]] = w[3];
        if (w[2] == kDecorationBuiltIn && w[3] == kBuiltInWorkgroupSize) workgroup_constant = w[1];
        break;
      case kConstantComposite:
      case kSpecConstantComposite:
        if (w[2] == workgroup_constant) local_size_ids.assign(w.begin() + 3, w.end());
        break;
      case kTypeBool:
      case kTypeInt:
      case kTypeFloat:
      case kTypeVector:
      case kTypeArray:
      case kTypeStruct: type(op, w); break;
      case kTypePointer:
        if (w[2] == kStorageWorkgroup) pointees[w[1]] = w[3];
        break;
      case kConstantTrue: constants[w[2]] = {kLiteral, 1}; break;
      case kConstantFalse: constants[w[2]] = {kLiteral, 0}; break;
      case kConstant:
        if (w.size() == 4) constants[w[2]] = {kLiteral, w[3]};
        break;
      case kSpecConstantTrue: constants[w[2]] = {kGiven, 1}; break;
      case kSpecConstantFalse: constants[w[2]] = {kGiven, 0}; break;
      case kSpecConstant:
        if (w.size() == 4) constants[w[2]] = {kGiven, w[3]};
        break;
      case kSpecConstantOp: constants[w[2]].assign(w.begin() + 3, w.end()); break;
      case kVariable:
        if (const auto pointee = pointees.find(w[1]); pointee != pointees.end()) {
          const Type& t = plain(pointee->second);
          SharedMemory::Variable variable{t.bytes, {}};
          for (const uint32_t length : t.lengths) variable.lengths.push_back(node(length));
          out.variables_.push_back(std::move(variable));
        }
        break;
      default: break;
    }
  }

  void workgroup() {
    for (size_t axis = 0; axis < 3; ++axis) {
      if (local_size_ids.size() == 3)
        out.workgroup_[axis] = node(local_size_ids[axis]);
      else
        out.workgroup_[axis] = add({kLiteral, axis < local_size.size() ? local_size[axis] : 1, 0, 0});
    }
  }
};

SharedMemory::SharedMemory(std::span<const uint32_t> spirv) {
  SharedMemoryReader reader{*this, {}, {}, {}, {}, {}, {}, {}};
  for (size_t at = 5; at < spirv.size();) {
    const uint32_t op = spirv[at] & 0xffffu, length = spirv[at] >> 16;
    if (length == 0 || at + length > spirv.size()) SharedMemoryReader::refuse("this is no SPIR-V");
    if (op == kFunction) break;
    reader.instruction(op, spirv.subspan(at, length));
    at += length;
  }
  reader.workgroup();
}

std::vector<uint64_t> SharedMemory::values(std::span<const uint32_t> constants) const {
  std::vector<uint64_t> values(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& n = nodes_[i];
    if (n.op == kLiteral) {
      values[i] = n.a;
    } else if (n.op == kGiven) {
      values[i] = n.a < constants.size() ? constants[n.a] : n.b;
    } else if (n.op == kSelect) {
      values[i] = values[n.a] == kNone ? kNone : values[n.a] != 0 ? values[n.b] : values[n.c];
    } else if (values[n.a] == kNone || values[n.b] == kNone) {
      values[i] = kNone;
    } else {
      const auto value = computed(n.op, static_cast<uint32_t>(values[n.a]), static_cast<uint32_t>(values[n.b]));
      values[i] = value ? uint64_t{*value} : kNone;
    }
  }
  return values;
}

std::array<uint64_t, 3> SharedMemory::workgroup(std::span<const uint32_t> constants) const {
  const std::vector<uint64_t> all = values(constants);
  return {all[workgroup_[0]], all[workgroup_[1]], all[workgroup_[2]]};
}

uint64_t SharedMemory::bytes(std::span<const uint32_t> constants) const {
  const std::vector<uint64_t> values = this->values(constants);
  uint64_t total = 0;
  for (const Variable& v : variables_) {
    uint64_t bytes = v.element_bytes;
    for (const uint32_t length : v.lengths) {
      if (values[length] > uint32_t{1} << 30) return kNone;  // below zero, too
      bytes = std::min(bytes * values[length], uint64_t{1} << 40);
    }
    total += round_up(bytes, 16);
  }
  return total;
}

}  // namespace aule::kernels
