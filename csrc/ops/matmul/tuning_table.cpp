#include "ops/matmul/tuning_table.h"

#include <array>

namespace aule::ops {
namespace {

using A = Architecture;

// An H200. What was tried: docs/ladders/gemm_coopmat.md
constexpr TileCost kCoopMatHopper[] = {
    {{128, 256, 64, 64, 64}, 1.62, 5.5, true}, {{256, 128, 64, 64, 64}, 1.62, 5.5, true},
    {{128, 128, 64, 64, 32}, 1.30, 3.4},       {{128, 64, 64, 32, 64}, 0.55, 1.6},
    {{64, 64, 32, 32, 64}, 0.34, 1.0},         {{128, 256, 64, 64, 48}, 1.60, 5.5, true},  // both operands are mn-major
};
constexpr TileCost kCoopMat[] = {
    {{128, 256, 64, 64, 64}, 1.80},        {{256, 128, 64, 64, 64}, 1.80},
    {{128, 128, 64, 64, 32}, 1.00},        {{128, 64, 64, 32, 64}, 0.60},
    {{64, 64, 32, 32, 64}, 0.37},          {{64, 64, 32, 64, 64}, 0.60},  // subgroups of 64
    {{32, 32, 16, 16, 32}, 0.30, 0, true},                                // subgroups of 8
    {{128, 256, 64, 64, 48}, 1.75},                                       // both operands are mn-major
};
constexpr TileCost kImplicitGemm[] = {{{128, 128, 64, 32, 64}, 0.95},
                                      {{128, 64, 64, 32, 64}, 0.60},
                                      {{64, 64, 32, 32, 64}, 0.37},
                                      {{32, 32, 16, 16, 32}, 0.30}};

constexpr ProductTuning kHopper{.workgroups_per_round = 132,
                                .splits_us = 3,
                                .splits_us_per_sum = 3e-6,
                                .shares_us_per_sum = 1.5e-6,
                                .coopmat = kCoopMatHopper,
                                .implicit_gemm = kImplicitGemm,
                                .simt_large_workgroups = 96,
                                .gemv_k_major_workgroups = 512,
                                .gemv_mn_major_workgroups = 256,
                                .gemv_coopmat_columns = 8192,
                                .element_load_us = 1e-6,
                                .element_store_us = 5.8e-6,
                                .align_us = 4,
                                .align_us_per_element = 1.1e-6,
                                .align_least_us = 20,
                                .align_bytes = uint64_t{1} << 30,
                                .bf16x3_multiplications = uint64_t{1} << 27};

// Nothing was measured on other devices. They are assumed to be like an H200, as it was measured first: its best tiles
// need registers that few have, and then the costs of the others decide.
constexpr ProductTuning unmeasured(uint64_t align_bytes, double shares_us_per_sum) {
  ProductTuning tuning = kHopper;
  tuning.workgroups_per_round = 128;
  tuning.shares_us_per_sum = shares_us_per_sum;
  tuning.coopmat = kCoopMat;
  tuning.align_bytes = align_bytes;
  return tuning;
}

struct Row {
  Architecture architecture;
  ProductTuning tuning;
};
constexpr std::array kRows = {
    Row{A::hopper, kHopper},
    Row{A::lavapipe, unmeasured(64 << 10, 1.5e-6)},  // so little memory that tests cut products; and they share tiles
    Row{A::unknown, unmeasured(256 << 20, 0)},       // every architecture without a row
};

}  // namespace

const ProductTuning& product_tuning(const DeviceProfile& profile) {
  for (const Row& row : kRows)
    if (row.architecture == profile.architecture) return row.tuning;
  return kRows.back().tuning;
}

SplitCost split_cost(const ProductTuning& tuning, const TileCost& cost, uint64_t tiles, uint32_t k, double sums,
                     uint32_t wanted) {
  const uint32_t steps = ceil_div(k, cost.tile.bk), each = ceil_div(steps, wanted), splits = ceil_div(steps, each);
  double us = static_cast<double>(ceil_div(tiles * splits, uint64_t{tuning.workgroups_per_round})) *
              (each * cost.tile.bk / 64.0 * cost.us + cost.ends_us);
  if (splits > 1) us += tuning.splits_us + tuning.splits_us_per_sum * static_cast<double>(splits) * sums;
  return {splits, us};
}

}  // namespace aule::ops
