// Kernels that join the registry while the process runs.
#pragma once
#include <string>
#include <thread>
#include <vector>

#include "fixture.h"
#include "kernels/pipelines.h"
#include "kernels/registry.h"
#include "vulkan/pipeline.h"

namespace aule {

inline void added_kernels() {
  using kernels::add_kernel;
  const auto copy_of = [](KernelId id, const std::string& name) {
    const KernelSource& k = kernels::source(id);
    std::vector<uint32_t> words(k.spirv_bytes / 4);
    std::memcpy(words.data(), k.spirv, k.spirv_bytes);
    return kernels::NewKernel{name, std::move(words), k.features, k.params_bytes, k.params_ring};
  };
  CHECK(kernels::kernel_count() == kBuiltinKernelCount);

  std::vector<KernelId> ids(8);
  std::vector<std::thread> workers;
  for (size_t t = 0; t < ids.size(); ++t)
    workers.emplace_back([&, t] { ids[t] = add_kernel(copy_of(kScaleAdd, t % 2 ? "odd" : "even")); });
  for (auto& w : workers) w.join();
  CHECK(kernels::kernel_count() == kBuiltinKernelCount + 2);  // one for each name
  for (size_t t = 2; t < ids.size(); ++t) CHECK(ids[t] == ids[t % 2]);
  CHECK(ids[0] != ids[1] && ids[0] != kScaleAdd);
  CHECK(*kernels::find_kernel("odd") == ids[1] && !kernels::find_kernel("neither"));
  CHECK(std::string(kernels::source(ids[0]).name) == "even");
  const KernelId walk_copy = add_kernel(copy_of(kWalk, "even"));  // the name alone makes no kernel the same
  CHECK(walk_copy != ids[0]);
  THROWN(vulkan::Error, kernels::source(KernelId{1u << 30}));

  // Equal SPIR-V with equal constants is one pipeline, whoever asks first.
  auto& device = vulkan::Device::get(0);
  const auto pipeline = [&](KernelId id, uint32_t factor) {
    return &kernels::pipeline_for(device, id, spec_words(ScaleAddSpec{.factor = factor}));
  };
  const size_t before = kernels::active_pipelines(0).size();
  const auto* first = pipeline(ids[1], 1071);
  CHECK(pipeline(kScaleAdd, 1071) == first && pipeline(ids[0], 1071) == first && pipeline(ids[1], 1071) == first);
  CHECK(pipeline(ids[1], 1072) != first && pipeline(walk_copy, 1071) != first);
  CHECK(kernels::active_pipelines(0).size() == before + 3);
  CHECK(first->label.find("odd") != std::string::npos);

  // It launches as a built-in one does.
  auto& s = main_stream();
  Words a(1000), b(1000);
  const auto host = counting(1000);
  s.upload(a.address(), host.data(), a.bytes());
  Args args;
  ScaleAddParams p{};
  p.i = args.read(a.address(), a.bytes());
  p.o = args.write(b.address(), b.bytes());
  p.n = b.n;
  p.add = 5;
  launch(s, KernelRef<ScaleAddParams, ScaleAddSpec>{ids[0]}, {.factor = 3}, p, args, linear_grid(16));
  const auto result = read(s, b);
  for (uint32_t i = 0; i < 1000; ++i) CHECK(result[i] == 3 * host[i] + 5);

  // What the device lacks is refused by name, for these too.
  auto lacking = copy_of(kScaleAdd, "lacking");
  lacking.features = 0x80000000u;
  const KernelId lacks = add_kernel(lacking);
  CHECK(!supports(0, lacks));
  const std::string text = THROWN(vulkan::MissingFeature, pipeline(lacks, 1));
  CHECK(text.find("lacking") != std::string::npos);
}

}  // namespace aule
