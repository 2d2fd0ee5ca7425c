#include "engines/llm/rows.h"

#include "base/status.h"

static size_t bytes_of(const cairn_ndarray *a) { return (size_t)cairn_ndarray_count(a) * cairn_dtype_bytes(cairn_ndarray_dtype(a)); }

static bool has_rows(const crn_llm_states *s, int i) { return !crn_llm_state_is_whole(&s->contract->states[i]); }

size_t crn_llm_rows_bytes(const crn_llm_states *s, int i, int64_t n) {
  const cairn_ndarray *a = s->arrays[i].array;
  if (!has_rows(s, i)) return bytes_of(a);
  size_t bytes = cairn_dtype_bytes(cairn_ndarray_dtype(a));
  for (int k = 0; k < cairn_ndarray_rank(a); k++) bytes *= k == s->contract->states[i].axis ? (size_t)n : (size_t)cairn_ndarray_shape(a)[k];
  return bytes;
}

size_t crn_llm_all_rows_bytes(const crn_llm_states *s, int64_t n) {
  size_t bytes = 0;
  for (int i = 0; i < s->contract->n_states; i++) bytes += has_rows(s, i) ? crn_llm_rows_bytes(s, i, n) : 0;
  return bytes;
}

size_t crn_llm_whole_bytes(const crn_llm_states *s) {
  size_t bytes = 0;
  for (int i = 0; i < s->contract->n_states; i++) bytes += has_rows(s, i) ? 0 : crn_llm_rows_bytes(s, i, 0);
  return bytes;
}

cairn_status crn_llm_rows_read(const crn_llm_states *s, int i, int64_t first, int64_t end, void *out_data, size_t bytes) {
  cairn_ndarray *view;
  if (!has_rows(s, i)) return cairn_ndarray_read(s->arrays[i].array, out_data, bytes);
  if (first == end) return CAIRN_OK;
  CRN_TRY(crn_llm_slice_axis(s->arrays[i].array, s->contract->states[i].axis, first, end, &view));
  cairn_status status = cairn_ndarray_read(view, out_data, bytes);
  cairn_ndarray_release(view);
  return status;
}

cairn_status crn_llm_rows_write(crn_llm_states *s, int i, int64_t first, int64_t end, const void *data, size_t bytes) {
  cairn_ndarray *view;
  if (!has_rows(s, i)) return cairn_ndarray_write(s->arrays[i].array, data, bytes);
  if (first == end) return CAIRN_OK;
  CRN_TRY(crn_llm_slice_axis(s->arrays[i].array, s->contract->states[i].axis, first, end, &view));
  cairn_status status = cairn_ndarray_write(view, data, bytes);
  cairn_ndarray_release(view);
  return status;
}

cairn_status crn_llm_all_rows_read(const crn_llm_states *s, int64_t first, int64_t end, void *out_data) {
  char *at = out_data;
  for (int i = 0; i < s->contract->n_states; i++) {
    if (!has_rows(s, i)) continue;
    const size_t bytes = crn_llm_rows_bytes(s, i, end - first);
    CRN_TRY(crn_llm_rows_read(s, i, first, end, at, bytes));
    at += bytes;
  }
  return CAIRN_OK;
}

cairn_status crn_llm_all_rows_write(crn_llm_states *s, int64_t first, int64_t end, const void *data) {
  const char *at = data;
  for (int i = 0; i < s->contract->n_states; i++) {
    if (!has_rows(s, i)) continue;
    const size_t bytes = crn_llm_rows_bytes(s, i, end - first);
    CRN_TRY(crn_llm_rows_write(s, i, first, end, at, bytes));
    at += bytes;
  }
  return CAIRN_OK;
}

cairn_status crn_llm_whole_write(crn_llm_states *s, const void *data) {
  const char *at = data;
  for (int i = 0; i < s->contract->n_states; i++) {
    if (has_rows(s, i)) continue;
    const size_t bytes = crn_llm_rows_bytes(s, i, 0);
    CRN_TRY(crn_llm_rows_write(s, i, 0, 0, at, bytes));
    at += bytes;
  }
  return CAIRN_OK;
}

// --- between sequences --------------------------------------------------------------------------------------------------

cairn_status crn_llm_rows_pass(const crn_llm_states *from, int64_t first, int64_t end, crn_llm_states *to) {
  for (int i = 0; i < from->contract->n_states; i++) {
    if (!has_rows(from, i) || first == end) continue;
    cairn_ndarray *source = from->arrays[i].array, *target = to->arrays[i].array;
    const int axis = from->contract->states[i].axis;
    if (!cairn_ndarray_is_segmented(source) || !cairn_ndarray_is_segmented(target)) {
      CRN_TRY(crn_llm_copy_axis(source, axis, first, end, target));
      to->bytes_copied += (int64_t)crn_llm_rows_bytes(from, i, end - first);
      continue;
    }
    // Neither table grows here: its length is the capacity of its states, which they alone change.
    CRN_TRY(cairn_ndarray_share_rows(source, end, target));
  }
  return CAIRN_OK;
}

bool crn_llm_rows_were_dropped(const crn_llm_states *s) {
  for (int i = 0; i < s->contract->n_states; i++) {
    cairn_segment_counts counts;
    cairn_ndarray_count_segments(s->arrays[i].array, &counts);
    if (counts.dropped_end > counts.dropped_first) return true;
  }
  return false;
}
