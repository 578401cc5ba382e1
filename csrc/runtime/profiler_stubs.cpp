// torch.autograd.profiler.profile(use_device="aule"): events around operators, and labels in the command buffers for
// RenderDoc, Nsight and RGP.
#include <c10/core/Event.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "runtime/device_info.h"
#include "runtime/profiler.h"
#include "runtime/streams.h"
#include "stream/command_stream.h"

namespace aule::runtime {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class Stubs final : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const c10::DeviceIndex current = current_device();
    if (device != nullptr) *device = current;
    auto made = std::make_shared<c10::Event>(c10::DeviceType::PrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
    made->record(current_c10_stream(current));
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
    *event = std::move(made);
  }
  float elapsed(const ProfilerVoidEventStub* from, const ProfilerVoidEventStub* to) const override {
    const auto& begin = *static_cast<const c10::Event*>(from->get());
    const auto& end = *static_cast<const c10::Event*>(to->get());
    end.synchronize();
    return static_cast<float>(begin.elapsedTime(end) * 1e3);  // us
  }
  void mark(const char* name) const override {
    rangePush(name);
    rangePop();
  }
  void rangePush(const char* name) const override { push_label(name); }
  void rangePop() const override { pop_label(); }
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override {
    for (int i = 0; i < device_count(); ++i) op(i);
  }
  void synchronize() const override { stream::synchronize_device(current_device()); }
};

}  // namespace

void push_label(const char* name) { current_stream().push_label(name); }
void pop_label() { current_stream().pop_label(); }

void register_profiler_stubs() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
}

}  // namespace aule::runtime
