// Bilinear weights of a place (y, x) between the cells of a plane [height, width], for kernels with axis C.
#ifndef AULE_BILINEAR_GLSL
#define AULE_BILINEAR_GLSL
struct Corners {
  int index[4];      // of its plane: top left, top right, bottom left, bottom right; -1: outside
  REAL weight[4];
  REAL by_y[4], by_x[4];  // slopes of the weights
};

int cell_at(int y, int x, int height, int width) {
  return y >= 0 && y < height && x >= 0 && x < width ? y * width + x : -1;
}

// The cells around (y, x), which is limited to a cell around the plane, so that it fits an integer.
Corners corners_of(REAL y, REAL x, int height, int width) {
  y = clamp(y, REAL(-2), REAL(height) + REAL(1));
  x = clamp(x, REAL(-2), REAL(width) + REAL(1));
  const REAL top = floor(y), left = floor(x), fy = y - top, fx = x - left, gy = REAL(1) - fy, gx = REAL(1) - fx;
  const int iy = int(top), ix = int(left);
  Corners c;
  for (int k = 0; k < 4; ++k) c.index[k] = cell_at(iy + k / 2, ix + k % 2, height, width);
  c.weight = REAL[4](gy * gx, gy * fx, fy * gx, fy * fx);
  c.by_y = REAL[4](-gx, -fx, gx, fx);
  c.by_x = REAL[4](-gy, gy, -fy, fy);
  return c;
}
#endif
