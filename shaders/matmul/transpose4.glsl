// 4 x 4 words of 4 neighbouring lanes, exchanged by shuffles: word i of lane j becomes word j of lane i.
#ifndef AULE_TRANSPOSE4_GLSL
#define AULE_TRANSPOSE4_GLSL
uvec4 transpose4(uvec4 w) {
  const uint lane = gl_SubgroupInvocationID;
  const bool odd = (lane & 1) != 0, upper = (lane & 2) != 0;
  uint a = subgroupShuffleXor(odd ? w.x : w.y, 1), b = subgroupShuffleXor(odd ? w.z : w.w, 1);
  if (odd) { w.x = a; w.z = b; } else { w.y = a; w.w = b; }
  a = subgroupShuffleXor(upper ? w.x : w.z, 2);
  b = subgroupShuffleXor(upper ? w.y : w.w, 2);
  if (upper) { w.x = a; w.y = b; } else { w.z = a; w.w = b; }
  return w;
}
#endif
