// Assertions about values on the device, reported at the next synchronization as indices out of range are.
#include <mutex>
#include <set>
#include <string>

#include "kernels_indexing.gen.h"
#include "ops/indexing/indexing.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kAssert = "_assert_async";

// Texts are kept, and a program may put a number into each: those that come late get the operator's name.
uint32_t tag_of(c10::string_view text) {
  constexpr size_t kMostTexts = 256, kMostBytes = 1024;
  static std::mutex mutex;
  static auto* texts = new std::set<std::string>;
  if (text.empty()) return error_tag(kAssert);
  const std::string kept(text.substr(0, kMostBytes));
  std::lock_guard lock(mutex);
  if (!texts->contains(kept) && texts->size() >= kMostTexts) return error_tag(kAssert);
  texts->insert(kept);
  return lasting_error_tag(kept);
}

}  // namespace

void assert_async_msg(const at::Tensor& self, c10::string_view assert_msg) {
  TORCH_CHECK(self.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
  TORCH_CHECK(self.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous");
  const at::Tensor condition = self.to(at::kBool);
  auto& stream = current(self);
  TensorArgs args;
  AssertNonzeroParams p{};
  p.condition = args.read(condition);
  p.error = error_address(stream);
  p.tag = tag_of(assert_msg);
  launch(stream, kernel::assert_nonzero(), {}, p, args, linear_grid(1));
}
void assert_async(const at::Tensor& self) { assert_async_msg(self, {}); }
at::Tensor functional_assert_async_msg(const at::Tensor& self, c10::string_view assert_msg,
                                       const at::Tensor& dep_token) {
  assert_async_msg(self, assert_msg);
  return dep_token.clone();
}

}  // namespace aule::ops
