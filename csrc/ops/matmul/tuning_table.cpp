#include "ops/matmul/tuning_table.h"

#include <array>

namespace aule::ops {
namespace {

using A = Architecture;

// An H200. What was tried: docs/ladders/gemm_coopmat.md
constexpr TileCost kCoopMat[] = {
    {{128, 256, 64, 64, 64}, 1.80}, {{256, 128, 64, 64, 64}, 1.80}, {{128, 128, 64, 64, 32}, 1.00},
    {{128, 64, 64, 32, 64}, 0.60},  {{64, 64, 32, 32, 64}, 0.37},   {{64, 64, 32, 64, 64}, 0.60},  // subgroups of 64
    {{32, 32, 16, 16, 32}, 0.30},                                                                  // subgroups of 8
    {{128, 256, 64, 64, 48}, 1.75},  // both operands are mn-major
};
constexpr TileCost kImplicitGemm[] = {{{128, 128, 64, 32, 64}, 0.95},
                                      {{128, 64, 64, 32, 64}, 0.60},
                                      {{64, 64, 32, 32, 64}, 0.37},
                                      {{32, 32, 16, 16, 32}, 0.30}};

constexpr ProductTuning kHopper{.workgroups_per_round = 128,
                                .splits_us = 3,
                                .splits_us_per_sum = 3e-6,
                                .coopmat = kCoopMat,
                                .implicit_gemm = kImplicitGemm,
                                .simt_large_workgroups = 96,
                                .gemv_k_major_workgroups = 512,
                                .gemv_mn_major_workgroups = 256,
                                .gemv_coopmat_columns = 8192,
                                .bf16x3_multiplications = uint64_t{1} << 27};

struct Row {
  Architecture architecture;
  ProductTuning tuning;
};
constexpr std::array kRows = {
    Row{A::hopper, kHopper},
    // Every architecture without a row. Nothing was measured on any: they are assumed to be like an H200.
    Row{A::unknown, kHopper},
};

}  // namespace

const ProductTuning& product_tuning(const DeviceProfile& profile) {
  for (const Row& row : kRows)
    if (row.architecture == profile.architecture) return row.tuning;
  return kRows.back().tuning;
}

}  // namespace aule::ops
