#pragma aule inline
#pragma aule axis C float double
#pragma aule axis GROUP 0 1
#pragma aule feature float64 if C=double
// A pass of a transform of `core` points (Stockham's order): with r = R0 R1 .. R4, j < core / r and k = j mod ns,
//   y[(j - k) r + k + s ns] = sum over t < r of x[j + t core / r] exp(-2 pi i (k t / (ns r) + s t / r)).
// One pass with r = core is the whole transform. A column is one j of one sequence; COLUMNS of them make a workgroup.
// GROUP 0: an invocation has a column, r = R0, in registers. GROUP 1: T invocations; the passes R0 .. R4 inside r
// exchange values through shared memory. Inverse transforms swap real and imaginary parts at both ends.
// docs/ladders/fft.md
layout(constant_id = 0) const int R0 = 2;
layout(constant_id = 1) const int R1 = 1;  // 1: there is no such pass, nor a later one
layout(constant_id = 2) const int R2 = 1;
layout(constant_id = 3) const int R3 = 1;
layout(constant_id = 4) const int R4 = 1;
layout(constant_id = 5) const int T = 1;
layout(constant_id = 6) const int COLUMNS = 64;
layout(constant_id = 7) const int LOCAL = 64;  // T * COLUMNS
layout(local_size_x_id = 7) in;
layout(constant_id = 8) const int POINTS = 2;           // of an invocation, the most of all inner passes
layout(constant_id = 9) const int PLANES = 1;           // shared memory holds both parts (2), or one after the other
layout(constant_id = 10) const bool LOADS_ACROSS = false;   // neighbouring invocations have neighbouring columns
layout(constant_id = 11) const bool STORES_ACROSS = false;
layout(constant_id = 12) const bool SEQUENCE_FIRST = false;  // neighbouring columns are of neighbouring sequences
layout(constant_id = 13) const bool IS_LATER = false;        // ns > 1
layout(constant_id = 14) const int LOAD = 0;                 // ends.glsl has the rest
layout(constant_id = 15) const int STORE = 0;
layout(constant_id = 16) const bool SWAPS_IN = false;
layout(constant_id = 17) const bool SWAPS_OUT = false;
layout(constant_id = 18) const bool SWAPS_END = false;
layout(constant_id = 19) const bool CHIRPS_IN = false;
layout(constant_id = 20) const bool CHIRPS_OUT = false;
layout(constant_id = 21) const bool FILTERS = false;
const int R = R0 * R1 * R2 * R3 * R4;
// Loops over butterflies count in ones: compilers see no end in `b * T < ..`, and arrays then stay in memory.
const int LAST = R4 > 1 ? R4 : R3 > 1 ? R3 : R2 > 1 ? R2 : R1 > 1 ? R1 : R0;
#include "common/indexing.glsl"
#include "fft/complex.glsl"

struct Params {
  uint64_t in_, out_;
  uint64_t inner_roots, roots;  // of r, of `core`
  uint64_t end_roots;           // of 2 n
  uint64_t chirp;               // n values, then the filter's `core`
  uint scale[2];  // its bits
  uint sizes[4];  // of the sequences' dimensions, the fastest first
  uint in_strides[4], out_strides[4];
  uint in_step, out_step;  // from an element to the next, in elements of the tensor
  uint columns;            // of all sequences
  uint ns, core, n;        // n: without the chirp's zeros, `core` with them
};
#include "common/params.glsl"
#include "fft/ends.glsl"

V v[POINTS];
int lane;     // of the T of a column
int column;   // in the workgroup
uint j_of_column, k_of_column, in_start, out_start;
bool is_there;
#include "fft/butterflies.glsl"

// The values of one butterfly times 1, w, w^2, ..., with w^t = root(table, e t): three products at most. `is_fine`: the
// table has every root.
void turn(int r, int at, uint64_t table, uint e, bool is_fine) {
  V powers[16];
  [[unroll]] for (int t = 1; t < r; ++t) {
    const int high = t >= 8 ? 8 : t >= 4 ? 4 : t >= 2 ? 2 : 1;
    powers[t] = is_fine ? ComplexRef(table).v[e * uint(high)] : root(table, e * uint(high));
    if (t != high) powers[t] = c_mul(powers[high], powers[t - high]);
    v[at + t] = c_mul(v[at + t], powers[t]);
  }
}

void place_column() {
  uint q = linear_group() * uint(COLUMNS) + uint(column);
  is_there = q < p.columns;
  if (!is_there) q = 0u;
  const uint per_sequence = p.core / uint(R);
  uint sequence = q;
  j_of_column = 0u;
  if (per_sequence > 1u) {
    const uint sequences = p.columns / per_sequence;
    j_of_column = SEQUENCE_FIRST ? q / sequences : q % per_sequence;
    sequence = SEQUENCE_FIRST ? q % sequences : q / per_sequence;
  }
  k_of_column = IS_LATER ? j_of_column % p.ns : 0u;
  in_start = 0u;
  out_start = 0u;
  for (int d = 0; d < 4 && sequence > 0u; ++d) {
    const uint index = sequence % p.sizes[d];
    sequence /= p.sizes[d];
    in_start += index * p.in_strides[d];
    out_start += index * p.out_strides[d];
  }
}

void load_column() {
  const uint per_sequence = p.core / uint(R);
  const uint unit = IS_LATER ? k_of_column * (p.core / (p.ns * uint(R))) : 0u;
  [[unroll]] for (int b = 0; b < (R / R0 + T - 1) / T; ++b) {
    const int first = lane + b * T;
    if (R / R0 % T == 0 || first < R / R0) {
      [[unroll]] for (int t = 0; t < R0; ++t)
        v[b * R0 + t] = is_there ? fetch(in_start, j_of_column + uint(first + t * (R / R0)) * per_sequence) : V(0);
      if (IS_LATER) {
        turn(R0, b * R0, p.roots, unit * uint(R / R0), false)
        if (R > R0) {
          const V shared_turn = root(p.roots, unit * uint(first));
          [[unroll]] for (int t = 0; t < R0; ++t) v[b * R0 + t] = c_mul(v[b * R0 + t], shared_turn);
        }
      }
    }
  }
}

void transform(int r) {
  [[unroll]] for (int b = 0; b < (R / r + T - 1) / T; ++b) dft(r, b * r)
}

void store_column(int apart) {
  const uint first_out = (j_of_column - k_of_column) * uint(R) + k_of_column;
  [[unroll]] for (int b = 0; b < (R / LAST + T - 1) / T; ++b) {
    const int first = lane + b * T;
    if (is_there && (R / LAST % T == 0 || first < R / LAST)) {
      [[unroll]] for (int t = 0; t < LAST; ++t)
        put(out_start, first_out + uint(first + t * apart) * (IS_LATER ? p.ns : 1u), v[b * LAST + t]);
    }
  }
}

#if GROUP
#include "fft/exchange.glsl"
#endif

void main() {
  lane = LOADS_ACROSS ? int(gl_LocalInvocationID.x) / COLUMNS : int(gl_LocalInvocationID.x) % T;
  column = LOADS_ACROSS ? int(gl_LocalInvocationID.x) % COLUMNS : int(gl_LocalInvocationID.x) / T;
  place_column()
  load_column()
  transform(R0)
#if GROUP
  if (R1 > 1) {
    exchange(R0, 1, R1, STORES_ACROSS != LOADS_ACROSS)
    transform(R1)
  }
  if (R2 > 1) {
    exchange(R1, R0, R2, false)
    transform(R2)
  }
  if (R3 > 1) {
    exchange(R2, R0 * R1, R3, false)
    transform(R3)
  }
  if (R4 > 1) {
    exchange(R3, R0 * R1 * R2, R4, false)
    transform(R4)
  }
#endif
  store_column(R / LAST)
}
