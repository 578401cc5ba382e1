// The one door from the op layer to a command stream.
//
//   aule::Args args;                         // collects what the kernel reads and writes
//   SoftmaxFwdParams p{};                    // generated from the shader's `struct Params`
//   p.in = args.read(address, bytes);        // an address enters params only through read/write/read_write
//   p.out = args.write(address, bytes);
//   launch(stream, kernel::softmax_fwd(), Spec{code(DType::f32)}, p, args, Grid{rows});
//
// `kernel::NAME(axis values...)` is generated for every shader (kernels.gen.h); the result names one SPIR-V variant.
// Specialization constants are given by position: Spec's element i is `layout(constant_id = i)`.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/access.h"
#include "core/dtype.h"

namespace aule {

namespace stream {
class CommandStream;
}
using stream::CommandStream;

// One 32-bit specialization constant: int, unsigned, bool, float, DType or an enum.
struct SpecValue {
  uint32_t bits;
  SpecValue(int v) : bits(static_cast<uint32_t>(v)) {}
  SpecValue(uint32_t v) : bits(v) {}
  SpecValue(bool v) : bits(v ? 1u : 0u) {}
  SpecValue(float v) : bits(std::bit_cast<uint32_t>(v)) {}
  SpecValue(DType v) : bits(static_cast<uint32_t>(v)) {}
};

class Spec {
 public:
  static constexpr size_t kMax = 20;
  Spec() = default;
  Spec(std::initializer_list<SpecValue> values) {
    for (SpecValue v : values) push(v);
  }
  void push(SpecValue v) {
    values_.at(count_) = v.bits;
    ++count_;
  }
  const uint32_t* data() const { return values_.data(); }
  size_t size() const { return count_; }

 private:
  std::array<uint32_t, kMax> values_{};
  size_t count_ = 0;
};

// A row of the generated table, typed by its params struct.
template <class Params>
struct KernelRef {
  uint16_t row;
};

void launch_row(CommandStream& stream, uint16_t row, const Spec& spec, const void* params, size_t params_bytes,
                const Args& args, Grid grid);
// True when the stream's device has every feature that this variant asks for.
bool supported_row(int device, uint16_t row);

template <class Params>
void launch(CommandStream& stream, KernelRef<Params> kernel, const Spec& spec, const Params& params, const Args& args,
            Grid grid) {
  launch_row(stream, kernel.row, spec, &params, sizeof(Params), args, grid);
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
