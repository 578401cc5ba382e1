#include "ops/generated/generated_kernel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/DynamicCast.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/registry.h"
#include "ops/tensor/device_assert.h"

namespace aule::ops {
namespace {

using Type = GeneratedKernel::Type;

uint32_t bytes_of(Type type) { return type == Type::i32 || type == Type::u32 || type == Type::f32 ? 4 : 8; }

bool takes(char kind, Type type) {
  switch (kind) {
    case 'r':
    case 'w':
    case 'm':
    case 'e': return type == Type::u64;
    case 'h': return true;
    case 'i': return type == Type::i32;
    case 'u':
    case 'n':
    case 't': return type == Type::u32;
    case 'l': return type == Type::i64 || type == Type::u64;
    case 'f': return type == Type::f32;
    case 'd': return type == Type::f64;
    default: return false;
  }
}

}  // namespace

Type GeneratedKernel::type_named(const std::string& name) {
  static const std::map<std::string, Type> kNames = {{"int32_t", Type::i32}, {"uint32_t", Type::u32},
                                                     {"int64_t", Type::i64}, {"uint64_t", Type::u64},
                                                     {"float", Type::f32},   {"double", Type::f64}};
  const auto found = kNames.find(name);
  TORCH_CHECK_VALUE(found != kNames.end(), "a member of Params cannot have the type ", name);
  return found->second;
}

GeneratedKernel::GeneratedKernel(Source source)
    : name_(source.name),
      params_bytes_(source.params_bytes),
      autograd_(source.autograd),
      members_(std::move(source.members)) {
  bool has_tensor = false;
  for (const Member& member : members_) {
    signature_ += member.kind;
    TORCH_CHECK_VALUE(takes(member.kind, member.type), name_, ": the letter ", std::string(1, member.kind),
                      " of the signature does not fit the type of ", member.name);
    TORCH_CHECK_VALUE(member.offset + bytes_of(member.type) * std::max(member.count, 1u) <= params_bytes_, name_, ": ",
                      member.name, " is outside of a block of ", params_bytes_, " bytes");
    TORCH_CHECK_VALUE(member.count == 0 || !member.is_tensor(), name_, ": ", member.name, " is an array of tensors");
    has_tensor |= member.is_tensor();
    arguments_ += member.is_argument();
    if (member.kind == 't') error_tag_ = lasting_error_tag(name_);
  }
  TORCH_CHECK_VALUE(has_tensor, name_, ": no argument is a tensor");
  const uint32_t bits = kernels::feature_bits_named(source.features);
  held_ = std::make_unique<const kernels::HeldKernel>(kernels::NewKernel{
      name_, std::move(source.spirv), bits, static_cast<uint16_t>(params_bytes_), source.params_ring});
  kernel_ = std::make_unique<const FixedKernel>(held_->id(), std::move(source.constants));
}

GeneratedKernel::~GeneratedKernel() = default;

GeneratedKernel::Call::Call(const GeneratedKernel& kernel) : kernel_(kernel) {
  if (kernel.params_bytes_ > inline_.size()) large_.resize(kernel.params_bytes_);
  block_ = large_.empty() ? inline_.data() : large_.data();
  if (large_.empty()) std::memset(block_, 0, kernel.params_bytes_);  // what lies between members
}

template <class T>
void GeneratedKernel::Call::put(const Member& member, T value, uint32_t place) {
  std::memcpy(block_ + member.offset + place * sizeof value, &value, sizeof value);
}

void GeneratedKernel::Call::check_for_user(const Member& member, const at::Tensor& t) {
  TORCH_CHECK_TYPE(!member.dtype || t.scalar_type() == *member.dtype, kernel_.name_, ": ", member.name,
                   " must be of dtype ", member.dtype.value_or(at::kFloat), ", but is ", t.scalar_type());
  TORCH_CHECK_TYPE(member.item_bytes == 0 || t.element_size() == member.item_bytes, kernel_.name_, ": ", member.name,
                   " must have elements of ", member.item_bytes, " bytes, but is ", t.scalar_type());
  TORCH_CHECK_VALUE(!member.contiguous || t.is_contiguous(), kernel_.name_, ": ", member.name,
                    " must be contiguous, but has sizes ", t.sizes(), " and strides ", t.strides());
  TORCH_CHECK_VALUE(member.align <= 1 || t.numel() == 0 || address_of(t) % member.align == 0, kernel_.name_, ": ",
                    member.name, " must start at a multiple of ", member.align, " bytes, but its storage_offset is ",
                    t.storage_offset(), " elements");
  if (!kernel_.autograd_ || member.kind == 'r') return;
  TORCH_CHECK_VALUE(!t.requires_grad() || !at::GradMode::is_enabled(), kernel_.name_, ": ", member.name,
                    " is written and requires grad: launch in torch.no_grad() or an autograd.Function");
  if (!t.is_inference()) written_.push_back(t.unsafeGetTensorImpl());
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
  check_for_user(member, t);
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

void GeneratedKernel::Call::integer(const Member& member, int64_t value, uint32_t place) {
  switch (member.type) {
    case Type::i32:
      if (value != static_cast<int32_t>(value)) out_of_range(member, static_cast<double>(value));
      return put(member, static_cast<int32_t>(value), place);
    case Type::u32:
      if (value != static_cast<uint32_t>(value)) out_of_range(member, static_cast<double>(value));
      return put(member, static_cast<uint32_t>(value), place);
    case Type::i64:
    case Type::u64: return put(member, value, place);
    case Type::f32: return put(member, static_cast<float>(value), place);
    case Type::f64: return put(member, static_cast<double>(value), place);
  }
}

void GeneratedKernel::Call::real(const Member& member, double value, uint32_t place) {
  if (member.type == Type::f32) return put(member, static_cast<float>(value), place);
  if (member.type == Type::f64) return put(member, value, place);
  if (!(value >= -0x1p63 && value < 0x1p63)) out_of_range(member, value);
  integer(member, static_cast<int64_t>(value), place);
}

void GeneratedKernel::Call::launch(Grid grid) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  for (const Member& member : kernel_.members_) {
    if (member.kind == 'e') put(member, error_address(current(device_)));
    if (member.kind == 't') put(member, kernel_.error_tag_);
    for (uint32_t i = 0; member.kind == 'n' && i < member.count; ++i) put(member, i, i);
  }
  if (!kernel_.file_.empty()) args_.work.source = kernel_.file_.c_str();
  kernel_.kernel_->launch(current(device_), block_, kernel_.params_bytes_, args_, grid);
  for (c10::TensorImpl* t : written_) t->bump_version();
}

}  // namespace aule::ops
