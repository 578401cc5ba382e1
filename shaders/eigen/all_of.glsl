// The largest, or the sum, of the numbers that a workgroup's invocations have. Include after LOCAL and R.
#ifndef AULE_EIGEN_ALL_OF_GLSL
#define AULE_EIGEN_ALL_OF_GLSL
shared R partials[LOCAL];

R all_of(R mine, bool is_sum) {
  partials[gl_LocalInvocationID.x] = mine;
  barrier();  // partials are there
  R r = R(0);
  for (int l = 0; l < LOCAL; ++l) r = is_sum ? r + partials[l] : max(r, partials[l]);
  barrier();  // partials are read
  return r;
}
#endif
