#include "kernels/launch.h"

#include "kernels/pipelines.h"
#include "kernels/recorded.h"
#include "kernels/registry.h"
#include "kernels/wait.h"
#include "stream/command_stream.h"
#include "stream/errors.h"
#include "stream/wait_notes.h"
#include "vulkan/check.h"
#include "vulkan/device.h"
#include "vulkan/pipeline.h"

namespace aule {
namespace {
thread_local uint64_t recorded = 0;
}

uint64_t recorded_commands() { return recorded; }

void record_dispatch(CommandStream& stream, const vulkan::Pipeline& pipeline, const void* params, size_t params_bytes,
                     const Args& args, Grid grid) {
  if (params_bytes != pipeline.params_bytes) {
    throw vulkan::Error(pipeline.label + ": params of " + std::to_string(params_bytes) + " bytes, the shader has " +
                        std::to_string(pipeline.params_bytes));
  }
  ++recorded;
  stream.dispatch(pipeline, params, params_bytes, args.data(), args.size(), grid, args.work);
}

void launch_kernel(CommandStream& stream, KernelId id, std::span<const uint32_t> spec, const void* params,
                   size_t params_bytes, const Args& args, Grid grid) {
  record_dispatch(stream, kernels::pipeline_for(stream.device(), id, spec), params, params_bytes, args, grid);
}

bool supports(int device, KernelId id) {
  return (kernels::source(id).features & ~feature_bits(vulkan::device_profile(device))) == 0;
}

uint64_t shared_bytes(KernelId id, std::span<const uint32_t> spec) { return kernels::shared_bytes(id, spec); }

void copy_bytes(CommandStream& stream, uint64_t dst, uint64_t src, uint64_t bytes) {
  ++recorded;
  stream.copy(dst, src, bytes);
}
void upload_bytes(CommandStream& stream, uint64_t dst, const void* host, uint64_t bytes) {
  ++recorded;
  stream.upload(dst, host, bytes);
}
void download_bytes(CommandStream& stream, void* host, uint64_t src, uint64_t bytes) {
  stream.download(host, src, bytes);
}
void fill_words(CommandStream& stream, uint64_t dst, uint64_t bytes, uint32_t word) {
  ++recorded;
  stream.fill(dst, bytes, word);
}
void set_error_tag_names(const char* (*name_of)(uint32_t)) { stream::set_error_tag_names(name_of); }
void note_wait() { stream::note_wait(); }
uint64_t error_address(CommandStream& stream) { return stream.error_address(); }

}  // namespace aule
