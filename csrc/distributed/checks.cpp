#include "distributed/checks.h"

#include <ATen/MemoryOverlap.h>
#include <c10/util/Exception.h>

namespace aule::distributed {

bool on_device(const std::vector<at::Tensor>& tensors) {
  return !tensors.empty() && tensors.front().device().type() == c10::DeviceType::PrivateUse1;
}

void check_tensors(const char* name, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(!tensors.empty(), name, ": expected a tensor, got none");
  for (const at::Tensor& t : tensors) {
    TORCH_CHECK(t.layout() == at::kStrided, name, ": expected dense tensors, got one of layout ", t.layout());
    TORCH_CHECK(t.device() == tensors.front().device(), name, ": expected tensors of one device, got ",
                tensors.front().device(), " and ", t.device());
  }
}

void check_on_host(const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.defined() || tensor.device().type() != c10::DeviceType::PrivateUse1,
              "a collective of tensors of the CPU: expected tensors of one device, got cpu and ", tensor.device());
}

void check_results(const char* name, const std::vector<at::Tensor>& tensors) {
  check_tensors(name, tensors);
  for (const at::Tensor& t : tensors)
    TORCH_CHECK(at::has_internal_overlap(t) != at::MemOverlap::Yes, name,
                ": elements of a tensor that is written to share memory (an expanded one?); clone() it");
}

void check_one(const char* name, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, name, ": expected one tensor for each process, got ", tensors.size());
}

void check_one_list(const char* name, const std::vector<std::vector<at::Tensor>>& lists, int64_t length) {
  TORCH_CHECK(lists.size() == 1 && static_cast<int64_t>(lists.front().size()) == length, name,
              ": expected a list of one tensor for each rank (", length, "), got ", lists.size(), " list(s) of ",
              lists.empty() ? 0 : lists.front().size());
}

void check_elements(const char* name, const at::Tensor& of, int64_t expected, at::ScalarType dtype) {
  TORCH_CHECK(of.numel() == expected && of.scalar_type() == dtype, name, ": expected a tensor of ", expected,
              " elements of ", dtype, ", got one of ", of.numel(), " of ", of.scalar_type());
}

void check_one_dtype(const char* name, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& t : tensors)
    TORCH_CHECK(t.scalar_type() == tensors.front().scalar_type(), name, ": expected tensors of one dtype, got ",
                tensors.front().scalar_type(), " and ", t.scalar_type());
}

Reduction reduction_of(const char* name, const c10d::ReduceOp& op, at::ScalarType dtype, int ranks) {
  using Op = c10d::ReduceOp;
  Reduction r{op, dtype, dtype, std::nullopt};
  const bool floating =
      dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;  // no float8
  const bool integral = dtype == at::kBool || dtype == at::kByte || dtype == at::kChar || dtype == at::kShort ||
                        dtype == at::kInt || dtype == at::kLong;  // gloo has no wider unsigned ones
  TORCH_CHECK(floating || integral || at::isComplexType(dtype), name, ": cannot reduce tensors of ", dtype);
  if (at::isComplexType(dtype)) {
    TORCH_CHECK(r.op == Op::SUM || (dtype != at::kComplexHalf && (r.op == Op::AVG || r.op == Op::PREMUL_SUM)), name,
                ": of tensors of ", dtype, " there is ", dtype == at::kComplexHalf ? "SUM only" : "SUM and AVG only");
    r.numbers = c10::toRealValueType(dtype);
  }
  if (dtype == at::kBool) {  // gloo would add the bytes; as nccl's, a sum is "any"
    TORCH_CHECK(r.op != Op::AVG && r.op != Op::PREMUL_SUM, name, ": AVG and PREMUL_SUM are of numbers, got bool");
    r.dtype = r.numbers = at::kByte;
    if (r.op == Op::SUM) r.op = Op::MAX;
  }
  if (dtype == at::kShort) r.dtype = r.numbers = at::kInt;  // gloo has no 16-bit integers
  if (r.op == Op::BAND || r.op == Op::BOR || r.op == Op::BXOR)
    TORCH_CHECK(integral, name, ": BAND, BOR and BXOR are of integers, got ", dtype);
  if (r.op == Op::AVG) {
    r.op = Op::SUM;
    r.divisor = ranks;
  }
  if (r.op == Op::PREMUL_SUM) {
    const auto* with = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK(with != nullptr, name, ": PREMUL_SUM without its factor");
    r.op = Op::SUM;
    r.factor = Factor{with->double_factor, with->tensor_factor};
  }
  return r;
}

}  // namespace aule::distributed
