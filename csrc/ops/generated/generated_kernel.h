// A kernel of generated code: its arguments are the members of the shader's Params in their order, and how each is
// given is fixed by one letter when the kernel is made. A launch does little more than to copy them into the block.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/fixed_kernel.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::kernels {
class HeldKernel;
}

namespace aule::ops {

class GeneratedKernel {
 public:
  enum class Type : uint8_t { i32, u32, i64, u64, f32, f64 };
  struct Member {
    std::string name;
    uint32_t offset;
    Type type;
    // r, w, m: a tensor that is read, written, both. h: the value of a 0-dim CPU tensor or a number. i, u, l, f, d: a
    // number of int32, uint32, int64, float, double. Filled by the launch: e, the address of the device's error record,
    // t, the tag by which an error names the kernel, and n, an array whose element i is i.
    char kind;
    uint32_t count;  // of an array of numbers; 0: no array
    // Demands of users' kernels on a tensor. Generated code is right by construction.
    std::optional<at::ScalarType> dtype;
    uint32_t item_bytes;  // of an element; 0: any
    bool contiguous;
    uint32_t align;  // the address is a multiple of it

    bool is_argument() const { return kind != 'e' && kind != 't' && kind != 'n'; }
    bool is_tensor() const { return kind == 'r' || kind == 'w' || kind == 'm'; }
    bool is_real() const { return type == Type::f32 || type == Type::f64; }
  };
  static Type type_named(const std::string& name);  // of a member in C++

  struct Source {
    std::string name;
    std::vector<uint32_t> spirv;
    std::vector<std::string> features;  // as in core/capabilities.def
    uint32_t params_bytes;
    bool params_ring;
    std::vector<Member> members;
    std::vector<uint32_t> constants;
    bool autograd;  // tensors that are written must not require grad, and their version counters count it
  };
  explicit GeneratedKernel(Source source);
  ~GeneratedKernel();

  const std::string& name() const { return name_; }
  const std::string& signature() const { return signature_; }
  KernelId id() const { return kernel_->id(); }
  uint64_t shared_bytes() const { return kernel_->shared_bytes(); }
  const std::vector<Member>& members() const { return members_; }
  size_t arguments() const { return arguments_; }
  // The file of the module that launches it, for traces; to be set before the first launch. The first one stays.
  void set_file(std::string file) {
    if (file_.empty()) file_ = std::move(file);
  }
  const std::string& file() const { return file_; }
  void prepare(int device) const { kernel_->prepare(current(device)); }

  // The arguments of one launch. Each member is put once.
  class Call {
   public:
    explicit Call(const GeneratedKernel& kernel);
    void tensor(const Member& member, const at::Tensor& t);
    void host(const Member& member, const at::Tensor& t);
    // `place` is one of an array.
    void integer(const Member& member, int64_t value, uint32_t place = 0);
    void real(const Member& member, double value, uint32_t place = 0);
    // On the current stream of the tensors' device. Needs no lock of Python's.
    void launch(Grid grid);

   private:
    template <class T>
    void put(const Member& member, T value, uint32_t place = 0);
    void check_for_user(const Member& member, const at::Tensor& t);
    void out_of_range(const Member& member, double value) const;

    const GeneratedKernel& kernel_;
    int device_ = -1;
    TensorArgs args_;
    c10::SmallVector<c10::TensorImpl*, 4> written_;
    alignas(8) std::array<unsigned char, 256> inline_;
    std::vector<unsigned char> large_;
    unsigned char* block_;  // one of the two
  };

 private:
  std::string name_, signature_, file_;
  uint32_t params_bytes_;
  bool autograd_;
  size_t arguments_ = 0;
  std::vector<Member> members_;
  uint32_t error_tag_ = 0;
  std::unique_ptr<const kernels::HeldKernel> held_;
  std::unique_ptr<const FixedKernel> kernel_;
};

}  // namespace aule::ops
