// Pipelines that are still compiled when commands need them (stream/deferred.h), under a driver that takes its time, or
// fails. A factor that no other test has makes a new pipeline.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "fixture.h"
#include "kernels/registry.h"
#include "vulkan/compile_threads.h"
#include "vulkan/device_impl.h"
#include "vulkan/pipeline.h"

namespace aule {

// While one lives, vkCreateComputePipelines takes so much longer.
class SlowDriver {
 public:
  explicit SlowDriver(int milliseconds) : table_(vulkan::Device::get(0).impl().vk) {
    asked = at_once = most_at_once = to_fail = 0;
    pause_ms = milliseconds;
    driver = table_.vkCreateComputePipelines;
    table_.vkCreateComputePipelines = create;
  }
  ~SlowDriver() {
    vulkan::finish_compilations();
    table_.vkCreateComputePipelines = driver;
  }
  SlowDriver(const SlowDriver&) = delete;
  static inline std::atomic<int> asked{0}, at_once{0}, most_at_once{0}, to_fail{0}, pause_ms{0};

 private:
  static VKAPI_ATTR VkResult VKAPI_CALL create(VkDevice device, VkPipelineCache cache, uint32_t count,
                                               const VkComputePipelineCreateInfo* infos,
                                               const VkAllocationCallbacks* allocator, VkPipeline* pipelines) {
    ++asked;
    const int now = ++at_once;
    for (int most = most_at_once; most < now && !most_at_once.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    VkResult result = VK_ERROR_UNKNOWN;
    int failures = to_fail;
    while (failures > 0 && !to_fail.compare_exchange_weak(failures, failures - 1)) {
    }
    if (failures <= 0) result = driver(device, cache, count, infos, allocator, pipelines);
    --at_once;
    return result;
  }
  static inline PFN_vkCreateComputePipelines driver = nullptr;
  vulkan::DeviceFunctions& table_;
};

inline uint32_t fresh_factor() {
  static std::atomic<uint32_t> next{1000003};
  return next += 2;
}

// Launches do not wait for pipelines, what follows keeps its order, and no query waits.
inline void cold_kernels() {
  auto &s = main_stream(), &other = CommandStream::get(0, 5);
  Words a(3000), b(3000), c(3000), pinned(3000, vulkan::MemoryKind::host);
  const bool threads = vulkan::CompileThreads::of_process().allowed();
  {
    const SlowDriver driver(40);
    uint32_t expected = 3;
    s.fill(a.address(), a.bytes(), 3);
    for (int i = 0; i < 8; ++i) {
      const uint32_t factor = fresh_factor();
      scale_add(s, a, a, factor, 1);
      expected = expected * factor + 1;
    }
    CHECK(s.done(s.pending_value()) == !threads || driver.asked == 8);
    CHECK(read(s, a)[2999] == expected);
    CHECK(driver.asked == 8 && (driver.most_at_once > 1) == (threads && std::thread::hardware_concurrency() > 1));
  }
  for (int pause : {0, 60}) {  // copies, fills, uploads of both kinds, views at odd addresses
    const SlowDriver driver(pause);
    const uint32_t factor = fresh_factor();
    auto host = counting(3000, 7);
    s.upload(a.address(), host.data(), a.bytes());
    s.fill(b.address(), b.bytes(), 9);
    scale_add(s, b, a, factor, 1);
    s.copy(c.address() + 2, b.address() + 1, 5001);
    auto later = counting(3000, 100);
    s.upload(a.address(), later.data(), a.bytes());
    later.assign(3000, 0);  // it was copied
    s.copy(pinned.address(), b.address(), b.bytes());
    s.fill(b.address(), 400, 5);
    ring_add(s, a, a, 4);
    std::vector<uint32_t> first(3000);
    for (uint32_t i = 0; i < 3000; ++i) first[i] = (7 + i) * factor + 1;
    const auto copied = read(s, c), added = read(s, a), filled = read(s, b);
    CHECK(std::memcmp(reinterpret_cast<const char*>(copied.data()) + 2,
                      reinterpret_cast<const char*>(first.data()) + 1, 5001) == 0);
    CHECK(added[0] == 104 && added[2999] == 3103 && filled[99] == 5 && filled[100] == first[100]);
    CHECK(std::memcmp(pinned.segment->mapped, first.data(), 12000) == 0);
    THROWN(vulkan::Error, s.copy(a.address(), a.address() + 8, 64));
  }
  {  // markers and timestamps, and another stream that waits
    const SlowDriver driver(80);
    s.fill(a.address(), a.bytes(), 1);
    const uint32_t first = fresh_factor(), second = fresh_factor(), third = fresh_factor();
    auto begin = s.record(true);
    scale_add(s, a, a, first, 0);
    auto one = s.record(false, true);
    scale_add(s, a, a, second, 0);
    auto two = s.record(true);
    CHECK(one.value < two.value && (!threads || !s.done(two.value)) && (!threads || !s.idle()));
    scale_add(other, c, c, third, 0);  // deferred itself when it waits
    other.wait_for(two);
    scale_add(other, b, a, 1, 1);
    CHECK(read(other, b)[1] == first * second + 1);
    CHECK(s.done(two.value) && CommandStream::elapsed_ms(begin, two) > 0);
    while (!s.done(s.record(false).value)) std::this_thread::yield();
    auto last = other.record(false);
    s.wait_for(last);
    scale_add(s, b, b, fresh_factor(), 0);
    for (int i = 0; i < 100; ++i) {
      ring_add(s, c, b, 1);
      auto marker = s.record(i % 2 == 0);
      s.release(marker);
    }
    CHECK(s.load().commands > 0);
    s.synchronize();
    CHECK(s.idle());
  }
  {  // more commands than are kept
    const SlowDriver driver(30);
    s.fill(a.address(), a.bytes(), 0);
    uint32_t expected = 0;
    for (int i = 0; i < 3000; ++i) {
      const uint32_t factor = i % 700 == 0 ? fresh_factor() : 1;
      scale_add(s, a, a, factor, 1);
      expected = expected * factor + 1;
      if (i % 10 == 0) s.pending_value();
    }
    CHECK(read(s, a)[5] == expected);
  }
  {  // an upload that another stream reads without a word
    const SlowDriver driver(60);
    s.synchronize();
    other.synchronize();
    scale_add(s, a, a, fresh_factor(), 0);
    const auto host = counting(3000, 50);
    s.upload(b.address(), host.data(), b.bytes());
    scale_add(other, c, b, 1, 1);
    CHECK(read(other, c)[2999] == 50 + 2999 + 1);
  }
  {  // graphs: commands before them are deferred, their own kernels are cold, too
    const SlowDriver driver(20);
    const uint32_t before = fresh_factor(), within = fresh_factor(), after = fresh_factor();
    s.fill(a.address(), a.bytes(), 1);
    scale_add(s, a, a, before, 0);
    s.capture_begin();
    scale_add(s, a, a, within, 0);
    s.fill(b.address(), b.bytes(), 2);
    auto graph = s.capture_end();
    scale_add(s, a, a, after, 0);
    s.replay(*graph);
    s.replay(*graph);
    CHECK(read(s, a)[77] == before * after * within * within && read(s, b)[77] == 2);
  }
  {  // a kernel that goes before it is compiled
    const SlowDriver driver(60);
    s.fill(a.address(), a.bytes(), 2);
    scale_add(s, a, a, fresh_factor(), 0);
    s.fill(a.address(), a.bytes(), 2);
    {
      const KernelSource& r = kernels::source(kScaleAdd);
      kernels::NewKernel copy{"short_lived", std::vector<uint32_t>(r.spirv_bytes / 4), r.features, r.params_bytes,
                              r.params_ring};
      std::memcpy(copy.spirv.data(), r.spirv, r.spirv_bytes);
      const kernels::HeldKernel held(std::move(copy));
      Args args;
      ScaleAddParams p{args.write(a.address(), a.bytes()), args.read(a.address(), a.bytes()), a.n, 5};
      launch(s, KernelRef<ScaleAddParams, ScaleAddSpec>{held.id()}, {.factor = 1234567}, p, args,
             linear_grid((a.n + 63) / 64));
    }
    CHECK(read(s, a)[9] == 2 * 1234567 + 5);
  }
}

// The call that waits says which kernel the driver refuses, once. Others have run, and the next launch tries again.
inline void cold_failures() {
  auto& s = main_stream();
  Words a(3000), b(3000);
  const bool threads = vulkan::CompileThreads::of_process().allowed();
  SlowDriver driver(20);
  for (int round = 0; round < 2; ++round) {
    s.fill(a.address(), a.bytes(), 3);
    s.fill(b.address(), b.bytes(), 4);
    s.synchronize();
    const uint32_t factor = fresh_factor(), good = fresh_factor();
    driver.to_fail = 1;
    const auto refused = [&] {
      scale_add(s, a, a, factor, 1);
      vulkan::finish_compilations();
      scale_add(s, b, b, good, 1);
      if (round == 0)
        s.synchronize();
      else
        read(s, b);
    };
    const std::string text = THROWN(vulkan::ShaderNotCompiled, refused());
    CHECK(text.find("scale_add(" + std::to_string(factor) + ")") != std::string::npos);
    if (!threads) scale_add(s, b, b, good, 1);
    CHECK(read(s, a)[1] == 3 && read(s, b)[1] == 4 * good + 1);
    scale_add(s, a, a, factor, 1);
    CHECK(read(s, a)[1] == 3 * factor + 1);
  }
  // During a capture it is the launch that says so.
  const uint32_t factor = fresh_factor();
  s.capture_begin();
  driver.to_fail = 1;
  THROWN(vulkan::ShaderNotCompiled, scale_add(s, a, a, factor, 1));
  scale_add(s, a, a, factor, 1);
  auto graph = s.capture_end();
  s.fill(a.address(), a.bytes(), 3);
  s.replay(*graph);
  CHECK(read(s, a)[1] == 3 * factor + 1);
}

// Many threads that launch the same kernels have each compiled once.
inline void cold_threads() {
  SlowDriver driver(30);
  const uint32_t factors[] = {fresh_factor(), fresh_factor(), fresh_factor()};
  std::vector<std::thread> workers;
  for (int t = 0; t < 6; ++t) {
    workers.emplace_back([&, t] {
      auto& own = t % 2 == 0 ? main_stream() : CommandStream::get(0, t);
      Words a(1000);
      for (int round = 0; round < 3; ++round) {
        own.fill(a.address(), a.bytes(), 2);
        uint32_t expected = 2;
        for (const uint32_t factor : factors) {
          scale_add(own, a, a, factor, 1);
          expected = expected * factor + 1;
        }
        CHECK(read(own, a)[999] == expected);
      }
    });
  }
  for (auto& worker : workers) worker.join();
  CHECK(driver.asked == 3);
}

// The process ends while threads compile.
inline void cold_exit() {
  static Words* const a = new Words(1000);
  static SlowDriver* const driver = new SlowDriver(50);
  for (int i = 0; i < 60; ++i) scale_add(main_stream(), *a, *a, fresh_factor(), 1);
  (void)driver;
}

}  // namespace aule
