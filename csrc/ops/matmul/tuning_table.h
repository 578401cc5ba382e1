// Measured costs of products and convolutions, by architecture. Planners compare them with each other: a wrong number
// costs time, not correctness.
#pragma once
#include <cstdint>
#include <span>

#include "core/device_profile.h"
#include "ops/matmul/route.h"

namespace aule::ops {

struct TileCost {
  TilePlan tile;
  // Microseconds that one multiprocessor takes for 64 k of the tile, and before the first and after the last of them;
  // workgroups on it do not overlap.
  double us, ends_us = 0;
  bool shares = false;  // one workgroup fills a multiprocessor: workgroups may share tiles that fill no round
};

struct ProductTuning {
  // Workgroups of a round, which fill the device.
  uint32_t workgroups_per_round = 0;
  // Split-K: microseconds that the second kernel takes, and for each sum that it reads.
  double splits_us = 0, splits_us_per_sum = 0;
  double shares_us_per_sum = 0;  // the same for the sums of shared tiles; 0: none are, for rounds are not known
  std::span<const TileCost> coopmat, implicit_gemm;  // CoopMatPlan, ImplicitGemmPlan of 16-bit operands
  uint32_t simt_large_workgroups = 0;                // the least of a SimtLargePlan
  uint32_t gemv_k_major_workgroups = 0;              // GemvWidePlan: slices of k get more invocations below it...
  uint32_t gemv_mn_major_workgroups = 0;             // ...by the order of b
  uint32_t gemv_coopmat_columns = 0;                 // GemvCoopMatPlan: from here on, a lane loads 8 of b, not 4
  // AlignedRowsPlan: what an element of a tile takes longer if it is loaded or stored alone; a copy, and each of its
  // elements; a gain so small is none; bytes that copies may take.
  double element_load_us = 0, element_store_us = 0, align_us = 0, align_us_per_element = 0, align_least_us = 0;
  uint64_t align_bytes = 0;
  uint64_t bf16x3_multiplications = 0;  // Bf16x3Plan: the number that takes as long as two more launches
};

const ProductTuning& product_tuning(const DeviceProfile& profile);

// Time of `tiles`, all batches together, if their k is shared between `wanted` workgroups, or fewer so that none is
// idle, whose parts of `sums` results are then added.
struct SplitCost {
  uint32_t splits = 1;
  double us = 0;
};
SplitCost split_cost(const ProductTuning& tuning, const TileCost& cost, uint64_t tiles, uint32_t k, double sums,
                     uint32_t wanted);

}  // namespace aule::ops
