// Before the kernels of a ragged batch, which clamp whatever the caller's lists hold: reports an offset, a length or a
// page that does not exist. One invocation for each sequence, or for each page of each sequence.
layout(constant_id = 0) const int LOCAL = 1;
layout(local_size_x_id = 0) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t cu_seq_q, cu_seq_k, seqused_k, pages, error;  // 0: not given
  uint n;                                                // invocations
  int q_len, total_q, total_k;
  int page_step, page_count, page_rows, left;  // left: keys visible before the first query's own
  uint page_tag, length_tag;                   // of errors
};
#include "common/params.glsl"
// As in common/params.glsl: an address that may be read, in place of 0.
#define AULE_READABLE
uint64_t readable(uint64_t address) { return address != uint64_t(0) ? address : p.error; }
#include "attention/parts/sequences.glsl"

void require(int value, int most) {
  if (value < 0 || value > most)
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.length_tag, int64_t(value), int64_t(most) + 1);
}

// Offsets that do not fall, within `total` rows; at most `longest` rows of one sequence.
void check_offsets(uint64_t list, int b, int total, int longest) {
  const int from = count_at(list, b), to = count_at(list, b + 1);
  if (list == uint64_t(0)) return;
  require(from, total);
  if (from >= 0 && from <= total) require(to - from, min(longest, total - from));
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  const int step = max(p.page_step, 1), b = int(uint(id) / uint(step)), page = int(uint(id) % uint(step));
  const ivec4 sequence = sequence_of(b, p.q_len);
  const int used = count_at(p.seqused_k, b);
  if (page == 0) {
    check_offsets(p.cu_seq_q, b, p.total_q, p.q_len);
    check_offsets(p.cu_seq_k, b, p.total_k, p.total_k);
    if (p.seqused_k != uint64_t(0)) {
      const int room = p.cu_seq_k != uint64_t(0) ? count_at(p.cu_seq_k, b + 1) - count_at(p.cu_seq_k, b) : p.total_k;
      require(used, min(room, p.total_k));
    }
  }
  if (p.pages == uint64_t(0)) return;
  // Pages before those that a window reaches may be gone.
  const int first = max(0, sequence.w - sequence.y - p.left);
  const int at = page * p.page_rows;
  if (at >= sequence.w || at + p.page_rows <= first) return;
  const int found = I32Ref(p.pages + id * 4).v;
  if (found < 0 || found >= p.page_count)
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.page_tag, int64_t(found), int64_t(p.page_count));
}
