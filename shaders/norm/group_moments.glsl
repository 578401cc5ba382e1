// Mean and sum of squared deviations of a row in the registers of a workgroup, with one barrier. A subgroup sums
// x - pivot and its square, where the pivot is one of its own elements. This bounds the cancellation by its number of
// elements. The subgroups' moments are combined in the same way, about the first one's mean. Include after
// rowwise_group.glsl and moments.glsl.
#if GROUP == 2
shared C part_n[2][LOCAL / 4 + 1];
#endif
Moments group_moments(V4 kept[KEPT], uint lane) {
  V4 sum = V4(0), squares = V4(0);
#if GROUP == 2
  const C pivot = subgroupShuffle(kept[0].x, 0u);
  C n = C(4u * KEPT * min(gl_SubgroupSize, uint(LOCAL)));
  if (!IS_FULL) {
    C count = C(0);
    [[unroll]] for (int j = 0; j < KEPT; ++j) count += C(min(4u, p.n - min(p.n, vec4_at(j, lane))));
    n = subgroupAdd(count);
  }
  [[unroll]] for (int j = 0; j < KEPT; ++j) {
    const V4 d = inside(kept[j] - pivot, vec4_at(j, lane), p.n);
    sum += d;
    squares += d * d;
  }
  const Moments part = moments(n, pivot, subgroupAdd(sum4(sum)), subgroupAdd(sum4(squares)));
  if (gl_NumSubgroups == 1u) return part;
  turn ^= 1u;
  if (subgroupElect()) {
    part_n[turn][gl_SubgroupID] = part.n;
    part_a[turn][gl_SubgroupID] = part.mean;
    part_b[turn][gl_SubgroupID] = part.m2;
  }
  barrier();  // all parts written
  const C first = part_a[turn][0];
  C s1 = C(0), s2 = C(0);
  for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
    const C d = part_a[turn][i] - first, m = part_n[turn][i] * d;
    s1 += m;
    s2 += part_b[turn][i] + m * d;
  }
  return moments(C(p.n), first, subgroupAdd(s1), subgroupAdd(s2));
#else
  [[unroll]] for (int j = 0; j < KEPT; ++j) sum += kept[j];
  const C mean = group_sum(Pair(sum4(sum), C(0))).a / C(p.n);
  [[unroll]] for (int j = 0; j < KEPT; ++j) {
    const V4 d = inside(kept[j] - mean, vec4_at(j, lane), p.n);
    squares += d * d;
  }
  return Moments(C(p.n), mean, group_sum(Pair(sum4(squares), C(0))).a);
#endif
}
