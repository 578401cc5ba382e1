// A kernel that is compiled at run time, with what its source declares of its arguments. The description comes from the
// reflection that built-in kernels are generated from (torch_aule/_shader), and errors name what it names.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/access.h"
#include "core/kernel_source.h"

namespace aule::kernels {
class HeldKernel;
}

namespace aule::ops {

class RuntimeKernel {
 public:
  struct Tensor {  // a member of Params that is a tensor's address
    std::string name;
    uint32_t offset;
    bool writes;
    std::optional<c10::ScalarType> dtype;  // nothing: any
    int dtype_constant;                    // number of the constant that gets the tensor's dtype; -1: none
    bool strided;                          // takes any strides
  };

  // `features` are names of capabilities. The same name and SPIR-V give the same id.
  RuntimeKernel(std::string name, std::vector<uint32_t> spirv, const std::vector<std::string>& features,
                uint32_t params_bytes, bool params_ring, std::vector<Tensor> tensors);
  ~RuntimeKernel();

  const std::string& name() const { return name_; }
  KernelId id() const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  uint64_t shared_bytes(const std::vector<uint32_t>& constants) const;

  // On the current stream of the tensors' device. `constants` and `params` hold all but what comes from the tensors.
  void launch(const std::vector<at::Tensor>& tensors, std::vector<uint32_t> constants,
              std::vector<unsigned char> params, Grid grid) const;

 private:
  void check(const Tensor& wanted, const at::Tensor& t, const at::Tensor& first) const;

  std::string name_;
  std::unique_ptr<const kernels::HeldKernel> held_;
  std::vector<Tensor> tensors_;
};

}  // namespace aule::ops
