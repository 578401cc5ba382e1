#pragma aule params ring
// cache[slot / page_rows, slot % page_rows, head] = x[token, head],  slot = slots[token], for keys and for values
//
// An invocation moves one element, or 16 bytes if WIDE, of one token and head; those of the keys come first. A token
// of a negative slot is skipped. A slot past the last page is reported. Two tokens of one slot: either may stay.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int RAW_DTYPE = 1;  // code of the moved bits, AULE_DT_RAW*
layout(constant_id = 1) const int SLOT_DTYPE = 0;
layout(constant_id = 2) const bool WIDE = false;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "common/raw.glsl"

struct Params {
  uint64_t key, value, key_cache, value_cache, slots, error;
  int64_t slot_count;                                     // pages * page_rows
  int64_t key_stride[2], value_stride[2];                 // token, head; in moved units, like those of the caches
  int64_t key_cache_stride[3], value_cache_stride[3];     // page, row, head
  uint total, heads, key_tasks, value_tasks, page_rows, tag;  // tasks: of one token and head
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer BlockRef { uvec4 v; };

void move(uint64_t from, int64_t source, uint64_t to, int64_t target) {
  if (WIDE) BlockRef(to + uint64_t(target) * 16).v = BlockRef(from + uint64_t(source) * 16).v;
  else store_bits(to, uint64_t(target), RAW_DTYPE, load_bits(from, uint64_t(source), RAW_DTYPE));
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.total)) return;
  const uint tasks = p.key_tasks + p.value_tasks;
  const uint task = uint(id) % tasks, head = uint(id) / tasks % p.heads, token = uint(id) / tasks / p.heads;
  // lavapipe 22.3 takes an int32 that was widened for positive: its sign is asked for before.
  int narrow = 0;
  int64_t slot;
  if (SLOT_DTYPE == AULE_DT_I32) {
    narrow = I32Ref(p.slots + uint64_t(token) * 4).v;
    slot = int64_t(uint(max(narrow, 0)));
  } else {
    slot = I64Ref(p.slots + uint64_t(token) * 8).v;
  }
  const bool past = slot >= p.slot_count, kept = narrow >= 0 && slot >= int64_t(0) && !past;
  if (past && head == 0u && task == 0u)
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, slot, p.slot_count);
  const int64_t safe = kept ? slot : int64_t(0);  // addresses of what is skipped stay inside too
  const int64_t page = safe / int64_t(p.page_rows), row = safe % int64_t(p.page_rows);
  if (!kept) return;
  if (task < p.key_tasks) {
    move(p.key, int64_t(token) * p.key_stride[0] + int64_t(head) * p.key_stride[1] + int64_t(task), p.key_cache,
        page * p.key_cache_stride[0] + row * p.key_cache_stride[1] + int64_t(head) * p.key_cache_stride[2] +
        int64_t(task));
  } else {
    const int64_t at = int64_t(task - p.key_tasks);
    move(p.value, int64_t(token) * p.value_stride[0] + int64_t(head) * p.value_stride[1] + at, p.value_cache,
        page * p.value_cache_stride[0] + row * p.value_cache_stride[1] + int64_t(head) * p.value_cache_stride[2] + at);
  }
}
