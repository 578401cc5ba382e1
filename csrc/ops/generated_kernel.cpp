#include "ops/generated_kernel.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/DynamicCast.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

#include "kernels/registry.h"

namespace aule::ops {
namespace {

using Type = GeneratedKernel::Type;

Type type_named(const std::string& name) {
  static const std::map<std::string, Type> kNames = {{"int32_t", Type::i32}, {"uint32_t", Type::u32},
                                                     {"int64_t", Type::i64}, {"uint64_t", Type::u64},
                                                     {"float", Type::f32},   {"double", Type::f64}};
  const auto found = kNames.find(name);
  TORCH_CHECK_VALUE(found != kNames.end(), "a member of Params cannot have the type ", name);
  return found->second;
}

uint32_t bytes_of(Type type) { return type == Type::i32 || type == Type::u32 || type == Type::f32 ? 4 : 8; }

bool takes(char kind, Type type) {
  switch (kind) {
    case 'r':
    case 'w':
    case 'm': return type == Type::u64;
    case 'h': return true;
    case 'i': return type == Type::i32;
    case 'u': return type == Type::u32;
    case 'l': return type == Type::i64 || type == Type::u64;
    case 'f': return type == Type::f32;
    case 'd': return type == Type::f64;
    default: return false;
  }
}

}  // namespace

GeneratedKernel::GeneratedKernel(std::string name, std::vector<uint32_t> spirv,
                                 const std::vector<std::string>& features, uint32_t params_bytes, bool params_ring,
                                 const std::string& signature, const std::vector<MemberRow>& members,
                                 std::vector<uint32_t> constants)
    : name_(std::move(name)), signature_(signature), params_bytes_(params_bytes) {
  TORCH_CHECK_VALUE(signature.size() == members.size(), name_, ": the signature ", signature, " has ", signature.size(),
                    " letters, Params has ", members.size(), " members");
  bool has_tensor = false;
  for (size_t i = 0; i < members.size(); ++i) {
    const MemberRow& row = members[i];
    const Member& member = members_.emplace_back(row.name, row.offset, type_named(row.type), signature[i]);
    TORCH_CHECK_VALUE(takes(member.kind, member.type), name_, ": ", row.name, " is a ", row.type, ", which the letter ",
                      std::string(1, member.kind), " of the signature does not fit");
    TORCH_CHECK_VALUE(row.offset + bytes_of(member.type) <= params_bytes, name_, ": ", row.name,
                      " is outside of a block of ", params_bytes, " bytes");
    has_tensor |= member.is_tensor();
  }
  TORCH_CHECK_VALUE(has_tensor, name_, ": no argument is a tensor");
  const uint32_t bits = kernels::feature_bits_named(features);
  kernel_ = std::make_unique<const FixedKernel>(
      kernels::add_kernel({name_, std::move(spirv), bits, static_cast<uint16_t>(params_bytes), params_ring}),
      std::move(constants));
}

GeneratedKernel::Call::Call(const GeneratedKernel& kernel) : kernel_(kernel) {
  if (kernel.params_bytes_ > inline_.size()) large_.resize(kernel.params_bytes_);
  block_ = large_.empty() ? inline_.data() : large_.data();
  if (large_.empty()) std::memset(block_, 0, kernel.params_bytes_);  // what lies between members
}

template <class T>
void GeneratedKernel::Call::put(const Member& member, T value) {
  std::memcpy(block_ + member.offset, &value, sizeof value);
}

void GeneratedKernel::Call::tensor(const Member& member, const at::Tensor& t) {
  TORCH_CHECK_TYPE(t.defined() && t.device().is_privateuseone(), kernel_.name_, ": ", member.name,
                   " must be a tensor on device aule, but got ", t.defined() ? t.device().str() : "none");
  const int device = t.device().index();
  if (device_ < 0) device_ = device;
  TORCH_CHECK_VALUE(device == device_, kernel_.name_, ": ", member.name, " is on aule:", device,
                    ", but a tensor before it is on aule:", device_);
  TORCH_CHECK_TYPE(t.layout() == at::kStrided && !t.is_quantized(), kernel_.name_, ": ", member.name,
                   " must be a strided tensor, but its layout is ", t.layout());
  TORCH_CHECK_VALUE(!t.is_conj() && !t.is_neg(), kernel_.name_, ": ", member.name,
                    " is a lazy conjugate or negative view: resolve it first");
  uint64_t address = 0;
  if (t.numel() != 0) {
    if (member.kind == 'r') {
      address = args_.read(t);
    } else {
      at::assert_no_internal_overlap(t);
      address = args_.read_write(t);
    }
  }
  put(member, address);
}

void GeneratedKernel::Call::host(const Member& member, const at::Tensor& t) {
  TORCH_CHECK_TYPE(t.defined() && t.device().is_cpu() && t.dim() == 0 && !t.is_neg(), kernel_.name_, ": ", member.name,
                   " takes a number or a 0-dim tensor on the CPU, but got one of sizes ", t.sizes(), " on ",
                   t.device());
  const at::ScalarType dtype = t.scalar_type();
  TORCH_CHECK_TYPE(!at::isComplexType(dtype) && !at::isQIntType(dtype), kernel_.name_, ": ", member.name,
                   " takes a real number, but got a tensor of dtype ", dtype);
  const void* data = t.const_data_ptr();
  if (at::isFloatingType(dtype))
    real(member, c10::fetch_and_cast<double>(dtype, data));
  else
    integer(member, c10::fetch_and_cast<int64_t>(dtype, data));
}

void GeneratedKernel::Call::out_of_range(const Member& member, double value) const {
  TORCH_CHECK_VALUE(false, kernel_.name_, ": ", member.name, " cannot hold ", value);
}

void GeneratedKernel::Call::integer(const Member& member, int64_t value) {
  switch (member.type) {
    case Type::i32:
      if (value != static_cast<int32_t>(value)) out_of_range(member, static_cast<double>(value));
      return put(member, static_cast<int32_t>(value));
    case Type::u32:
      if (value != static_cast<uint32_t>(value)) out_of_range(member, static_cast<double>(value));
      return put(member, static_cast<uint32_t>(value));
    case Type::i64:
    case Type::u64: return put(member, value);
    case Type::f32: return put(member, static_cast<float>(value));
    case Type::f64: return put(member, static_cast<double>(value));
  }
}

void GeneratedKernel::Call::real(const Member& member, double value) {
  if (member.type == Type::f32) return put(member, static_cast<float>(value));
  if (member.type == Type::f64) return put(member, value);
  if (!(value >= -0x1p63 && value < 0x1p63)) out_of_range(member, value);
  integer(member, static_cast<int64_t>(value));
}

void GeneratedKernel::Call::launch(uint64_t groups) const {
  if (groups == 0) return;
  kernel_.kernel_->launch(current(device_), block_, kernel_.params_bytes_, args_, linear_grid(groups));
}

}  // namespace aule::ops
