#include "ops/coopmat/probe.h"

#include <bit>
#include <bitset>
#include <cmath>
#include <cstring>

namespace aule::ops {
namespace {

// A lane of a subgroup holds a whole number of elements, and all lanes together no fewer than the matrix has.
bool sound_length(uint32_t length, uint32_t lanes, int elements) {
  return length >= 1 && length <= kProbeSide * kProbeSide && length * lanes >= static_cast<uint32_t>(elements);
}

bool sound_product(const MatrixProbe& probe, int m, int n) {
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) {
      float expected = 0;
      for (int k = 0; k < n; ++k) expected += static_cast<float>((r * kProbeSide + k) * (k * kProbeSide + c));
      // Not "greater than", which NaN is not.
      if (!(std::abs(probe.product[r][c] - expected) <= expected / 256)) return false;
    }
  }
  return true;
}

// Splits the accumulator's index table into a part of the lane and a part of the element; false when it is not such a
// sum, when it is not one to one, or when a row does not stay within an aligned group of lanes.
bool read_layout(const MatrixProbe& probe, MatrixLayout& out) {
  const auto lanes = out.subgroup, elements = static_cast<int>(probe.acc_length);
  if (elements > kProbeElements || elements * lanes != out.m * out.n) return false;
  const auto row = [&](int lane, int e) { return static_cast<int>(probe.index[2][lane][e] / kProbeSide); };
  const auto col = [&](int lane, int e) { return static_cast<int>(probe.index[2][lane][e] % kProbeSide); };
  std::bitset<kProbeSide * kProbeSide> seen;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < elements; ++e) {
      if (probe.index[2][lane][e] >= seen.size() || row(lane, e) >= out.m || col(lane, e) >= out.n) return false;
      seen.set(probe.index[2][lane][e]);
    }
  }
  if (static_cast<int>(seen.count()) != out.m * out.n || probe.index[2][0][0] != 0) return false;
  int div = 1;
  while (div < lanes && row(div, 0) == 0) ++div;
  out.lane_div = div;
  out.lane_row = div < lanes ? row(div, 0) : 0;
  out.lane_col = div > 1 ? col(1, 0) : 0;
  if (!std::has_single_bit(static_cast<uint32_t>(div))) return false;
  int first_rows[kProbeElements];
  for (int e = 0; e < elements; ++e) {
    const int r = row(0, e), c = col(0, e);
    out.rows |= static_cast<uint32_t>(r) << (4 * e);
    out.cols |= static_cast<uint32_t>(c) << (4 * e);
    int which = 0;
    while (which < out.lane_rows && first_rows[which] != r) ++which;
    if (which == out.lane_rows) first_rows[out.lane_rows++] = r;
    out.elem_lane_rows |= static_cast<uint32_t>(which) << (4 * e);
  }
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < elements; ++e) {
      if (row(lane, e) != lane / div * out.lane_row + row(0, e) ||
          col(lane, e) != lane % div * out.lane_col + col(0, e))
        return false;
    }
  }
  // A lane's rows are equal runs of its elements: kernels count on it.
  for (int e = 0; e < elements; ++e) {
    if (elements % out.lane_rows != 0 ||
        static_cast<int>(out.elem_lane_rows >> (4 * e) & 15) != e / (elements / out.lane_rows))
      return false;
  }
  for (int which = 0; which < out.lane_rows; ++which)
    out.lane_row_offsets |= static_cast<uint32_t>(first_rows[which]) << (4 * which);
  out.elements = elements;
  return true;
}

// Whether an accumulator becomes an A operand by copying elements within a lane. The accumulator's map is one to one
// here, so A's is too where they agree.
bool read_hand_over(const MatrixProbe& probe, MatrixLayout& out) {
  if (probe.a_length != probe.acc_length) return false;
  for (int e = 0; e < out.elements; ++e) {
    int match = -1;
    for (int a = 0; a < out.elements; ++a) {
      if (probe.index[0][0][a] == probe.index[2][0][e]) match = a;
    }
    if (match < 0) return false;
    for (int lane = 0; lane < out.subgroup; ++lane) {
      if (probe.index[0][lane][match] != probe.index[2][lane][e]) return false;
    }
    out.a_elem |= static_cast<uint32_t>(match) << (4 * e);
  }
  out.b_is_a_transposed = out.m == out.n && probe.b_length == probe.a_length;
  for (int lane = 0; lane < out.subgroup && out.b_is_a_transposed; ++lane) {
    for (int e = 0; e < out.elements; ++e) {
      const uint32_t in_a = probe.index[0][lane][e], in_b = probe.index[1][lane][e];
      if (in_b != in_a % kProbeSide * kProbeSide + in_a / kProbeSide) out.b_is_a_transposed = false;
    }
  }
  return true;
}

}  // namespace

MatrixLayout read_matrix_probe(std::span<const uint32_t> words, int m, int n, uint32_t least, uint32_t most) {
  MatrixLayout out;
  if (words.size() != kProbeWords || m < 1 || n < 1 || m > kProbeSide || n > kProbeSide) return out;
  MatrixProbe probe;
  std::memcpy(&probe, words.data(), sizeof probe);
  const uint32_t lanes = probe.subgroup & 0xffff;
  if (lanes < least || lanes > most || lanes > kProbeLanes || !std::has_single_bit(lanes) ||
      (probe.subgroup & ~0x1ffffu) != 0 || !sound_length(probe.a_length, lanes, m * n) ||
      !sound_length(probe.b_length, lanes, n * n) || !sound_length(probe.acc_length, lanes, m * n) ||
      !sound_product(probe, m, n))
    return out;
  out.usable = true;
  out.m = m;
  out.n = n;
  out.subgroup = static_cast<int>(lanes);
  out.truncates = (probe.subgroup & 65536) != 0;
  MatrixLayout known = out;
  known.known = true;
  if (!read_layout(probe, known)) return out;
  MatrixLayout handed = known;
  handed.acc_is_a_operand = true;
  return read_hand_over(probe, handed) ? handed : known;
}

}  // namespace aule::ops
