#pragma aule inline
// Values go from the butterflies of one inner pass to those of the next, through shared memory.
const int ROW = R + R / 32 + 1;  // of a column; a gap after every 32 values, which strides of powers of two need
shared C shared_values[PLANES * COLUMNS * ROW];
int slot(int plane, int of_column, int i) { return (plane * COLUMNS + of_column) * ROW + i + i / 32; }

void put_part(int r, int ns, int part) {
  [[unroll]] for (int b = 0; b < (R / r + T - 1) / T; ++b) {
    const int j = lane + b * T;
    const int k = j % ns;
    if (R / r % T == 0 || j < R / r) {
      [[unroll]] for (int t = 0; t < r; ++t)
        shared_values[slot(part % PLANES, column, (j - k) * r + k + t * ns)] =
            part == 0 ? v[b * r + t].x : v[b * r + t].y;
    }
  }
}
void get_part(int r, int part) {
  [[unroll]] for (int b = 0; b < (R / r + T - 1) / T; ++b) {
    const int j = lane + b * T;
    if (R / r % T == 0 || j < R / r) {
      [[unroll]] for (int t = 0; t < r; ++t) {
        const C value = shared_values[slot(part % PLANES, column, j + t * (R / r))];
        if (part == 0) v[b * r + t].x = value;
        else v[b * r + t].y = value;
      }
    }
  }
}
// Afterwards lanes and columns are those of the stores.
void change_owners() {
  lane = STORES_ACROSS ? int(gl_LocalInvocationID.x) / COLUMNS : int(gl_LocalInvocationID.x) % T;
  column = STORES_ACROSS ? int(gl_LocalInvocationID.x) % COLUMNS : int(gl_LocalInvocationID.x) / T;
  place_column()
}
// From butterflies of radix `from`, whose results are `ns` apart, to those of radix `to`.
void exchange(int from, int ns, int to, bool changes) {
  const int put_lane = lane;
  const int put_column = column;
  if (ns > 1) barrier();  // the last exchange's values are read before they are overwritten
  put_part(from, ns, 0)
  if (PLANES == 2) put_part(from, ns, 1)
  barrier();  // all values written
  if (changes) change_owners()
  get_part(to, 0)
  if (PLANES == 1) {
    const int get_lane = lane;
    const int get_column = column;
    barrier();  // real parts are read before they are overwritten
    lane = put_lane;
    column = put_column;
    put_part(from, ns, 1)
    lane = get_lane;
    column = get_column;
    barrier();  // imaginary parts written
  }
  get_part(to, 1)
  const int width = ns * from;
  [[unroll]] for (int b = 0; b < (R / to + T - 1) / T; ++b) {
    const int j = lane + b * T;
    turn(to, b * to, p.inner_roots, uint(j % width * (R / (width * to))), true)
  }
}
