// Linear workgroup id of linear_grid() (csrc/kernels/launch.h). gl_NumWorkGroups is never used: it is wrong if the
// stream splits a grid into several dispatches with a base (vkCmdDispatchBase).
uint linear_group() { return gl_WorkGroupID.y * 32768u + gl_WorkGroupID.x; }
uint64_t linear_invocation() {
  return uint64_t(linear_group()) * uint64_t(gl_WorkGroupSize.x) + uint64_t(gl_LocalInvocationID.x);
}

// 64-bit min, max and clamp by comparisons. The built-in clamp gave wrong values on NVIDIA (driver 580.159), so
// compile.py refuses all three.
int64_t lesser(int64_t a, int64_t b) { return b < a ? b : a; }
uint64_t lesser(uint64_t a, uint64_t b) { return b < a ? b : a; }
int64_t limited(int64_t x, int64_t low, int64_t high) { return x < low ? low : (x > high ? high : x); }
