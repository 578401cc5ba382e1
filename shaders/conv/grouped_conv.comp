#pragma aule inline
// Convolution of thin groups (depthwise above all), 1-D and 2-D, in either memory format, and its input gradient:
//   result[n, c, y, x] = sum over m, ky, kx of source[n, g * summed + m, y', x'] * w(c, m, ky, kx)   (+ bias[c])
//   forward:        y' = y * stride - pad + ky * dilation;   input gradient: y' = (y + pad - ky * dilation) / stride,
//   where that is whole. Both along x alike. g is the group of channel c.
// An invocation has RESULTS neighbours of a row, which a row of source passes by in registers: all places along x are
// constants. Channels-last: CHANNELS of source a load, each of a result's channel, or (SUMS) all summed into one
// channel; w is [taps][channels][summed]. Otherwise BLOCK neighbours of the row a load; w is [channels][summed][taps].
// Float32 accumulation; no shared memory, no barrier.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const int LOCAL = 64;
layout(constant_id = 1) const int DTYPE = 0;
layout(constant_id = 2) const bool INPUT_GRADIENT = false;
layout(constant_id = 3) const bool CHANNELS_LAST = false;
layout(constant_id = 4) const int KERNEL_Y = 3;
layout(constant_id = 5) const int KERNEL_X = 3;
layout(constant_id = 6) const int STRIDE_Y = 1;
layout(constant_id = 7) const int STRIDE_X = 1;
layout(constant_id = 8) const int DILATION_Y = 1;
layout(constant_id = 9) const int DILATION_X = 1;
layout(constant_id = 10) const int PAD_X = 1;
layout(constant_id = 11) const int TAPS_X = 3;        // taps of a row at a time
layout(constant_id = 12) const int RESULTS = 8;       // a multiple of the stride for input gradients
layout(constant_id = 13) const int CHANNELS = 1;      // 1 unless channels-last
layout(constant_id = 14) const bool SUMS = false;
layout(constant_id = 15) const int BLOCK = 1;         // divides the rows of source, and where strips begin there
layout(constant_id = 16) const int RESULT_BLOCK = 1;  // divides the rows of the result, and RESULTS
layout(constant_id = 17) const int LANES = 1;         // channels-last: neighbours along channels in a workgroup
layout(constant_id = 18) const bool HAS_BIAS = false;
#include "common/indexing.glsl"
#include "conv/division.glsl"
#include "conv/elements.glsl"
struct Params {
  uint64_t source, w, bias, result;
  uint by_strips[2], by_height[2], by_channels[2], by_group[2];  // channels-last: by blocks of channels in by_channels
  int source_height, source_width, height, width, pad_y;
  uint source_channels, channels, summed;  // summed: channels of source per group
  uint strips, positions;                  // strips of a row; of all rows, and channels unless these are last
};
#include "common/params.glsl"
#define UN [[unroll]]

const int OWN = SUMS ? 1 : CHANNELS;  // channels of the result
const int EACH = CHANNELS_LAST ? OWN : RESULT_BLOCK;  // of a store
// Places along x that a strip's taps meet, relative to the strip's own place in source. SHIFT makes divisions floor.
const int SHIFT = 1 << 20;
const int LOWEST = INPUT_GRADIENT
    ? (PAD_X - (TAPS_X - 1) * DILATION_X + SHIFT * STRIDE_X) / STRIDE_X - SHIFT : -PAD_X;
const int HIGHEST = INPUT_GRADIENT
    ? (RESULTS - 1 + PAD_X) / STRIDE_X : (RESULTS - 1) * STRIDE_X + (TAPS_X - 1) * DILATION_X - PAD_X;
const int FROM = (LOWEST + SHIFT) / BLOCK * BLOCK - SHIFT;
const int LOADS = (HIGHEST - FROM) / BLOCK + 1;

uint n, channel, y, strip;
uint64_t source_row;
uint weight_at, weight_step, pixel;
int tap0, first_tap, start;
float acc[RESULTS * OWN];

// The tap of a row that brings the place `s` to result r, times the dilation.
int meeting(int s, int r) {
  return INPUT_GRADIENT ? r + PAD_X - (FROM + s) * STRIDE_X : FROM + s + PAD_X - r * STRIDE_X;
}
bool is_tap(int t) { return t >= 0 && t % DILATION_X == 0 && t / DILATION_X < TAPS_X; }

// TAPS_X taps of a row, from `first_tap` on. `start` is the strip's place in source.
void add_taps() {
  float w[TAPS_X * CHANNELS];
  UN for (int k = 0; k < TAPS_X; ++k) {
    uvec4 words = uvec4(0);
    if (KERNEL_X % TAPS_X == 0 || first_tap + k < KERNEL_X)
      words = load_elements(p.w + uint64_t((weight_at + uint(tap0 + first_tap + k) * weight_step) * uint(SIZE)),
          CHANNELS);
    UN for (int v = 0; v < CHANNELS; ++v) w[k * CHANNELS + v] = element(words, uint(v));
  }
  UN for (int i = 0; i < LOADS; ++i) {
    bool meets = false;  // with a large dilation or stride some places are passed over
    UN for (int e = 0; e < BLOCK; ++e)
      UN for (int r = 0; r < RESULTS; ++r) meets = meets || is_tap(meeting(i * BLOCK + e, r));
    if (meets) {
      const int x = start + FROM + i * BLOCK;
      uvec4 words = uvec4(0);
      if (uint(x) < uint(p.source_width))
        words = load_elements(source_row + uint64_t(uint(x) * pixel * uint(SIZE)), CHANNELS * BLOCK);
      UN for (int e = 0; e < BLOCK; ++e) {
        UN for (int r = 0; r < RESULTS; ++r) {
          const int t = meeting(i * BLOCK + e, r);
          if (is_tap(t)) {
            const int k = t / DILATION_X;
            if (KERNEL_X % TAPS_X == 0 || first_tap + k < KERNEL_X) {
              UN for (int v = 0; v < CHANNELS; ++v) {
                const int own = r * OWN + (SUMS ? 0 : v);
                acc[own] = fma(element(words, uint(e * CHANNELS + v)), w[k * CHANNELS + v], acc[own]);
              }
            }
          }
        }
      }
    }
  }
}

// The rows of taps over one channel, or CHANNELS of them, of source at `plane`.
void add_rows(uint64_t plane) {
  const int step = INPUT_GRADIENT && DILATION_Y == 1 ? STRIDE_Y : 1;
  for (int ky = step == 1 ? 0 : (int(y) + p.pad_y) % STRIDE_Y; ky < KERNEL_Y; ky += step) {
    int place = int(y) * STRIDE_Y - p.pad_y + ky * DILATION_Y;
    bool is_row = true;
    if (INPUT_GRADIENT) {
      const int t = int(y) + p.pad_y - ky * DILATION_Y;
      is_row = t >= 0 && t % STRIDE_Y == 0;
      place = t / STRIDE_Y;
    }
    if (is_row && uint(place) < uint(p.source_height)) {
      source_row = plane + uint64_t(uint(place * p.source_width) * pixel * uint(SIZE));
      tap0 = ky * KERNEL_X;
      for (first_tap = 0; first_tap < KERNEL_X; first_tap += TAPS_X) {
        start = INPUT_GRADIENT ? (int(strip) * RESULTS - first_tap * DILATION_X) / STRIDE_X
                               : int(strip) * RESULTS * STRIDE_X + first_tap * DILATION_X;
        add_taps();
      }
    }
  }
}

void store_results() {
  const uint image = uint(p.height * p.width) * p.channels, row = y * uint(p.width);
  const uint64_t plane = p.result + uint64_t(n) * uint64_t(image) * uint64_t(SIZE);
  const uint at = CHANNELS_LAST ? row * p.channels + channel : channel * uint(p.height * p.width) + row;
  UN for (int r = 0; r < RESULTS * OWN; r += EACH) {
    const uint x = strip * uint(RESULTS) + uint(r / OWN);
    if (x < uint(p.width)) {
      float values[MAX_E];
      UN for (int e = 0; e < MAX_E; ++e) values[e] = e < EACH ? acc[e < EACH ? r + e : 0] : 0.0;
      store_elements(plane + uint64_t((at + x * (CHANNELS_LAST ? p.channels : 1u)) * uint(SIZE)), EACH, values);
    }
  }
}

void main() {
  const uint group = linear_group(), t = gl_LocalInvocationID.x;
  uint at = group * uint(LOCAL) + t;
  channel = 0u;
  if (CHANNELS_LAST) {
    const uint block = divided(group, p.by_channels), blocks = (p.channels / OWN + LANES - 1) / LANES;
    channel = ((group - block * blocks) * LANES + t % LANES) * OWN;
    at = block * uint(LOCAL / LANES) + t / LANES;
  }
  if (at >= p.positions || channel >= p.channels) return;
  const uint line = divided(at, p.by_strips), plane = divided(line, p.by_height);
  strip = at - line * p.strips;
  y = line - plane * uint(p.height);
  n = plane;
  if (!CHANNELS_LAST) {
    n = divided(plane, p.by_channels);
    channel = plane - n * p.channels;
  }
  UN for (int r = 0; r < RESULTS * OWN; ++r) acc[r] = 0.0;
  if (HAS_BIAS) {
    UN for (int v = 0; v < OWN; ++v) {
      const float b = load_float(p.bias, uint64_t(channel + v), DTYPE);
      UN for (int r = 0; r < RESULTS; ++r) acc[r * OWN + v] = b;
    }
  }
  const uint image = uint(p.source_height * p.source_width), first = divided(channel, p.by_group) * p.summed;
  const uint64_t source = p.source + uint64_t(n) * uint64_t(image * p.source_channels) * uint64_t(SIZE);
  pixel = CHANNELS_LAST ? p.source_channels : 1u;
  weight_step = CHANNELS_LAST ? p.channels * p.summed : 1u;
  for (uint m = 0; m < p.summed; m += SUMS ? CHANNELS : 1) {
    weight_at = (channel * p.summed + m) * (CHANNELS_LAST ? 1u : uint(KERNEL_Y * KERNEL_X));
    add_rows(source + uint64_t((first + m) * (CHANNELS_LAST ? 1u : image) * uint(SIZE)));
  }
  store_results();
}
