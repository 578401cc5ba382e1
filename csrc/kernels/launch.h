// The one door from the op layer to a command stream.
//
//   aule::Args args;                         // collects what the kernel reads and writes
//   SoftmaxParams p{};                       // generated from the shader's `struct Params`
//   p.in = args.read(address, bytes);        // an address enters params only through read/write/read_write
//   p.out = args.write(address, bytes);
//   launch(stream, kernel::softmax(), {.in_dtype = DType::f32, .local = 64}, p, args, Grid{rows});
//
// `kernel::NAME(axis values...)` is generated for every shader (kernels_<family>.gen.h); the result names one SPIR-V
// variant. A kernel that is compiled at run time has a KernelId too (kernels/registry.h) and goes through FixedKernel
// (kernels/fixed_kernel.h). Specialization constants are given by name (kernels/spec.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/access.h"
#include "core/kernel_source.h"
#include "kernels/spec.h"

namespace aule {

namespace stream {
class CommandStream;
}
using stream::CommandStream;

// A built-in kernel, typed by its params and its specialization constants.
template <class Params, class Spec>
struct KernelRef {
  KernelId id;
};

void launch_kernel(CommandStream& stream, KernelId id, std::span<const uint32_t> spec, const void* params,
                   size_t params_bytes, const Args& args, Grid grid);
// True when the device has every feature that this kernel asks for.
bool supports(int device, KernelId id);
// Bytes of shared memory that a kernel declares with these constants. Asks no device: for planners.
uint64_t shared_bytes(KernelId id, std::span<const uint32_t> spec);
template <class Params, class Spec>
uint64_t shared_bytes(KernelRef<Params, Spec> kernel, const std::type_identity_t<Spec>& spec) {
  return shared_bytes(kernel.id, spec_words(spec));
}

template <class Params, class Spec>
void launch(CommandStream& stream, KernelRef<Params, Spec> kernel, const std::type_identity_t<Spec>& spec,
            const Params& params, const Args& args, Grid grid) {
  launch_kernel(stream, kernel.id, spec_words(spec), &params, sizeof(Params), args, grid);
}

// Device-to-device bytes and 32-bit fills by address; recorded like a kernel. `bytes` of fill is a multiple of 4.
void copy_bytes(CommandStream& stream, uint64_t dst, uint64_t src, uint64_t bytes);
// Host memory: upload_bytes has copied `host` away when it returns; download_bytes waits for the value.
void upload_bytes(CommandStream& stream, uint64_t dst, const void* host, uint64_t bytes);
void download_bytes(CommandStream& stream, void* host, uint64_t src, uint64_t bytes);
void fill_words(CommandStream& stream, uint64_t dst, uint64_t bytes, uint32_t word);

// The device's error record, for kernels that check indices (shaders/common/errors.glsl). Not an argument: no barrier
// waits for it.
uint64_t error_address(CommandStream& stream);
// Installed by the op layer, which knows the op names behind the tags that kernels report.
void set_error_tag_names(const char* (*name_of)(uint32_t tag));

}  // namespace aule
