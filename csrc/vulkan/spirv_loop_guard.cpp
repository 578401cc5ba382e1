#include "vulkan/spirv_loop_guard.h"

#include <initializer_list>
#include <iterator>

namespace aule::vulkan {
namespace {

// The SPIR-V specification, sections 2.3 and 3.
constexpr uint32_t kMagic = 0x07230203, kHeaderWords = 5, kVersionWord = 1, kBoundWord = 3, kVersion14 = 0x00010400;
constexpr uint32_t kAddresses = 5347;               // capability PhysicalStorageBufferAddresses
constexpr uint32_t kUniform = 2, kPhysical = 5349;  // storage classes
constexpr uint32_t kDontUnroll = 2, kAligned = 2;
constexpr uint32_t kBlock = 2, kBinding = 33, kDescriptorSet = 34, kOffset = 35;  // decorations
enum Op : uint32_t {
  kOpEntryPoint = 15,
  kOpExecutionMode = 16,
  kOpCapability = 17,
  kOpTypeBool = 20,
  kOpTypeInt = 21,
  kOpTypeStruct = 30,
  kOpTypePointer = 32,
  kOpConstant = 43,
  kOpFunction = 54,
  kOpFunctionEnd = 56,
  kOpFunctionCall = 57,
  kOpVariable = 59,
  kOpLoad = 61,
  kOpStore = 62,
  kOpAccessChain = 65,
  kOpDecorate = 71,
  kOpMemberDecorate = 72,
  kOpIAdd = 128,
  kOpIMul = 132,
  kOpINotEqual = 171,
  kOpULessThan = 176,
  kOpPhi = 245,
  kOpLoopMerge = 246,
  kOpSelectionMerge = 247,
  kOpLabel = 248,
  kOpBranch = 249,
  kOpBranchConditional = 250,
  kOpKill = 252,
  kOpReturn = 253,
  kOpExecutionModeId = 331,
  kOpTerminateInvocation = 4416,
};
enum Member : uint32_t { kRecord, kTurns, kSeed, kExpected };  // of LoopGuardBuffer

struct Instruction {
  const uint32_t* at;
  uint32_t length, op;
};

class Rewriter {
 public:
  Rewriter(const uint32_t* words, size_t count, uint32_t kernel) : words_(words), count_(count), kernel_(kernel) {}

  GuardedModule run() {
    GuardedModule result;
    result.not_understood = read();
    result.loops = loops_;
    if (loops_ == 0) result.not_understood.clear();  // there is no loop to guard
    if (loops_ == 0 || !result.not_understood.empty()) return result;
    rewrite();
    result.words = std::move(out_);
    return result;
  }

 private:
  // Finds the ids that the canary is built of. Returns the reason if it cannot.
  std::string read() {
    if (count_ < kHeaderWords || words_[0] != kMagic) return "no SPIR-V";
    bound_ = words_[kBoundWord];
    bool addresses = false;
    uint32_t entries = 0;
    std::string wrong;
    for (size_t at = kHeaderWords; at < count_;) {
      const Instruction in{words_ + at, words_[at] >> 16, words_[at] & 0xffffu};
      if (in.length == 0 || at + in.length > count_) return "an instruction that ends past the module";
      at += in.length;
      all_.push_back(in);
      switch (in.op) {
        case kOpCapability: addresses |= in.at[1] == kAddresses; break;
        case kOpEntryPoint: ++entries, main_ = in.at[2]; break;
        case kOpTypeBool: bool_ = in.at[1]; break;
        case kOpTypeInt:
          if (in.at[2] == 32 && in.at[3] == 0) uint_ = in.at[1];
          break;
        case kOpTypePointer:
          if (in.at[3] == uint_ && in.at[2] == kUniform) uniform_uint_ = in.at[1];
          if (in.at[3] == uint_ && in.at[2] == kPhysical) physical_uint_ = in.at[1];
          break;
        case kOpDecorate:
          if (in.at[2] == kDescriptorSet) wrong = "it has descriptor sets of its own";
          [[fallthrough]];
        case kOpMemberDecorate: last_decoration_ = all_.size() - 1; break;
        case kOpFunction:
          if (first_function_ == 0) first_function_ = all_.size() - 1;
          if (in.at[2] == main_) void_ = in.at[1], function_type_ = in.at[4];
          break;
        case kOpLoopMerge: ++loops_; break;
        case kOpKill:
        case kOpTerminateInvocation: wrong = "it ends invocations before the end of main()"; break;
        default: break;
      }
    }
    if (entries != 1) return "not one entry point";
    if (!addresses || uint_ == 0 || bool_ == 0 || void_ == 0 || last_decoration_ == 0)
      return "no 64-bit addresses, uint, bool, decorations or main()";
    return wrong;
  }

  uint32_t fresh() { return bound_++; }
  void emit(uint32_t op, std::initializer_list<uint32_t> operands) {
    out_.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | op);
    out_.insert(out_.end(), operands);
  }
  uint32_t constant(uint32_t value) {
    const uint32_t id = fresh();
    emit(kOpConstant, {uint_, id, value});
    return id;
  }

  void rewrite() {
    guarded_main_ = fresh();
    record_type_ = fresh();
    buffer_type_ = fresh();
    buffer_ = fresh();
    out_.reserve(count_ + 256);
    out_.assign(words_, words_ + kHeaderWords);
    for (size_t i = 0; i < all_.size(); ++i) {
      const Instruction& in = all_[i];
      if (i == first_function_) globals();
      const size_t copy = out_.size();
      out_.insert(out_.end(), in.at, in.at + in.length);
      if (in.op == kOpEntryPoint) {
        out_[copy + 2] = guarded_main_;
        if (words_[kVersionWord] >= kVersion14) {  // from SPIR-V 1.4 on it lists every global variable
          out_[copy] += 1u << 16;
          out_.push_back(buffer_);
        }
      }
      if ((in.op == kOpExecutionMode || in.op == kOpExecutionModeId) && in.at[1] == main_)
        out_[copy + 1] = guarded_main_;
      if (i == last_decoration_) decorations();
    }
    function();
    out_[kBoundWord] = bound_;
  }

  void decorations() {
    emit(kOpDecorate, {record_type_, kBlock});
    emit(kOpMemberDecorate, {record_type_, 0, kOffset, 0});
    emit(kOpDecorate, {buffer_type_, kBlock});
    constexpr uint32_t kOffsets[] = {offsetof(LoopGuardBuffer, record), offsetof(LoopGuardBuffer, turns),
                                     offsetof(LoopGuardBuffer, seed), offsetof(LoopGuardBuffer, expected)};
    for (uint32_t i = 0; i < std::size(kOffsets); ++i) emit(kOpMemberDecorate, {buffer_type_, i, kOffset, kOffsets[i]});
    emit(kOpDecorate, {buffer_, kDescriptorSet, 0});
    emit(kOpDecorate, {buffer_, kBinding, 0});
  }

  void globals() {
    for (uint32_t i = 0; i < std::size(numbers_); ++i) numbers_[i] = constant(i);
    factor_ = constant(LoopGuardBuffer::kFactor);
    term_ = constant(LoopGuardBuffer::kTerm);
    kernel_id_ = constant(kernel_);
    if (uniform_uint_ == 0) emit(kOpTypePointer, {uniform_uint_ = fresh(), kUniform, uint_});
    if (physical_uint_ == 0) emit(kOpTypePointer, {physical_uint_ = fresh(), kPhysical, uint_});
    emit(kOpTypeStruct, {record_type_, uint_});
    emit(kOpTypePointer, {record_pointer_ = fresh(), kPhysical, record_type_});
    emit(kOpTypeStruct, {buffer_type_, record_pointer_, uint_, uint_, uint_});
    emit(kOpTypePointer, {uniform_record_ = fresh(), kUniform, record_pointer_});
    const uint32_t buffer_pointer = fresh();
    emit(kOpTypePointer, {buffer_pointer, kUniform, buffer_type_});
    emit(kOpVariable, {buffer_pointer, buffer_, kUniform});
  }

  uint32_t load(Member member) {
    const uint32_t at = fresh(), value = fresh();
    emit(kOpAccessChain, {member == kRecord ? uniform_record_ : uniform_uint_, at, buffer_, numbers_[member]});
    emit(kOpLoad, {member == kRecord ? record_pointer_ : uint_, value, at});
    return value;
  }

  //   main(); for (i = 0, state = seed; i < turns; ++i) state = step(state); if (state != expected) *record = kernel;
  void function() {
    const uint32_t entry = fresh(), header = fresh(), test = fresh(), body = fresh(), next = fresh(), after = fresh(),
                   report = fresh(), end = fresh();
    emit(kOpFunction, {void_, guarded_main_, 0, function_type_});
    emit(kOpLabel, {entry});
    emit(kOpFunctionCall, {void_, fresh(), main_});
    const uint32_t turns = load(kTurns), seed = load(kSeed), expected = load(kExpected);
    emit(kOpBranch, {header});

    const uint32_t i = fresh(), i_next = fresh(), state = fresh(), product = fresh(), state_next = fresh(),
                   more = fresh(), cut = fresh();
    emit(kOpLabel, {header});
    emit(kOpPhi, {uint_, i, numbers_[0], entry, i_next, next});
    emit(kOpPhi, {uint_, state, seed, entry, state_next, next});
    emit(kOpLoopMerge, {after, next, kDontUnroll});
    emit(kOpBranch, {test});
    emit(kOpLabel, {test});
    emit(kOpULessThan, {bool_, more, i, turns});
    emit(kOpBranchConditional, {more, body, after});
    emit(kOpLabel, {body});
    emit(kOpIMul, {uint_, product, state, factor_});
    emit(kOpIAdd, {uint_, state_next, product, term_});
    emit(kOpBranch, {next});
    emit(kOpLabel, {next});
    emit(kOpIAdd, {uint_, i_next, i, numbers_[1]});
    emit(kOpBranch, {header});

    emit(kOpLabel, {after});
    emit(kOpINotEqual, {bool_, cut, state, expected});
    emit(kOpSelectionMerge, {end, 0});
    emit(kOpBranchConditional, {cut, report, end});
    emit(kOpLabel, {report});
    const uint32_t record = load(kRecord), word = fresh();
    emit(kOpAccessChain, {physical_uint_, word, record, numbers_[0]});
    emit(kOpStore, {word, kernel_id_, kAligned, 4});
    emit(kOpBranch, {end});
    emit(kOpLabel, {end});
    emit(kOpReturn, {});
    emit(kOpFunctionEnd, {});
  }

  const uint32_t* words_;
  const size_t count_;
  const uint32_t kernel_;
  std::vector<Instruction> all_;
  std::vector<uint32_t> out_;
  uint32_t bound_ = 0, loops_ = 0;
  size_t first_function_ = 0, last_decoration_ = 0;  // indices in all_
  // ids
  uint32_t main_ = 0, guarded_main_ = 0, void_ = 0, function_type_ = 0, bool_ = 0, uint_ = 0;
  uint32_t uniform_uint_ = 0, physical_uint_ = 0, uniform_record_ = 0, record_type_ = 0, record_pointer_ = 0;
  uint32_t buffer_type_ = 0, buffer_ = 0, factor_ = 0, term_ = 0, kernel_id_ = 0;
  uint32_t numbers_[4] = {};  // the constants 0 to 3
};

}  // namespace

GuardedModule guard_loops(const uint32_t* words, size_t word_count, uint32_t kernel) {
  return Rewriter(words, word_count, kernel).run();
}

uint32_t kernel_hash(const std::string& label) {
  uint32_t h = 2166136261u;  // FNV-1a
  for (unsigned char c : label) h = (h ^ c) * 16777619u;
  return h != 0 ? h : 1;
}

}  // namespace aule::vulkan
