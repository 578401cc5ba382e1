// Every environment variable that the C++ side reads, in two tables: this is the only place that reads any.
// docs/use/environment.md says what each does, and is compared with these rows (test/rules/test_docs.py).
//
// `Environment` is parsed once, at its first use. TORCH_AULE_DISABLE lists what the process does without: switches and
// capabilities of the device. TORCH_AULE_LIMITS lowers limits of devices. `Overrides` change plans, for measurements
// and tests: they begin as TORCH_AULE_OVERRIDES says and may be replaced while the process runs
// (torch_aule.tune.override).
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/limits.h"

namespace aule {

using Text = std::optional<std::string>;  // of a variable: nothing where it is unset

// Numbers between commas, as many as are given.
struct Numbers {
  static constexpr int kMost = 12;
  std::array<int, kMost> values{};
  int count = 0;
  bool operator==(const Numbers&) const = default;
};

// Families of attention kernels, to plan with one of them alone.
enum class AttentionVariant : uint8_t {
  any,
#define ATTENTION_FAMILY(name, Plan) name,
#include "ops/attention/family/families.def"
#undef ATTENTION_FAMILY
};
// The dtype of the pieces of float32 products.
enum class PieceType : uint8_t { bfloat16, float16 };
// Products of rows that start between 16-byte boundaries: copied if the planner expects a gain, or whatever it expects.
enum class AlignedRows : uint8_t { by_cost, always, never };
// Products in two parts, whose second has smaller tiles: if the planner expects a gain, or whatever it expects.
enum class ProductParts : uint8_t { never, by_cost, always };
// Convolutions by tiles that hold the halo of their positions: if the planner expects a gain, or whatever it expects.
enum class HaloConv : uint8_t { by_cost, always, never };
// float32 convolutions as float16 numbers that a power of two scales, where TF32 is allowed: likewise.
enum class ScaledHalves : uint8_t { by_cost, always, never };

// clang-format off: tables
//  X(type, member, default, variable)
#define AULE_ENVIRONMENT(X)                                                       \
  X(bool,   strict,               false,        "TORCH_AULE_STRICT")              \
  X(Text,   visible_devices,      std::nullopt, "TORCH_AULE_VISIBLE_DEVICES")     \
  X(Text,   cache_dir,            std::nullopt, "TORCH_AULE_CACHE_DIR")           \
  X(Text,   vulkan_library,       std::nullopt, "TORCH_AULE_VULKAN_LIBRARY")      \
  X(double, time_budget_ms,       300,          "TORCH_AULE_TIME_BUDGET_MS")      \
  X(bool,   validation,           false,        "TORCH_AULE_VALIDATION")          \
  X(bool,   labels,               false,        "TORCH_AULE_LABELS")              \
  X(bool,   pipeline_statistics,  false,        "TORCH_AULE_PIPELINE_STATISTICS") \
  X(double, shm_slot_kib,         8192,         "TORCH_AULE_SHM_SLOT_KIB")        \
  X(double, inject_device_lost,   0,            "TORCH_AULE_INJECT_DEVICE_LOST")  \
  X(Text,   kernel_log,           std::nullopt, "TORCH_AULE_KERNEL_LOG")          \
  X(Text,   disable,              std::nullopt, "TORCH_AULE_DISABLE")             \
  X(Text,   limits,               std::nullopt, "TORCH_AULE_LIMITS")              \
  X(Text,   overrides,            std::nullopt, "TORCH_AULE_OVERRIDES")

// Names that TORCH_AULE_DISABLE takes beside the capabilities.
#define AULE_SWITCHES(X) \
  X(compile_threads)     \
  X(cpu_kernels)         \
  X(loop_guard)          \
  X(mapped_memory)       \
  X(pipeline_cache)      \
  X(shm)                 \
  X(timestamps)          \
  X(transfer_queue)

//  X(type, member, default)
#define AULE_OVERRIDES(X)                                            \
  X(AttentionVariant, attention_variant,     AttentionVariant::any)  \
  X(Numbers,          attention_shape,       {})                     \
  X(Numbers,          attention_shape_dq,    {})                     \
  X(Numbers,          attention_shape_dkdv,  {})                     \
  X(Numbers,          attention_tiles,       {})                     \
  X(Numbers,          attention_tiles_dq,    {})                     \
  X(Numbers,          attention_tiles_dkdv,  {})                     \
  X(double,           attention_role_split,  0)                      \
  X(bool,             attention_acc_is_a_operand, true)              \
  X(double,           attention_workspace,   -1)                     \
  X(PieceType,        float32_pieces,        PieceType::bfloat16)    \
  X(bool,             quantized_dot,         false)                  \
  X(ProductParts,     product_parts,         ProductParts::never)    \
  X(AlignedRows,      aligned_rows,          AlignedRows::by_cost)    \
  X(HaloConv,         halo_conv,             HaloConv::by_cost)       \
  X(Numbers,          halo_tile,             {})                      \
  X(Numbers,          halo_weight_tile,      {})                      \
  X(Numbers,          cholesky_panel,        {})                      \
  X(Numbers,          lu_step,               {})                      \
  X(Numbers,          tridiagonal,           {})                      \
  X(ScaledHalves,     scaled_halves,         ScaledHalves::by_cost)
// clang-format on

struct Environment {
#define AULE_MEMBER(type, member, otherwise, variable) type member = otherwise;
  AULE_ENVIRONMENT(AULE_MEMBER)
  struct {
#define AULE_SWITCH(name) bool name = false;
    AULE_SWITCHES(AULE_SWITCH)
#undef AULE_SWITCH
#define AULE_CAPABILITY(name, lack) bool name = false;
#include "core/capabilities.def"
  } disabled;             // by TORCH_AULE_DISABLE, and by sets of TORCH_AULE_LIMITS
  LimitSettings limited;  // what `limits` says
#undef AULE_MEMBER
};
const Environment& environment();

struct Overrides {
#define AULE_MEMBER(type, member, otherwise) type member = otherwise;
  AULE_OVERRIDES(AULE_MEMBER)
#undef AULE_MEMBER
  bool operator==(const Overrides&) const = default;
};
const Overrides& overrides();
void set_overrides(const Overrides& wanted);
// Sets a member by its name from what TORCH_AULE_OVERRIDES would say; "": the default. Throws std::invalid_argument
// for another name, or a text that is no such value.
void set_override(Overrides& overrides, const std::string& member, const std::string& text);

// Folder of what may be lost (TORCH_AULE_CACHE_DIR, or where the system has such things); empty: nowhere.
std::filesystem::path cache_directory();

}  // namespace aule
