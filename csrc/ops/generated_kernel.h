// A kernel of generated code: its arguments are the members of the shader's Params in their order, and how each is
// given is fixed by one letter when the kernel is made. A launch does little more than to copy them into the block.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/fixed_kernel.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

class GeneratedKernel {
 public:
  enum class Type : uint8_t { i32, u32, i64, u64, f32, f64 };
  struct Member {
    std::string name;
    uint32_t offset;
    Type type;
    // r, w, m: a tensor that is read, written, both. h: the value of a 0-dim CPU tensor or a number. i, u, l, f, d: a
    // number of int32, uint32, int64, float, double.
    char kind;
    bool is_tensor() const { return kind == 'r' || kind == 'w' || kind == 'm'; }
    bool is_real() const { return type == Type::f32 || type == Type::f64; }
  };
  struct MemberRow {  // as reflection has it
    std::string name, type;
    uint32_t offset;
  };

  // `signature` has the letter of each member. Features are named as in core/capabilities.def.
  GeneratedKernel(std::string name, std::vector<uint32_t> spirv, const std::vector<std::string>& features,
                  uint32_t params_bytes, bool params_ring, const std::string& signature,
                  const std::vector<MemberRow>& members, std::vector<uint32_t> constants);

  const std::string& name() const { return name_; }
  const std::string& signature() const { return signature_; }
  KernelId id() const { return kernel_->id(); }
  uint64_t shared_bytes() const { return kernel_->shared_bytes(); }
  const std::vector<Member>& members() const { return members_; }
  void prepare(int device) const { kernel_->prepare(current(device)); }

  // The arguments of one launch. Each member is put once.
  class Call {
   public:
    explicit Call(const GeneratedKernel& kernel);
    void tensor(const Member& member, const at::Tensor& t);
    void host(const Member& member, const at::Tensor& t);
    void integer(const Member& member, int64_t value);
    void real(const Member& member, double value);
    // On the current stream of the tensors' device. Needs none of the tensors any more, nor Python's lock.
    void launch(uint64_t groups) const;

   private:
    template <class T>
    void put(const Member& member, T value);
    void out_of_range(const Member& member, double value) const;

    const GeneratedKernel& kernel_;
    int device_ = -1;
    TensorArgs args_;
    alignas(8) std::array<unsigned char, 256> inline_;
    std::vector<unsigned char> large_;
    unsigned char* block_;  // one of the two
  };

 private:
  std::string name_, signature_;
  uint32_t params_bytes_;
  std::vector<Member> members_;
  std::unique_ptr<const FixedKernel> kernel_;
};

}  // namespace aule::ops
