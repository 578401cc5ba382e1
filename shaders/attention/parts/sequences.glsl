// The sequences of a ragged batch, read from the caller's lists on the device. All numbers are clamped to the tensors'
// sizes, so no length read here leads outside of them. An empty sequence starts at a row that exists.
#ifndef AULE_ATTENTION_SEQUENCES_GLSL
#define AULE_ATTENTION_SEQUENCES_GLSL
int count_at(uint64_t list, int i) {
  return I32Ref(readable(list) + (list != uint64_t(0) ? uint64_t(i) * 4 : uint64_t(0))).v;
}

// {first query, queries, first key, keys} of batch element b. Queries: cu_seq_q[b] to cu_seq_q[b + 1], or q_len for
// each. Keys: cu_seq_k likewise, or total_k for each from its own row 0 on; seqused_k[b] of them, if given.
ivec4 sequence_of(int b, int q_len) {
  const int q_from = count_at(p.cu_seq_q, b), q_to = count_at(p.cu_seq_q, b + 1);
  const int k_from = count_at(p.cu_seq_k, b), k_to = count_at(p.cu_seq_k, b + 1), used = count_at(p.seqused_k, b);
  ivec4 s = ivec4(b * q_len, q_len, 0, p.total_k);
  if (p.cu_seq_q != uint64_t(0)) {
    s.x = clamp(q_from, 0, p.total_q);
    s.y = clamp(q_to, s.x, min(s.x + q_len, p.total_q)) - s.x;
  }
  if (p.cu_seq_k != uint64_t(0)) {
    s.z = clamp(k_from, 0, p.total_k);
    s.w = clamp(k_to, s.z, p.total_k) - s.z;
  }
  if (p.seqused_k != uint64_t(0)) s.w = clamp(used, 0, s.w);
  return ivec4(min(s.x, p.total_q - 1), s.y, min(s.z, p.total_k - 1), s.w);
}
#endif
