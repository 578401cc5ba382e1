// Linear workgroup id of linear_grid() (csrc/kernels/launch.h). gl_NumWorkGroups is never used: the stream may cut a
// grid into several dispatches with a base (vkCmdDispatchBase), and then it would lie.
uint linear_group() { return gl_WorkGroupID.y * 32768u + gl_WorkGroupID.x; }
uint64_t linear_invocation() {
  return uint64_t(linear_group()) * uint64_t(gl_WorkGroupSize.x) + uint64_t(gl_LocalInvocationID.x);
}
