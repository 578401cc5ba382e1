// The cells that a position of a grid reads, along one axis: for grid_sample.comp and grid_sample_backward.comp, which
// have declared Params and the constants. The weight of a cell is the product of its axes' weights.
#include "common/float_bits.glsl"
#include "common/half_even.glsl"
#include "common/real.glsl"

struct Taps {
  int index[4];    // -1: outside
  REAL weight[4];
  REAL slope[4];   // of the weight, by the grid's number
};

const int NEAREST = 1, BICUBIC = 2, ZEROS = 0, BORDER = 1, REFLECTION = 2;
const int TAPS = MODE == NEAREST ? 1 : MODE == BICUBIC ? 4 : 2;
const int DEPTH_TAPS = DIMS == 3 ? TAPS : 1;

int checked(int i, int size) { return i >= 0 && i < size ? i : -1; }

// Position x on the edge if it is outside; sign is then 0.
REAL clipped(REAL x, int size, inout REAL sign) {
  if (x <= REAL(0)) {
    sign = REAL(0);
    return REAL(0);
  }
  if (x >= REAL(size - 1)) {
    sign = REAL(0);
    return REAL(size - 1);
  }
  return x;
}
// Position x of [low, low + span] and its mirror images; sign is -1 on each second one.
REAL reflected(REAL x, int size, inout REAL sign) {
  const REAL low = ALIGN_CORNERS ? REAL(0) : REAL(-0.5), span = REAL(ALIGN_CORNERS ? size - 1 : size);
  if (span == REAL(0)) {
    sign = REAL(0);
    return REAL(0);
  }
  x -= low;
  if (x < REAL(0)) {
    x = -x;
    sign = REAL(-1);
  }
  const REAL flips = floor(x / span), rest = x - flips * span;
  if (flips - REAL(2) * floor(flips / REAL(2)) == REAL(0)) return rest + low;
  sign = -sign;
  return span - rest + low;
}
REAL padded(REAL x, int size, inout REAL sign) {
  if (PADDING == REFLECTION) x = reflected(x, size, sign);
  return clipped(x, size, sign);
}

// Keys 1981 with a = -0.75, as interpolation has it: of a cell at distance x, near (below 1) or far (below 2).
REAL cubic_near(REAL x) { return (REAL(1.25) * x - REAL(2.25)) * x * x + REAL(1); }
REAL cubic_far(REAL x) { return ((REAL(-0.75) * x + REAL(3.75)) * x - REAL(6)) * x + REAL(3); }
REAL cubic_near_slope(REAL x) { return (REAL(3.75) * x - REAL(4.5)) * x; }
REAL cubic_far_slope(REAL x) { return (REAL(-2.25) * x + REAL(7.5)) * x - REAL(6); }

// Axis d of depth, height, width, at a position of the grid. A NaN is -1.
Taps taps_of(int d, uint64_t position) {
  Taps t;
  for (int k = 0; k < 4; ++k) {
    t.index[k] = k == 0 ? 0 : -1;
    t.weight[k] = REAL(k == 0 ? 1 : 0);
    t.slope[k] = REAL(0);
  }
  if (DIMS == 2 && d == 0) return t;
  const int size = p.in_size[d];
  REAL g = LOAD(p.grid, position * uint64_t(DIMS) + uint64_t(2 - d), DTYPE);
  if (is_nan(g)) g = REAL(-1);
  REAL slope = REAL(ALIGN_CORNERS ? size - 1 : size) / REAL(2), sign = REAL(1);
  REAL x = ALIGN_CORNERS ? (g + REAL(1)) * slope : ((g + REAL(1)) * REAL(size) - REAL(1)) / REAL(2);
  // Any further position reads the same.
  const REAL far = PADDING == REFLECTION ? REAL(268435456) : REAL(8);
  x = clamp(x, -far, REAL(size) + far);
  if (MODE != BICUBIC && PADDING != ZEROS) x = padded(x, size, sign);
  slope *= sign;
  if (MODE == NEAREST) {
    t.index[0] = checked(int(half_even(x)), size);
    return t;
  }
  const REAL low = floor(x), f = x - low;
  const int i = int(low);
  if (MODE == BICUBIC) {
    for (int k = 0; k < 4; ++k) {
      REAL unused = REAL(1);
      const int at = i - 1 + k;
      t.index[k] = PADDING == ZEROS ? checked(at, size) : int(padded(REAL(at), size, unused));
    }
    t.weight = REAL[4](cubic_far(f + REAL(1)), cubic_near(f), cubic_near(REAL(1) - f), cubic_far(REAL(2) - f));
    t.slope = REAL[4](slope * cubic_far_slope(f + REAL(1)), slope * cubic_near_slope(f),
        -slope * cubic_near_slope(REAL(1) - f), -slope * cubic_far_slope(REAL(2) - f));
    return t;
  }
  for (int k = 0; k < 2; ++k) t.index[k] = checked(i + k, size);
  t.weight[0] = REAL(1) - f;
  t.weight[1] = f;
  t.slope[0] = -slope;
  t.slope[1] = slope;
  return t;
}

// The place of a tap in its plane, or -1.
int cell_of(Taps z, Taps y, Taps x, int a, int b, int c) {
  if (z.index[a] < 0 || y.index[b] < 0 || x.index[c] < 0) return -1;
  return (z.index[a] * p.in_size[1] + y.index[b]) * p.in_size[2] + x.index[c];
}
