// Device memory: refusals, lookups by address, and more than one allocation behind a buffer.
#pragma once
#include <cstdio>
#include <string>

#include "fixture.h"
#include "vulkan/device_impl.h"

namespace aule {
namespace {

void out_of_memory() {
  auto& memory = vulkan::Device::get(0).memory();
  vulkan::inject_allocation_failures(1, 1 << 20);
  Words small(256);
  std::string text = THROWN(vulkan::OutOfMemory, memory.allocate(vulkan::MemoryKind::device, 2 << 20));
  CHECK(text.find("2.00 MiB") != std::string::npos);
  memory.free(memory.allocate(vulkan::MemoryKind::device, 2 << 20));
  THROWN(vulkan::OutOfMemory, memory.allocate(vulkan::MemoryKind::device, uint64_t{1} << 50));
  CHECK(memory.budget().total_bytes > 0 && memory.budget().free_bytes > 0);
  CHECK(memory.find(small.address() + 1023) == small.segment);
  CHECK(memory.find(small.address() + 1024) != small.segment);
  Words pinned(100, vulkan::MemoryKind::host);
  CHECK(memory.find_host(static_cast<char*>(pinned.segment->mapped) + 5) == pinned.segment);
  CHECK(memory.find_host(&text) == nullptr);
}

// A segment past the driver's largest allocation: several allocations behind one buffer, or a clear refusal.
void beyond_one_allocation() {
  auto& device = vulkan::Device::get(0);
  const Caps& caps = device.profile();
  const uint64_t bytes = caps.max_allocation_bytes + (64 << 20);
  if (!caps.sparse_binding || bytes > caps.max_buffer_bytes || device.memory().budget().free_bytes < 2 * bytes ||
      caps.kind == Caps::Kind::cpu) {
    if (!caps.sparse_binding) {
      std::string text = THROWN(vulkan::OutOfMemory, device.memory().allocate(vulkan::MemoryKind::device, bytes));
      CHECK(text.find("MiB") != std::string::npos);
    }
    return;
  }
  auto& s = main_stream();
  vulkan::Segment* big = device.memory().allocate(vulkan::MemoryKind::device, bytes);
  const uint64_t seam = big->address + caps.max_allocation_bytes - 2048;  // around here one allocation ends
  auto host = counting(4096, 9);
  s.fill(big->address, bytes, 77);
  s.upload(seam, host.data(), 16384);
  Words a(4096);
  s.copy(a.address(), seam, 16384);
  scale_add(s, a, a, 1, 0);
  CHECK(read(s, a) == host);
  uint32_t word = 0;
  s.download(&word, big->address + bytes - 4, 4);
  CHECK(word == 77);
  s.synchronize();
  device.memory().free(big);
  std::fprintf(stderr, "%.1f GiB in one buffer\n", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace
}  // namespace aule
