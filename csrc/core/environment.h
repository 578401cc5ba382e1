// Every environment variable that the C++ side reads, in two tables: this is the only place that reads any.
// docs/environment.md says what each does, and is compared with these rows (test/test_docs.py).
//
// `Environment` is parsed once, at its first use. `Overrides` change plans, for measurements and tests: they begin as
// the variables say and may be replaced while the process runs (torch_aule.tune.override).
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

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
enum class AttentionVariant : uint8_t { any, simd, simt, coopmat, coopmat_opaque, splitkv, splitkv_shared };
// What float32 products in three pieces are made of.
enum class PieceType : uint8_t { bfloat16, float16 };
// Products of rows that start between 16-byte boundaries: copied if the planner expects a gain, or whatever it expects.
enum class AlignedRows : uint8_t { by_cost, always, never };

// clang-format off: tables
//  X(type, member, default, variable)
#define AULE_ENVIRONMENT(X)                                                       \
  X(bool,   strict,               false,        "TORCH_AULE_STRICT")              \
  X(Text,   visible_devices,      std::nullopt, "TORCH_AULE_VISIBLE_DEVICES")     \
  X(Text,   cache_dir,            std::nullopt, "TORCH_AULE_CACHE_DIR")           \
  X(bool,   pipeline_cache,       true,         "TORCH_AULE_PIPELINE_CACHE")      \
  X(Text,   vulkan_library,       std::nullopt, "TORCH_AULE_VULKAN_LIBRARY")      \
  X(double, time_budget_ms,       300,          "TORCH_AULE_TIME_BUDGET_MS")      \
  X(bool,   validation,           false,        "TORCH_AULE_VALIDATION")          \
  X(bool,   labels,               false,        "TORCH_AULE_LABELS")              \
  X(bool,   pipeline_statistics,  false,        "TORCH_AULE_PIPELINE_STATISTICS") \
  X(double, max_loop_iterations,  -1,           "TORCH_AULE_MAX_LOOP_ITERATIONS") \
  X(bool,   disable_loop_guard,   false,        "TORCH_AULE_DISABLE_LOOP_GUARD")  \
  X(bool,   disable_cpu_kernels,  false,        "TORCH_AULE_DISABLE_CPU_KERNELS") \
  X(bool,   disable_timestamps,   false,        "TORCH_AULE_DISABLE_TIMESTAMPS")  \
  X(bool,   disable_shm,          false,        "TORCH_AULE_DISABLE_SHM")         \
  X(double, shm_slot_kib,         8192,         "TORCH_AULE_SHM_SLOT_KIB")        \
  X(bool,   disable_coopmat,      false,        "TORCH_AULE_DISABLE_COOPMAT")     \
  X(double, inject_device_lost,   0,            "TORCH_AULE_INJECT_DEVICE_LOST")  \
  X(Text,   kernel_log,           std::nullopt, "TORCH_AULE_KERNEL_LOG")

#define AULE_OVERRIDES(X)                                                                                         \
  X(AttentionVariant, attention_variant,          AttentionVariant::any, "TORCH_AULE_ATTENTION_VARIANT")          \
  X(Numbers,          attention_shape,            {},                    "TORCH_AULE_ATTENTION_SHAPE")            \
  X(Numbers,          attention_shape_dq,         {},                    "TORCH_AULE_ATTENTION_SHAPE_DQ")         \
  X(Numbers,          attention_shape_dkdv,       {},                    "TORCH_AULE_ATTENTION_SHAPE_DKDV")       \
  X(Numbers,          attention_tiles,            {},                    "TORCH_AULE_ATTENTION_TILES")            \
  X(Numbers,          attention_tiles_dq,         {},                    "TORCH_AULE_ATTENTION_TILES_DQ")         \
  X(Numbers,          attention_tiles_dkdv,       {},                    "TORCH_AULE_ATTENTION_TILES_DKDV")       \
  X(double,           attention_role_split,       0,                     "TORCH_AULE_ATTENTION_ROLE_SPLIT")       \
  X(bool,             attention_acc_is_a_operand, true,                  "TORCH_AULE_ATTENTION_ACC_IS_A_OPERAND") \
  X(double,           attention_workspace,        0,                     "TORCH_AULE_ATTENTION_WORKSPACE")        \
  X(PieceType,        float32_pieces,             PieceType::bfloat16,   "TORCH_AULE_FLOAT32_PIECES")             \
  X(AlignedRows,      aligned_rows,               AlignedRows::by_cost,  "TORCH_AULE_ALIGNED_ROWS")
// clang-format on

struct Environment {
#define AULE_MEMBER(type, member, otherwise, variable) type member = otherwise;
  AULE_ENVIRONMENT(AULE_MEMBER)
  // TORCH_AULE_DISABLE_<NAME> of each capability.
  struct {
#define AULE_CAPABILITY(name, lack) bool name = false;
#include "core/capabilities.def"
  } disabled;
};
const Environment& environment();

struct Overrides {
  AULE_OVERRIDES(AULE_MEMBER)
#undef AULE_MEMBER
  bool operator==(const Overrides&) const = default;
};
const Overrides& overrides();
void set_overrides(const Overrides& wanted);
// Sets a member by its name from what its variable would say; "": the default. Throws std::invalid_argument for
// another name, or a text that is no such value.
void set_override(Overrides& overrides, const std::string& member, const std::string& text);

// Folder of what may be lost (TORCH_AULE_CACHE_DIR, or where the system has such things); empty: nowhere.
std::filesystem::path cache_directory();

}  // namespace aule
