#include "ops/attention_shapes.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device_caps.h"

namespace aule::ops {
namespace {

// What was tried and its timings stand in the shaders' head comments.
// 32 rows of a subgroup where registers allow, so that each loaded operand feeds two products, and workgroups of four
// subgroups with at most 24 KiB of shared memory, of which a multiprocessor holds two.
constexpr MatrixShape kForward[] = {{32, 4, 2, 32, 2, 1, 1},  {64, 4, 2, 64, 4, 1},     {80, 4, 2, 32, 1, 1},
                                    {96, 4, 2, 32, 2, 1, 1},  {128, 8, 2, 32, 1, 2, 1}, {192, 8, 1, 32, 2, 1},
                                    {256, 8, 1, 16, 1, 2}};
constexpr MatrixShape kForwardBanded[] = {{64, 4, 2, 64, 2, 1, 1},  {80, 4, 2, 32, 1, 1},  {96, 4, 2, 32, 2, 1, 1},
                                          {128, 8, 2, 16, 1, 2}, {192, 8, 1, 32, 2, 1}, {256, 8, 1, 16, 1, 2}};
// Backward: two operands stay in registers beside the accumulators, so 16 rows of a subgroup are what fits at D 128, and
// wider heads are shared by two subgroups.
constexpr MatrixShape kDq[] = {
    {64, 4, 2, 64, 1, 1}, {128, 8, 1, 64, 1, 1}, {192, 8, 1, 32, 1, 1}, {256, 8, 1, 16, 1, 1}};
constexpr MatrixShape kDkDv[] = {
    {64, 4, 2, 64, 1, 1}, {128, 8, 1, 64, 1, 1}, {192, 8, 1, 32, 1, 1}, {256, 8, 1, 16, 1, 1}};

// Other vendors: shapes that RADV compiles for RDNA3 without spilled vector registers
// (benchmarks/results/amd-radv-25.0.7.md): from D 128 backward two subgroups share the rows. None was found for D 256,
// which the portable kernels serve.
constexpr MatrixShape kForwardOthers[] = {{64, 4, 2, 64, 4, 1}, {128, 4, 1, 32, 1, 1}, {192, 8, 1, 16, 1, 2}};
constexpr MatrixShape kDqOthers[] = {
    {64, 4, 1, 64, 1, 1}, {96, 8, 1, 32, 1, 2}, {128, 8, 1, 32, 1, 1, 0, 2}, {192, 8, 1, 16, 1, 1}};
constexpr MatrixShape kDkDvOthers[] = {
    {64, 4, 1, 32, 1, 1}, {96, 8, 1, 32, 1, 1}, {128, 8, 1, 32, 1, 1, 0, 2}, {192, 8, 1, 16, 1, 1}};
constexpr uint32_t kNvidia = 0x10de;

struct Table {
  std::string_view name;  // in the file of measured shapes
  const char* variable;
  std::span<const MatrixShape> nvidia, others;
};
const std::array<Table, 4> kTables{{{"forward", "AULE_ATTENTION_SHAPE", kForward, kForwardOthers},
                                    {"forward_banded", "AULE_ATTENTION_SHAPE", kForwardBanded, kForwardOthers},
                                    {"dq", "AULE_ATTENTION_SHAPE_DQ", kDq, kDqOthers},
                                    {"dkdv", "AULE_ATTENTION_SHAPE_DKDV", kDkDv, kDkDvOthers}}};
using Measured = std::array<std::vector<MatrixShape>, kTables.size()>;

bool sound(const MatrixShape& s) {
  return s.dim >= 16 && s.dim <= 256 && s.warps >= 1 && s.warps <= 32 && s.rows >= 1 && s.rows <= 4 && s.tile >= 8 &&
         s.tile <= 128 && s.tile % 8 == 0 && s.step >= 1 && s.stages >= 1 && s.stages <= 2;
}

// Lines "pass dim warps rows tile step stages [direct]"; others, and rows that make no kernel, are passed over.
Measured read_measured(const std::string& path) {
  Measured measured;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string pass;
    MatrixShape s;
    if (!(words >> pass >> s.dim >> s.warps >> s.rows >> s.tile >> s.step >> s.stages) || !sound(s)) continue;
    if (int direct = 0; words >> direct) s.direct = direct;
    for (size_t i = 0; i < kTables.size(); ++i) {
      if (pass == kTables[i].name) measured[i].push_back(s);
    }
  }
  for (auto& rows : measured)
    std::sort(rows.begin(), rows.end(), [](const MatrixShape& a, const MatrixShape& b) { return a.dim < b.dim; });
  return measured;
}

const Measured& measured_on(int device) {
  static std::array<Measured, 64> tables;
  static std::array<std::once_flag, 64> read;
  const auto index = static_cast<size_t>(device);
  std::call_once(read.at(index), [&] {
    const std::string path = runtime::tuning_file(static_cast<c10::DeviceIndex>(device));
    if (!path.empty()) tables.at(index) = read_measured(path);
  });
  return tables.at(index);
}

MatrixShape find(std::span<const MatrixShape> rows, int dim) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const MatrixShape& r) { return dim <= r.dim; });
  return row == rows.end() ? MatrixShape{} : *row;
}

}  // namespace

MatrixShape matrix_shape(int device, AttentionPass pass, bool banded, int dim) {
  const size_t i = pass == AttentionPass::dq ? 2 : pass == AttentionPass::dkdv ? 3 : banded ? 1 : 0;
  const bool nvidia = runtime::device_caps(static_cast<c10::DeviceIndex>(device)).vendor_id == kNvidia;
  const MatrixShape shipped = find(nvidia ? kTables[i].nvidia : kTables[i].others, dim),
                    measured = find(measured_on(device)[i], dim);
  // The nearer row; a measured one where both are as near.
  MatrixShape shape = measured.dim != 0 && (shipped.dim == 0 || measured.dim <= shipped.dim) ? measured : shipped;
  if (const char* asked = std::getenv(kTables[i].variable); asked != nullptr && shape.dim != 0) {
    MatrixShape other{shape.dim};
    other.parts = shape.parts;
    if (std::sscanf(asked, "%d,%d,%d,%d,%d,%d", &other.warps, &other.rows, &other.tile, &other.step, &other.stages,
                    &other.direct) >= 5 &&
        sound(other))
      shape = other;
  }
  return shape;
}

}  // namespace aule::ops
