// What the device tests share: a buffer, and the test kernels (test/cpp/shaders.py) by name.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"
#include "kernels/launch.h"
#include "stream/command_stream.h"
#include "vulkan/check.h"
#include "vulkan/device.h"
#include "vulkan/memory.h"

namespace aule {

constexpr KernelId kScaleAdd{0}, kRingAdd{1}, kReport{2}, kWalk{3}, kNever{4};

struct ScaleAddSpec { SpecUint factor{1u}; };
struct WalkSpec { SpecUint kind{0u}; };

struct ScaleAddParams { uint64_t o, i; uint32_t n, add; };
struct RingAddParams { uint64_t o, i; uint32_t n, add[35]; };
struct ReportParams { uint64_t record; uint32_t tag, bound, n, pad; };

struct WalkParams { uint64_t o; uint32_t n, m, lanes, pad; };

struct Words {
  vulkan::Segment* segment;
  uint32_t n;
  explicit Words(uint32_t count, vulkan::MemoryKind kind = vulkan::MemoryKind::device)
      : segment(vulkan::Device::get(0).memory().allocate(kind, uint64_t{count} * 4)), n(count) {}
  ~Words() {
    try {
      stream::synchronize_device(0);
    } catch (...) {
    }
    vulkan::Device::get(0).memory().free(segment);
  }
  Words(const Words&) = delete;
  uint64_t address() const { return segment->address; }
  uint64_t bytes() const { return uint64_t{n} * 4; }
};

inline CommandStream& main_stream() { return CommandStream::get(0, 0); }

inline void scale_add(CommandStream& s, const Words& out, const Words& in, uint32_t factor, uint32_t add) {
  Args args;
  ScaleAddParams p{};
  p.i = args.read(in.address(), in.bytes());
  p.o = args.write(out.address(), out.bytes());
  p.n = out.n;
  p.add = add;
  launch(s, KernelRef<ScaleAddParams, ScaleAddSpec>{kScaleAdd}, {.factor = factor}, p, args,
         linear_grid((out.n + 63) / 64));
}

inline void ring_add(CommandStream& s, const Words& out, const Words& in, uint32_t add) {
  Args args;
  RingAddParams p{};
  p.i = args.read(in.address(), in.bytes());
  p.o = args.write(out.address(), out.bytes());
  p.n = out.n;
  p.add[34] = add;
  launch(s, KernelRef<RingAddParams, NoSpec>{kRingAdd}, {}, p, args, Grid{(out.n + 63) / 64});
}

inline std::vector<uint32_t> read(CommandStream& s, const Words& w) {
  std::vector<uint32_t> host(w.n);
  s.download(host.data(), w.address(), w.bytes());
  return host;
}

inline std::vector<uint32_t> counting(uint32_t n, uint32_t from = 0) {
  std::vector<uint32_t> host(n);
  for (uint32_t i = 0; i < n; ++i) host[i] = from + i;
  return host;
}

}  // namespace aule
