// The row of a cache that a token goes to: row lengths[batch] + token of its sequence, in page block_table[batch][row /
// page_rows], without a table in page `batch`. The kernel has declared LENGTH_DTYPE, BLOCK_TABLE and its parameters.
#ifndef AULE_KVCACHE_ROW_OF_TOKEN_GLSL
#define AULE_KVCACHE_ROW_OF_TOKEN_GLSL
struct CacheRow {
  bool is_there;  // false: there is no such row; the members below are of one that exists
  uint row;       // of the sequence
  int64_t page;
};

// The first invocation of a token reports a row without a place. That of a sequence's first token writes the new
// length.
CacheRow row_of_token(uint batch, uint token, bool is_first) {
  // lavapipe 22.3 takes an int32 that was widened for positive: its sign is asked for before.
  int length;
  CacheRow at;
  at.is_there = true;
  int64_t row;
  if (LENGTH_DTYPE == AULE_DT_I32) {
    length = I32Ref(p.lengths + uint64_t(batch) * 4).v;
    at.is_there = length >= 0;
    row = int64_t(uint(max(length, 0))) + int64_t(token);
  } else {
    const int64_t wide = I64Ref(p.lengths + uint64_t(batch) * 8).v;
    length = int(wide);
    row = wide + int64_t(token);
  }
  if (is_first && token == 0u) I32Ref(p.lengths_after + uint64_t(batch) * 4).v = length + int(p.tokens);
  const int64_t rows = int64_t(p.columns) * int64_t(p.page_rows);
  at.is_there = at.is_there && row >= int64_t(0) && row < rows;
  if (!at.is_there && is_first) report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, row, rows);
  at.row = at.is_there ? uint(row) : 0u;  // addresses of what is left out stay inside
  at.page = int64_t(batch);
  if (BLOCK_TABLE) {
    const uint64_t entry = p.block_table + (uint64_t(batch) * p.columns + at.row / p.page_rows) * 4;
    const int narrow = p.columns > 0u ? I32Ref(entry).v : 0;
    const bool is_page = narrow >= 0 && int64_t(uint(narrow)) < p.pages;
    if (at.is_there && !is_page && is_first)
      report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(narrow), p.pages);
    at.is_there = at.is_there && is_page;
    at.page = is_page ? int64_t(uint(narrow)) : int64_t(0);
  }
  return at;
}
#endif
