// The number of commands that this thread has recorded: whether a call has begun to work on its arguments.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/access.h"

namespace aule {

namespace vulkan {
class Pipeline;
}
namespace stream {
class CommandStream;
}

// Kernels, copies to the device and fills that this thread has recorded so far, on any stream.
uint64_t recorded_commands();
// The way of every kernel to its stream. Throws if the shader's params have another size.
void record_dispatch(stream::CommandStream& stream, const vulkan::Pipeline& pipeline, const void* params,
                     size_t params_bytes, const Args& args, Grid grid);

}  // namespace aule
